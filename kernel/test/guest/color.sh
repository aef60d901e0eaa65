# Page colors. Swap is memory, compressed where the kernel can do that: no device is needed.
# stress=brief, for planted bugs: the first program that finds something is the last.
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
case $(argument stress) in
soak) rounds="30 $(argument soak_seconds)" ;;
brief) rounds=10 && set -e ;;
*) rounds=30 ;;
esac
color
color-cache
color-move
# shellcheck disable=SC2086 # rounds, and seconds
color-shortage $rounds
