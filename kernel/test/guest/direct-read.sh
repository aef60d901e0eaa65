# Direct read from a swap device. stress=soak on the command line: soak_seconds= twice instead of
# 10; stress=brief, for planted bugs: 4, and the first program that finds something is the last.
. /lib.sh
mkswap /dev/pmem0 >/dev/null
put 16M /sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
[ "$(argument stress)" != brief ] || set -e
direct-read
direct-read-collapse
direct-read-full
case $(argument stress) in
soak) direct-read-stress "$(argument soak_seconds)" ;;
brief) direct-read-stress 4 ;;
*) direct-read-stress 10 ;;
esac
direct-read-limits
