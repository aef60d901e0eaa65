# Direct read from a swap device. stress=soak on the command line: an hour instead of 40 seconds; stress=brief,
# for planted bugs: 8 seconds, and the first program that finds something is the last.
. /lib.sh
mkswap /dev/pmem0 >/dev/null
put 16M /sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
[ "$(argument stress)" != brief ] || set -e
direct-read
direct-read-full
case $(argument stress) in
soak) direct-read-stress 1800 ;;
brief) direct-read-stress 4 ;;
*) direct-read-stress 20 ;;
esac
direct-read-limits
