# memweir on a kernel that reads swap in place: `page run --kernel` and `doctor`. 64 MiB of data
# in 32 MiB of DRAM, and 128 MiB of emulated NVDIMM.
. /memweir.sh
# page_run ARGUMENTS...
page_run() {
    memweir page run --kernel --dram 32M "$@"
}
no_swap_is_used() {
    [ "$(wc -l </proc/swaps)" = 1 ]
}

check "doctor" run 0 memweir doctor
check "doctor knows direct read" said "swap devices can be read in place"

check "a device without a swap area" run 3 page_run --swap /dev/pmem0 -- fill 64
check "what would help" said "mkswap /dev/pmem0"
mkswap /dev/pmem0 >/dev/null

before=$(vmstat swpin_direct)
copied=$(vmstat swpin_direct_copy)
straight=$(vmstat pswpin)
check "page run" run 0 page_run --swap /dev/pmem0 --json /tmp/json -- fill 64
check "contents" said "filled 16384 pages, 0 wrong"
check "the table" said "read in place"
check "exit_code" counted exit_code /tmp/json -eq 0
check "evictions" counted evictions /tmp/json -ge 8192
check "direct_reads" counted direct_reads /tmp/json -ge 8192
copies=$(($(vmstat swpin_direct_copy) - copied + $(vmstat pswpin) - straight))
check "copies_in, of the quarter that is written again" counted copies_in /tmp/json -ge 1024
# The counters of a group, which memweir reads, may lack up to 64 events per processor (6.12:
# memcontrol.c, memcg_vmstats_needs_flush).
check "are those of the kernel" counted copies_in /tmp/json -ge $((copies - 128))
check "and no others" counted copies_in /tmp/json -le $copies
check "copies_avoided" counted copies_avoided /tmp/json -ge 4096
check "dram_peak_bytes" counted dram_peak_bytes /tmp/json -le 34078720
check "nvm_peak_bytes" counted nvm_peak_bytes /tmp/json -ge 33554432
check "oom_kills" counted oom_kills /tmp/json -eq 0
check "the kernel counted it" grew swpin_direct "$before" 8192
check "the device is given back" no_swap_is_used
check "the group is gone" no_group_is_left

before=$(vmstat swpin_direct)
check "page run --no-direct-read" run 0 \
    page_run --no-direct-read --swap /dev/pmem0 --json /tmp/json -- fill 64
check "contents after copies" said "filled 16384 pages, 0 wrong"
check "copies" counted copies_in /tmp/json -ge 8192
check "none in place" counted direct_reads /tmp/json -eq 0
check "the kernel says so, too" [ "$(vmstat swpin_direct)" = "$before" ]

put 96M /sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
check "a device that is no memory" run 3 page_run --swap /dev/zram0 -- fill 64
check "is named" said "/dev/zram0 cannot be read in place"
swapon-direct /dev/pmem0
check "a device in use" run 3 page_run --swap /dev/pmem0 -- fill 64
check "swapoff would help" said "swapoff"
check "the areas in use serve, too" run 0 page_run --json /tmp/json -- fill 64
check "in place" counted direct_reads /tmp/json -ge 8192
swapoff /dev/pmem0

check "no room at all" run 137 page_run --json /tmp/json -- fill 64
check "the killer's victim" said "was ended by signal 9"
check "is counted" counted oom_kills /tmp/json -ge 1
check "a program that fails" run 7 page_run --swap /dev/pmem0 -- sh -c 'exit 7'
check "its status is told" said "ended with status 7"
check "too little memory" run 2 memweir page run --kernel --dram 4K -- true
check "no swap is left" no_swap_is_used
check "no group is left" no_group_is_left
true
