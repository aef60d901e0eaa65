# The kernel's own mm selftests, one after the other, with swap on the emulated NVDIMM: by direct read
# where the kernel has it. Which: selftests=A,B,C on the command line.
. /lib.sh
mkswap /dev/pmem0 >/dev/null
if grep -q '^swpin_direct ' /proc/vmstat; then
    swapon-direct /dev/pmem0
else
    swapon /dev/pmem0
fi
put 32 /proc/sys/vm/nr_hugepages
for program in $(argument selftests | tr ',' ' '); do
    echo "SELFTEST $program"
    (cd /tmp && timeout 300 "$program")
    echo "EXIT $?"
done
true
