# A queue whose daemon blocks by a scheduler in BPF: jobs take turns, outlive the daemon and are
# adopted, and none stays frozen.
. /memweir.sh
scx=/sys/kernel/sched_ext

# start_daemon QUANTUM: up to four jobs take turns on one core.
start_daemon() {
    memweir daemon --mechanism sched-ext --policy round-robin --cores 1 --admit 4 --quantum "$1" >>/tmp/daemon 2>&1 &
    daemon=$!
    within 60 memweir status
}

# end_daemon SIGNAL CODE: it ends with this code, and the kernel's scheduler with it.
end_daemon() {
    kill "$1" $daemon
    ended=0
    wait $daemon || ended=$?
    [ $ended = "$2" ] || { echo "the daemon ended with $ended, not $2"; cat /tmp/daemon; return 1; }
}

state_is() {
    [ "$(cat $scx/state)" = "$1" ] || { cat $scx/state /tmp/daemon; return 1; }
}

some_are_frozen() {
    cat /cg/memweir-*/job-*/cgroup.events | grep '^frozen 1'
}

none_is_frozen() {
    ! cat /cg/memweir-*/cgroup.events /cg/memweir-*/job-*/cgroup.events 2>/dev/null | grep '^frozen 1'
}

# used_by JOB: its CPU time so far, in microseconds, wherever its group is.
used_by() {
    sed -n 's/^usage_usec //p' /cg/memweir-*/job-"$1"/cpu.stat
}

# use SECONDS: sets used_1, used_2 and used_3 to the CPU time of each job, in percent of these
# seconds.
use() {
    for job in 1 2 3; do eval "used_$job=$(used_by $job)"; done
    began=$(clock)
    sleep "$1"
    spent=$(($(clock) - began))
    for job in 1 2 3; do eval "used_$job=\$((($(used_by $job) - used_$job) / spent / 100))"; done
    echo "of $1 s the jobs used $used_1 %, $used_2 % and $used_3 %"
}

# Together they use one core, and none of them less than half of its share.
take_turns() {
    use 6
    [ $used_1 -ge 16 ] && [ $used_2 -ge 16 ] && [ $used_3 -ge 16 ] && [ $((used_1 + used_2 + used_3)) -le 115 ]
}

# Each runs, and they use more than one core.
run_freely() {
    use 6
    [ $used_1 -ge 16 ] && [ $used_2 -ge 16 ] && [ $used_3 -ge 16 ] && [ $((used_1 + used_2 + used_3)) -ge 130 ]
}

# running_once NUMBER: so many jobs, each in its first attempt.
running_once() {
    memweir queue --json >/tmp/queue || return 1
    [ "$(grep -c '"state": *"running"' /tmp/queue)" = "$1" ] && ! grep -q '"attempt": *[2-9]' /tmp/queue ||
        { cat /tmp/queue; return 1; }
}

check "a daemon" start_daemon 50ms
check "has loaded a scheduler" state_is enabled
check "and says so" sh -c 'memweir status | grep "blocking by sched-ext"'
check "a batch beside it" run 3 memweir run --mechanism sched-ext --policy round-robin -- true
check "is refused by name" said "another scheduler is loaded: memweir"
check "a job that fails" run 3 memweir submit --wait -- sh -c 'exit 3'
check "and one that a signal ends" run 137 memweir submit --wait -- sh -c 'kill -9 $$'

check "the daemon ends" end_daemon -TERM 0
check "with its scheduler" within 10 state_is disabled
rm -r /var/lib/memweir
check "a daemon with an empty queue" start_daemon 50ms
for job in 1 2 3; do
    check "job $job" memweir submit --name busy-$job -- \
        sh -c "while [ ! -e /tmp/end-$job ]; do :; done; exit $job"
done
check "all three run" within 30 running_once 3
check "in turns" take_turns

check "kill -9 of the daemon" end_daemon -KILL 137
check "the next daemon starts at once" start_daemon 50ms
check "with a scheduler" state_is enabled
check "the jobs are adopted" running_once 3
check "and take turns again" take_turns

check "the daemon is killed again" end_daemon -KILL 137
check "the scheduler ends" within 10 state_is disabled
check "none is frozen" none_is_frozen
check "all run" run_freely
touch /tmp/end-1
sleep 2
check "a third daemon" start_daemon 6s
check "has the exit code of a job that ended without one" run 1 memweir wait 1

# Each of four is held for 18 s.
for job in 4 5; do
    check "job $job" memweir submit --name busy-$job -- sh -c 'while :; do :; done'
done
check "all four have started" within 60 running_once 4
check "a job that is held for long goes to the freezer" within 60 some_are_frozen
check "the daemon is killed while it is there" end_daemon -KILL 137
check "the guardian thaws it" within 10 none_is_frozen
check "a fourth daemon" start_daemon 50ms
check "adopts all four" running_once 4
check "the daemon is stopped by SIGTERM" end_daemon -TERM 0
check "none is frozen then" none_is_frozen
check "a fifth daemon" start_daemon 50ms
touch /tmp/end-2 /tmp/end-3
for job in 2 3; do
    check "job $job ends with its own code" run $job memweir wait $job
done
check "the others are canceled" memweir cancel 4-5
check "and end by a signal" run 143 memweir wait 4-5
check "the kernel has ended no scheduler" sh -c '! grep "ended the BPF scheduler" /tmp/daemon'
check "the last daemon ends" end_daemon -TERM 0
check "no group is left" within 10 no_group_is_left
true
