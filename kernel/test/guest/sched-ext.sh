. /memweir.sh
check "the kernel takes schedulers in BPF" test -e /sys/kernel/sched_ext/state
check "BTF" test -e /sys/kernel/btf/vmlinux
