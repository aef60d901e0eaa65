# What page faults cost: as the kernel is; with a map loaded and no colors; in a cgroup of eight colors of 32.
. /lib.sh
map=/sys/kernel/mm/page_color/map
put never /sys/kernel/mm/transparent_hugepage/enabled
fault-cost plain
if [ -e $map ]; then
    put +memory /cg/cgroup.subtree_control
    printf 'bank 0x2000\nbank 0x4000\nbank 0x8000\nbank 0x200000\nbank 0x400000\n' >$map
    fault-cost "map loaded"
    mkdir /cg/a
    put bank=0-7 /cg/a/memory.colors
    (put 0 /cg/a/cgroup.procs && exec fault-cost colored)
    check "it was colored" [ "$(sed -n 's/^color_alloc //p' /proc/vmstat)" -ge 49152 ]
fi
true
