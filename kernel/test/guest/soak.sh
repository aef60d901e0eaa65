# Everything at once, for as long as stress= says: stress-ng checks what it reads back, while its
# processes go from cgroup to cgroup, memory goes off line and comes back, and swap is switched
# off and on. With page colors, the cgroups have some, and others every second.
. /lib.sh
case $(argument stress) in
soak) seconds=$(argument soak_seconds) ;;
*) seconds=60 ;;
esac
if grep -q '^swpin_direct ' /proc/vmstat; then
    device=/dev/pmem0
else
    device=/dev/zram0
    put 256M /sys/block/zram0/disksize
fi
mkswap $device >/dev/null

swap_on() {
    case $device in
    /dev/pmem0) swapon-direct $device ;;
    *) swapon $device ;;
    esac
}

# until_stopped NAME COMMAND...: again and again; how often it succeeded and failed is in
# /tmp/NAME.*.
until_stopped() {
    loop=$1
    shift
    done_so_far=0 failed_so_far=0
    until [ -e /tmp/stop ]; do
        if "$@" 2>/dev/null; then
            done_so_far=$((done_so_far + 1))
        else
            failed_so_far=$((failed_so_far + 1))
        fi
        echo $done_so_far >"/tmp/$loop.done"
        echo $failed_so_far >"/tmp/$loop.failed"
    done
}

# put, but never while another process is in here. The stock kernel's compaction reads pages of a
# block that is just going off line, and dies of it within two hours.
put_alone() {
    until mkdir /tmp/alone 2>/dev/null; do sleep 0.1; done
    put "$1" "$2"
    outcome=$?
    rmdir /tmp/alone
    return $outcome
}

# Memory that can be moved goes away and comes back; a block with a page that cannot is refused.
hotplug() {
    block=/sys/devices/system/memory/memory$(shuf -i 0-7 -n 1)
    sleep 1
    put_alone offline "$block/state" || return 1
    sleep 1
    until put_alone online_movable "$block/state"; do sleep 1; done
}

move_everybody() {
    for pair in "a b" "b a"; do
        for process in $(cat "/cg/${pair% *}/cgroup.procs"); do
            put "$process" "/cg/${pair#* }/cgroup.procs"
        done
        sleep 1
    done
}

# Pages go out meanwhile: while swapoff brings them all back, none can.
swap_off_and_on() {
    sleep 15
    swapoff $device || return 1
    until swap_on; do sleep 1; done
}

change_colors() {
    for colors in 0-7 3,9-12 0-31 8-15; do
        put "bank=$colors" /cg/a/memory.colors
        sleep 1
    done
}

# Pages out, wherever the processes are.
reclaim() {
    sleep 0.1
    put 2M /cg/a/memory.reclaim || put 2M /cg/b/memory.reclaim
}

compact() {
    sleep 2
    put_alone 1 /proc/sys/vm/compact_memory
}

# A soak of hours shows how far it has come, by the guest's own clock.
say_how_far() {
    while sleep 300; do
        echo "after $(($(clock) / 100)) s:" \
            "$(for loop in $loops; do echo "$loop $(cat "/tmp/$loop.done")"; done | paste -sd ,)"
    done
}

put +memory /cg/cgroup.subtree_control
mkdir /cg/a /cg/b
swap_on
loops='hotplug move_everybody swap_off_and_on reclaim compact'
if [ -e /sys/kernel/mm/page_color/map ]; then
    printf 'bank 0x2000\nbank 0x4000\nbank 0x8000\nbank 0x200000\nbank 0x400000\n' \
        >/sys/kernel/mm/page_color/map
    loops="$loops change_colors"
fi
for loop in $loops; do
    until_stopped "$loop" "$loop" &
done
echo "clock: $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
say_how_far &
reporter=$!
(
    put 0 /cg/a/cgroup.procs
    exec stress-ng --verify --timeout "${seconds}s" --metrics-brief --temp-path /tmp \
        --vm 2 --vm-bytes 48m --mremap 1 --mremap-bytes 8m --fork 1 --mmap 1 --mmap-bytes 16m \
        --userfaultfd 1 --userfaultfd-bytes 8m --vm-splice 1 --numa 1 --mlock 1
) >/tmp/stress.log 2>&1
code=$?
tail -n 25 /tmp/stress.log
touch /tmp/stop
kill $reporter
wait
# The worker that moves pages between nodes gives up where one of them has no memory left.
full_node='numa: move_pages failed, errno=12 '
read_what_it_had_written() {
    [ $code != 0 ] || return 0
    [ $code = 2 ] && grep -q "$full_node" /tmp/stress.log &&
        ! grep 'fail:' /tmp/stress.log | grep -v "$full_node" &&
        ! grep 'terminated with an error' /tmp/stress.log | grep -vF '(numa)'
}
check "stress-ng read what it had written, for $seconds s (exit $code)" read_what_it_had_written
for loop in $loops; do
    check "$loop: $(cat "/tmp/$loop.done") times, $(cat "/tmp/$loop.failed") refused" \
        [ "$(cat "/tmp/$loop.done")" -ge 1 ]
done
grep -E '^(pswp|swpin_direct|color_|pgmigrate|compact_success|thp_swpout)' /proc/vmstat
swapoff $device
check "no swap is left" [ "$(wc -l </proc/swaps)" = 1 ]
