# The watchdog of BPF schedulers, which ends one whose runnable task waits for 30 s.
. /memweir.sh
scx=/sys/kernel/sched_ext

memweir run --mechanism sched-ext /data/long.toml >/tmp/batch.out 2>&1 &
batch=$!
sleep 75
check "jobs are held for longer than the watchdog allows" [ "$(cat $scx/state)" = enabled ]
check "in the freezer" sh -c 'cat $(find /cg -name "job-*" -type d | sed s,$,/cgroup.freeze,) | grep -q 1'
kill -TERM $batch
wait $batch
check "the batch ends when it is told to" [ "$(cat $scx/state)" = disabled ]

# A memweir that is stopped holds its jobs, until the kernel ends its scheduler.
memweir run --mechanism sched-ext /data/held.toml >/tmp/batch.out 2>&1 &
batch=$!
check "a batch holds jobs" within 60 sh -c '[ $(pidof spin | wc -w) = 4 ]'
kill -STOP $batch
sleep 50
check "the watchdog ends a scheduler that nobody commands" [ "$(cat $scx/state)" = disabled ]
kill -CONT $batch
check "the batch comes to its end" wait $batch
cat /tmp/batch.out
check "the reason is told" grep -q "ended the BPF scheduler (runnable task stall" /tmp/batch.out
check "no group is left" no_group_is_left
true
