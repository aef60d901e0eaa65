# Page colors. Swap is memory, compressed where the kernel can do that: no device is needed.
. /lib.sh
if [ -e /sys/block/zram0 ]; then
	echo 256M >/sys/block/zram0/disksize
	swap=/dev/zram0
else
	swap=/dev/ram0
fi
check "mkswap" mkswap $swap
check "swapon" swapon $swap
put madvise /sys/kernel/mm/transparent_hugepage/enabled
rounds=30
[ "$(argument stress)" != soak ] || rounds=3000
color
color-move
color-shortage $rounds
