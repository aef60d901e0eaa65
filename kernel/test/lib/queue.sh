# Guests one beside another: a guest of two CPUs is idle half of the time, since much of what it
# does is done by one thread. Sourced by run.sh.

# Guests at once. Each has 1 GiB.
lanes=${KERNEL_TEST_GUESTS-$(nproc)}
[ "$lanes" -le 4 ] || lanes=4

# enqueue FUNCTION ARGUMENT...: a job for a lane.
enqueue() {
    echo "$*" >>"$scratch/queue"
}

# Does all that was enqueued, in the order of their coming.
run_queue() {
    [ -f "$scratch/queue" ] || return 0
    lane_ids=
    for lane in $(seq "$lanes"); do
        work_off &
        lane_ids="$lane_ids $!"
    done
    for lane in $lane_ids; do
        wait "$lane" || failed "a lane of guests ended early"
    done
    lane_ids=
    rm "$scratch/queue"
}

work_off() {
    while job=$(take_job); do
        # shellcheck disable=SC2086 # a function and its arguments
        ($job) || failed "the job \`$job\`"
    done
}

# The first line of the queue, which is then gone; no success if there is none.
take_job() {
    (
        flock 7
        [ -s "$scratch/queue" ] || exit 1
        head -n 1 "$scratch/queue"
        sed -i 1d "$scratch/queue"
    ) 7>"$scratch/queue.lock"
}

# failed WORDS...: remembered across processes, so that the run ends with an error that says it
# again.
failed() {
    say "FAIL $*"
    echo "$*" | head -n 1 >>"$scratch/failed"
}

# guest_failed WORDS...: reports the guest that was booted last as failed, with the end of its log,
# which nobody can read later where CI runs.
guest_failed() {
    failed "$*: $verdict, $taken (log: $log)
$(tail -n 25 "$log" | sed 's/^/    /')"
}

# Removes the lanes, guests and files of an interrupted run. Jobs whose files are gone report
# nothing more.
clean_up() {
    guests=$(cat "$scratch"/guest.* 2>/dev/null || true)
    rm -rf "$scratch"
    # shellcheck disable=SC2086
    kill ${lane_ids-} $guests 2>/dev/null || true
}
