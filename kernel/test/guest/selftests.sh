# The kernel's own mm selftests, one after the other, with swap on the emulated NVDIMM: by direct
# read where the kernel has it. The command line names them: selftests=A,B:-x:1,C. The kernel's
# messages come last, not in the middle of a test's line; a panic comes at once.
. /lib.sh
dmesg -n 1
mkswap /dev/pmem0 >/dev/null
if grep -q '^swpin_direct ' /proc/vmstat; then
    swapon-direct /dev/pmem0
else
    swapon /dev/pmem0
fi
put 32 /proc/sys/vm/nr_hugepages
# Without a map page colors do nothing.
if [ "$(argument selftest_set)" = long ] && [ -e /sys/kernel/mm/page_color/map ]; then
    check "a map of 32 colors" put "$(printf 'bank 0x%x\n' 0x2000 0x4000 0x8000 0x200000 0x400000)" \
        /sys/kernel/mm/page_color/map
fi
# Some cases of mremap_test take low addresses for granted, where a heap may lie by chance.
put 0 /proc/sys/kernel/randomize_va_space
uptime_seconds() {
    cut -d . -f 1 /proc/uptime
}
# run CALL: a program and its arguments, with colons between, and + for colons in these.
run() {
    echo "SELFTEST $1"
    begun=$(uptime_seconds)
    # shellcheck disable=SC2046
    (cd /tmp && $(echo "$1" | tr ':+' ' :'))
    code=$?
    echo "EXIT $code after $(($(uptime_seconds) - begun)) s"
    [ $code = 0 ] || [ $code = 4 ]
}

# Not all of them succeed each time on any kernel: pages that another CPU has yet to put on an LRU
# list are in use, and cannot be dropped.
for call in $(argument selftests | tr ',' ' '); do
    run "$call" || run "$call" || run "$call"
done
dmesg | tail -n 300
true
