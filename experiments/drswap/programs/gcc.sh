#!/bin/sh
# The compiler proper on one file with many functions.
set -eu
directory=$(mktemp -d)
i=0
while [ $i -lt 400 ]; do
    echo "int f$i(int a, int b) { int s = 0; for (int i = 0; i < a; i++) { s += (b ^ i) * $i + s / (i + 1); if (s > b) s -= a; } return s; }"
    i=$((i + 1))
done > "$directory/many.c"
"$(gcc -print-prog-name=cc1)" -quiet -O1 "$directory/many.c" -o "$directory/many.s"
wc -c < "$directory/many.s"
rm -r "$directory"
