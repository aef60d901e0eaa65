# The least a kernel must do: see its nodes, its NVDIMM and its swap.
. /lib.sh
check "two NUMA nodes" test -d /sys/devices/system/node/node1
check "an NVDIMM" test -b /dev/pmem0
check "mkswap" mkswap /dev/pmem0
check "swapon" swapon /dev/pmem0
check "swapoff" swapoff /dev/pmem0
