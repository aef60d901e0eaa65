# Limits of bandwidth, kept in the kernel for each millisecond. Page faults stand for lines.
. /memweir.sh
scx=/sys/kernel/sched_ext

# batch LIMIT COMMAND...: under the limits `faults` and others, counted in page faults in a
# millisecond.
batch() {
    memweir run --mechanism sched-ext --policy os --events /data/faults.toml --json /tmp/json "$@"
}

# rate FILE: page faults in a second, in the mean of the full seconds without the first.
rate() {
    awk 'NR > 1 { sum += $1 } END { printf "%d", sum / (NR - 1) }' "$1"
}

# most FILE: in one millisecond, as the program itself has seen it.
most() {
    awk 'NR > 1 && $2 > most { most = $2 } END { print most }' "$1"
}

# compared A OPERATOR B WHAT
compared() {
    echo "$4: $1 $2 $3"
    [ "$1" "$2" "$3" ]
}

# limited NAME: the field of the only job with a limit.
limited() {
    number "$1" /tmp/json
}

# bytes FAULTS: a rate of so many in a millisecond.
bytes() {
    echo $(($1 * 64000))
}

check "a limit without the mechanism" run 2 memweir run --policy os --limit true=1GB/s -- true
check "is refused with the way out" said "add \`--mechanism sched-ext\`"
check "a limit for no job" run 2 batch --limit other=1GB/s -- true
check "is refused with the names" said "valid: true"
check "a limit without a counter" run 3 memweir run --mechanism sched-ext --policy os --limit true=1GB/s -- true
check "is refused with the reason" said "no counter of memory traffic works here"

# Timers of the emulated machine are late by milliseconds, and its speed doubles and halves within a
# run. So the bounds from above are tight, and those from below show only that no limit of a quarter
# holds a job.
echo "COST clock: $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
check "two jobs without limits" run 0 batch -- faults 5 /tmp/free-1 ::: faults 5 /tmp/free-2
free=$(rate /tmp/free-1) free_beside=$(rate /tmp/free-2)
echo "COST page faults in a second, without a limit: $free and $free_beside"
# A quarter of what one can do. Each CPU may be one overflow late, and the program sees a fault
# late.
budget=$((free / 4000))
step=$(((budget + 15) / 16))
bound=$((budget + 2 * step + 2))
# The kernel's own faults in a system call, here exec, are counted, and do not stop the job before
# it returns.
in_a_call=32
check "enough page faults for a limit" compared $budget -ge 4 "in a millisecond"

check "one has a limit" run 0 batch --limit faults.1=$(bytes $budget) -- \
    faults 6 /tmp/held ::: faults 6 /tmp/beside
echo "COST with a limit of $budget in a millisecond: $(rate /tmp/held) in a second, $(most /tmp/held) in a millisecond at most ($(limited lines_per_ms_peak) charged); beside it $(rate /tmp/beside)"
check "it keeps it in the mean" compared "$(rate /tmp/held)" -le $((budget * 1000)) "in a second"
# A millisecond in which the job was held has had a budget's worth of lines, on any host.
check "it is not held before it has used it" compared "$(limited lines)" -ge $(($(limited held_ms) * budget)) "lines"
check "it uses much of it" compared "$(rate /tmp/held)" -ge $((budget * 200)) "in a second"
check "it keeps it in each millisecond" compared "$(most /tmp/held)" -le $bound "in a millisecond"
check "and is charged so" compared "$(limited lines_per_ms_peak)" -le $((bound + in_a_call)) "in a millisecond"
check "it was held" compared "$(limited held_ms)" -ge 500 "milliseconds"
check "all CPUs count" sh -c '! grep -q uncounted_cpus /tmp/json'
check "the other is not slowed" compared "$(rate /tmp/beside)" -ge $((free_beside / 2)) "in a second"
cat /tmp/out

check "a limit of zero is none" run 0 batch --limit faults.1=0 -- faults 4 /tmp/zero-1 ::: faults 4 /tmp/zero-2
check "no job is held" compared "$(rate /tmp/zero-1)" -ge $((free / 2)) "in a second"
check "nor reported" sh -c '! grep -q held_ms /tmp/json'

check "a limit that is not reached" run 0 batch --limit faults.1=$(bytes $((free / 100))) -- \
    faults 4 /tmp/far-1 ::: faults 4 /tmp/far-2
echo "COST with a limit that is not reached: $(rate /tmp/far-1) and $(rate /tmp/far-2)"
check "holds nobody" compared "$(limited held_ms)" -le 2 "milliseconds"

# The threads of a job share its budget, on both CPUs at once.
check "a job of two threads" run 0 batch --limit faults=$(bytes $budget) -- faults 6 /tmp/both 2
echo "COST two threads with that limit: $(rate /tmp/both) in a second, $(most /tmp/both) in a millisecond at most ($(limited lines_per_ms_peak) charged)"
check "has one budget" compared "$(rate /tmp/both)" -le $((budget * 1000)) "in a second"
check "in each millisecond" compared "$(most /tmp/both)" -le $bound "in a millisecond"
check "and is not held before that is used up" compared "$(limited lines)" -ge $(($(limited held_ms) * budget)) "lines"

# A daemon keeps the limit of a job that it has adopted.
start_daemon() {
    memweir daemon --mechanism "$1" --policy os --events /data/faults.toml >>/tmp/daemon 2>&1 &
    daemon=$!
    within 60 memweir status || { cat /tmp/daemon; return 1; }
}
lines_in() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}
check "a daemon without the mechanism" start_daemon cgroup-v2
check "a submission with a limit" run 2 memweir submit --limit 1GB/s -- true
check "is refused with the way out" said "memweir daemon --mechanism sched-ext"
kill $daemon
wait $daemon
check "a daemon with it" start_daemon sched-ext
check "takes a limit" run 0 memweir submit --limit $(bytes $budget) -- faults 14 /tmp/queued
check "and shows it" sh -c "memweir queue --json | grep -q '\"bandwidth_limit\": *$(bytes $budget)'"
check "the job runs" within 60 lines_in /tmp/queued 4
kill -9 $daemon
wait $daemon
check "the next daemon" start_daemon sched-ext
before=$(wc -l </tmp/queued)
check "goes on with the job" within 60 lines_in /tmp/queued $((before + 4))
cat /tmp/queued
check "it was limited" compared "$(sed -n 3p /tmp/queued | cut -d ' ' -f 1)" -le $((budget * 1010)) "in a second"
check "and still is" compared "$(sed -n $((before + 3))p /tmp/queued | cut -d ' ' -f 1)" -le $((budget * 1010)) "in a second"
check "the job ends" run 0 memweir wait 1
kill $daemon
wait $daemon

memweir run --mechanism sched-ext --policy os --events /data/faults.toml --limit faults=$(bytes $budget) -- \
    faults 12 /tmp/killed >/tmp/batch.out 2>&1 &
killed=$!
check "a batch with a limit runs" within 60 lines_in /tmp/killed 4
kill -9 $killed
check "its scheduler ends with it" within 10 grep -q disabled $scx/state
check "the job runs on" within 60 lines_in /tmp/killed 12
cat /tmp/killed
check "it was limited" compared "$(sed -n 3p /tmp/killed | cut -d ' ' -f 1)" -le $((budget * 1010)) "in a second"
check "and is no longer" compared "$(tail -n 1 /tmp/killed | cut -d ' ' -f 1)" -ge $((free / 2)) "in a second"
check "the next batch starts" run 0 batch -- true
check "no group is left" within 10 no_group_is_left
true
