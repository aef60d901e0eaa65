# A hash of strings that is filled once and looked at again and again.
my (%h, $total);
$h{"key$_"} = "a value that takes some room $_" for 1 .. 50000;
for my $turn (1 .. 6) {
    for (my $i = 1; $i <= 50000; $i += 3) {
        $total += length $h{"key" . (($i * 7919 + $turn) % 50000 + 1)};
    }
}
print "$total\n";
