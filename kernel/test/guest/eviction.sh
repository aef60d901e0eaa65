# Eviction from a private file mapping (memweir page run) on a kernel with widened windows.
# cow: between the copy and the installation in do_cow_fault(); wp: the same in wp_page_copy().
. /lib.sh
window=/sys/kernel/debug/fault_window
case $(argument stress) in
soak) seconds=$(($(argument soak_seconds) / 6)) ;;
*) seconds=10 ;;
esac
widen() {
    put "$1" $window/cow_us
    put "$2" $window/wp_us
}
widen 0 0
eviction none $seconds loses
widen 2000 0
eviction stores $seconds loses
eviction pwrite $seconds keeps
eviction punch $seconds keeps
widen 0 2000
eviction pwrite $((seconds * 3)) loses
eviction barrier $((seconds * 3)) keeps
eviction punch $((seconds * 3)) keeps
widen 2000 2000
eviction barrier $seconds keeps
eviction punch $seconds keeps
