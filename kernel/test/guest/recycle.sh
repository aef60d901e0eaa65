# Colored programs on a kernel without UFFDIO_MOVE: their output, and the colors of their pages.
. /lib.sh
export PATH=/usr/bin:/bin
mkdir -p /run
cd /tmp || exit 1
uname -r
colored() {
    memweir color run --map /map.toml --colors 0-3 --json /tmp/run.json -- "$@"
}
count() {
    sed -n "s/.*\"$1\": \([0-9]*\),*/\1/p" /tmp/run.json
}
# same NAME COMMAND...: plain and colored say the same, and no page was short of its colors.
same() {
    program=$1
    shift
    "$@" >/tmp/plain
    colored "$@" >/tmp/colored
    check "$program says the same" cmp /tmp/plain /tmp/colored
    check "$program was recycled" grep -q '"delivery": "recycle"' /tmp/run.json
    for none in spilled waited refused uncolored failed; do
        check "$program: none $none" [ "$(count $none)" = 0 ]
    done
    for counter in placed adopted mended_after_fork busy missed; do
        echo "$program: $counter $(count $counter)"
    done
}
seq 30000 | awk '{ print $1 * 7919 % 30011 }' >lines
same sort /usr/bin/sort --parallel=2 lines
same perl perl -e '$h{$_ % 977} .= $_ for 1 .. 30000; print join(",", map { length $h{$_} } sort keys %h), "\n"'
same forks perl -e '@x = (1 .. 20000); $p = fork; if (!$p) { $x[0] = 5; exit 3 } wait; $x[$_]++ for 0 .. $#x; print $? >> 8, " $x[0]\n"'
same python python3 -S -c 'print(sum(len(str(i)) for i in [*range(50000)]))'

# Where the pages of a program are that has threads, while it waits.
mkfifo stop
colored python3 -S -c 'import _thread, os, time
keep = []
[_thread.start_new_thread(lambda: (keep.append(list(range(5000))), time.sleep(999)), ()) for _ in range(3)]
x = [str(i) for i in range(50000)]
time.sleep(1); print(os.getpid(), file=open("pid.part", "w")); os.rename("pid.part", "pid"); open("stop").read()' &
until [ -e pid ]; do sleep 1; done
# A page that missed its frame is exchanged within seconds.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    memweir color audit "$(cat pid)" --json /tmp/audit.json >/dev/null
    ! grep -q '"inside_share": 1.0' /tmp/audit.json || break
    sleep 3
done
memweir color audit "$(cat pid)" | head -n 8
check "every page is inside" grep -q '"inside_share": 1.0' /tmp/audit.json
echo >stop
wait

# A shortage ends a program by SIGBUS without the kernel's help (UFFDIO_POISON).
memweir color run --map /map.toml --colors 0-3 --limit 4M --on-shortage refuse --json /tmp/run.json -- \
    python3 -S -c 'bytearray(b"1") * (16 << 20)'
check "a shortage is a bus error" [ "$(count signal)" = 7 ]
if memweir color run --map /map.toml --colors 0-3 --delivery move -- /usr/bin/sort lines; then
    echo "FAIL moving is refused"
fi
memweir doctor | grep -i recycl
