# The cost of page faults: on the kernel as it is, in a cgroup, and with a map loaded; without
# colors while others have some; in a cgroup of eight colors of 32, which are whole blocks or lie
# apart.
. /lib.sh
map=/sys/kernel/mm/page_color/map

# fault_cost_in CGROUP NAME
fault_cost_in() {
    (put 0 "/cg/$1/cgroup.procs" && exec fault-cost "$2")
}

put never /sys/kernel/mm/transparent_hugepage/enabled
fault-cost plain
put +memory /cg/cgroup.subtree_control
mkdir /cg/u
fault_cost_in u "in a cgroup"
if [ -e $map ]; then
    printf 'bank 0x2000\nbank 0x4000\nbank 0x8000\nbank 0x200000\nbank 0x400000\n' >$map
    fault-cost "map loaded"
    mkdir /cg/a
    put bank=0-7 /cg/a/memory.colors
    fault_cost_in u "in a cgroup, others colored"
    fault_cost_in a colored
    put bank=0,3,9,14,18,21,27,28 /cg/a/memory.colors
    fault_cost_in a "colored, apart"
    check "it was colored" [ "$(sed -n 's/^color_alloc //p' /proc/vmstat)" -ge 98304 ]
fi
true
