# memweir with a scheduler in BPF: mechanisms, decisions, deaths, other schedulers, CPUs that go
# offline, and schedulers that the kernel ends. The long part, in which tasks wait for the kernel's
# watchdog, is in sched-ext-long.sh.
. /memweir.sh
scx=/sys/kernel/sched_ext
state_is() {
    cat $scx/state
    [ "$(cat $scx/state)" = "$1" ]
}
batch() {
    memweir run --mechanism sched-ext "$@"
}

check "doctor" run 0 memweir doctor
check "doctor has loaded a scheduler" said "a BPF scheduler can be loaded"
check "and leaves none" state_is disabled

# Each in a process of its own: a test that fails does not hide the others.
export MEMWEIR_TEST_MECHANISM=sched-ext
for test in all_threads_of_a_job_stop_and_resume exactly_the_chosen_of_32_jobs_run children_in_their_own_session_stop \
    daemons_stop_in_groups a_blocked_job_can_be_killed sigterm_is_handled_when_a_blocked_job_runs \
    a_stop_interrupts_a_system_call_and_a_scheduler_does_not \
    a_job_that_ignores_sigterm_dies_by_sigkill a_thousand_children_are_blocked_and_killed \
    jobs_that_end_while_others_are_blocked cpu_time_grows_when_a_job_runs_and_only_then \
    groups_that_a_job_made_are_removed_with_it five_hundred_jobs nothing_is_left_after_an_orderly_end; do
    check "$test" mechanisms $test
done
for test in all_run_within_a_second_of_a_death a_scheduler_ends_with_its_owner_without_a_guardian \
    a_dead_guardian_is_replaced jobs_that_are_released_run_on; do
    check "$test" deaths $test
done

# chosen RECORD: the jobs selected in the first quanta, before any job has ended.
chosen() {
    grep '"select"' "$1" | head -n 12 | sed 's/.*"chosen":\(\[[0-9,]*\]\).*/\1/'
}
decisions_are_the_same() {
    head -n 1 /tmp/freezer.jsonl >/tmp/freezer.head
    head -n 1 /tmp/scheduler.jsonl >/tmp/scheduler.head
    cmp /tmp/freezer.head /tmp/scheduler.head || return 1
    chosen /tmp/freezer.jsonl >/tmp/freezer.chosen
    chosen /tmp/scheduler.jsonl >/tmp/scheduler.chosen
    cat /tmp/freezer.chosen
    [ "$(wc -l </tmp/freezer.chosen)" = 12 ] && [ "$(sort -u /tmp/freezer.chosen | wc -l)" -ge 4 ] &&
        cmp /tmp/freezer.chosen /tmp/scheduler.chosen
}
check "a batch" run 0 batch --record /tmp/scheduler.jsonl --json /tmp/json /data/held.toml
check "by the scheduler" grep -q '"mechanism": "sched-ext"' /tmp/json
check "the same batch by the freezer" run 0 memweir run --mechanism cgroup-v2 --record /tmp/freezer.jsonl /data/held.toml
check "equal inputs, equal decisions" decisions_are_the_same
for record in scheduler freezer; do
    check "the decisions under the $record can be made again" run 0 memweir replay /tmp/$record.jsonl
    check "and are the same" said "decides the same in all of them"
done
check "no group is left" no_group_is_left

# In the background from here on.
start_batch() {
    # Not by the function, whose shell would be killed instead of memweir.
    memweir run --mechanism sched-ext /data/held.toml >/tmp/batch.out 2>&1 &
    batch=$!
    for _ in $(seq 100); do
        [ "$(cat $scx/state)" = enabled ] && pidof spin >/dev/null && break
        sleep 0.1
    done
}
start_batch
check "another scheduler is refused" run 3 batch /data/held.toml
check "by its name" said "another scheduler is loaded: memweir"
put 0 /sys/devices/system/cpu/cpu1/online
sleep 1
check "a CPU goes, the scheduler stays" state_is enabled
put 1 /sys/devices/system/cpu/cpu1/online
sleep 1
check "it comes back, the scheduler stays" state_is enabled
check "the batch comes to its end" wait $batch
check "with the scheduler" sh -c '! grep -q "ended the BPF scheduler" /tmp/batch.out'

start_batch
kill -9 $batch
wait $batch
killed=$(clock)
check "the scheduler of a memweir that was killed ends" within 30 state_is disabled
echo "COST the end of its scheduler: $((($(clock) - killed) * 10)) ms"
jobs_have_run() {
    for _ in $(seq 600); do
        pidof spin >/dev/null || return 0
        sleep 0.1
    done
    ps
    return 1
}
check "its jobs run on" jobs_have_run

# Ordinary load has the CPU before tasks of this class, whatever their number.
start_batch
spin 1000 /tmp/beside &
beside=$!
wait $beside
echo "COST an ordinary program beside a batch: $(cat /tmp/beside) s"
wait $batch
spin 1000 /tmp/alone
echo "COST the same program alone: $(cat /tmp/alone) s"
true
