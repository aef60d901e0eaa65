# The Debian package under systemd: batches in units that are killed in every way and have limits,
# the services of the package, and a queue that a restart of the machine finds again, in the second
# boot.
. /lib.sh
groups=/sys/fs/cgroup
busy='while :; do :; done'

# took LIMIT NAME COMMAND...: the command succeeds within so many seconds, and the log has the time.
# A machine takes less than one; a guest without KVM is slow, and beside other guests slower.
took() {
    limit=$1 what=$2
    shift 2
    began=$(clock)
    check "$what" within "$limit" "$@"
    spent=$(($(clock) - began))
    echo "COST $what: $((spent / 100)).$(printf %02d $((spent % 100))) s"
}

# run CODE COMMAND...: the command ends with CODE.
run() {
    code=$1
    shift
    ended=0
    "$@" || ended=$?
    [ $ended = "$code" ] || { echo "$*: ended with $ended, not $code"; return 1; }
}

# as USER COMMAND...
as() {
    user=$1
    shift
    runuser -u "$user" -- env -C "/home/$user" XDG_RUNTIME_DIR="/run/user/$(id -u "$user")" "$@"
}

# blocked_in GROUP: the groups of jobs below it that are frozen.
blocked_in() {
    find "$groups/$1" -type d -name 'job-*' 2>/dev/null | while read -r job; do
        if grep -q '^frozen 1' "$job/cgroup.events" 2>/dev/null; then echo "$job"; fi
    done
}

some_are_blocked() {
    [ -n "$(blocked_in "$1")" ] || { ps -ef; return 1; }
}

none_is_blocked() {
    [ -z "$(blocked_in "$1")" ]
}

no_job_lives() {
    ! pgrep -fa "$busy"
}

# jobs_live NUMBER
jobs_live() {
    [ "$(pgrep -fc "^sh -c $busy")" = "$1" ] || { ps -ef; return 1; }
}

# Beside those of the daemon.
no_group_is_left() {
    ! find $groups -type d -name 'memweir-*' -not -path '*/memweir.service/*' | grep .
}

# property UNIT NAME
property() {
    systemctl show --property "$2" --value "$1"
}

# state_is STATE UNIT
state_is() {
    [ "$(property "$2" ActiveState)" = "$1" ] || { systemctl status --no-pager "$2"; return 1; }
}

kill_main() {
    kill -9 "$(property "$1" MainPID)"
}

journal_has() {
    journalctl --boot --unit "$1" --output cat | grep "$2" || { journalctl --boot --unit "$1" --no-pager; return 1; }
}

batches_die_with_their_unit() {
    kill_unit() { systemctl kill --signal KILL "$1"; }
    kill_group() { put 1 "$groups/system.slice/$1.service/cgroup.kill"; }
    for way in kill_unit kill_group kill_main; do
        check "a batch in a unit blocks jobs ($way)" start_batch $way
        $way $way
        took 10 "no job lives ($way)" no_job_lives
        check "no group is left ($way)" within 10 no_group_is_left
        systemctl reset-failed $way 2>/dev/null
    done

    check "a batch in a unit that is stopped blocks jobs" start_batch stopped
    check "systemctl stop" systemctl stop stopped
    check "leaves no job" no_job_lives
    check "leaves no group" no_group_is_left

    # The unit's processes outlive the main one.
    check "a batch in a unit of KillMode=process blocks jobs" start_batch alone --property KillMode=process
    kill_main alone
    took 10 "no job is blocked after the death of memweir alone" none_is_blocked system.slice/alone.service
    check "all of them run on" jobs_live 4
    pkill -9 -f "^sh -c $busy"
    check "the guardian removes their groups" within 20 no_group_is_left
    systemctl reset-failed alone 2>/dev/null
}

# start_batch UNIT OPTION...: four busy jobs on one core, so that three are blocked at any time.
start_batch() {
    unit=$1
    shift
    systemd-run --quiet --unit "$unit" "$@" memweir run --policy round-robin --cores 1 --quantum 50ms --each 4 \
        -- sh -c "$busy" || return 1
    within 60 some_are_blocked "system.slice/$unit.service"
}

batches_run_out_of_memory() {
    little='--property MemoryMax=64M --property MemorySwapMax=0'
    # shellcheck disable=SC2086 # options
    systemd-run --quiet --unit eaten --wait $little --property OOMPolicy=continue memweir run --policy round-robin \
        --cores 1 --quantum 50ms -- sh -c 'tail /dev/zero' ::: sh -c 'sleep 2; touch /tmp/ended-well'
    check "an OOM kill of one job leaves the others" [ -e /tmp/ended-well ]
    check "the batch says so" journal_has eaten 137
    systemctl reset-failed eaten 2>/dev/null

    # shellcheck disable=SC2086
    check "a batch in a unit of OOMPolicy=kill blocks jobs" start_batch oom $little --property OOMPolicy=kill
    check "a process in its group eats the memory" run 137 \
        sh -c "echo \$\$ >$groups/system.slice/oom.service/cgroup.procs; exec tail /dev/zero"
    took 10 "no job lives after the OOM kill of the unit" no_job_lives
    check "no group is left after the OOM kill" within 10 no_group_is_left
    systemctl reset-failed oom 2>/dev/null
}

limits_hold_for_jobs() {
    check "a batch in a unit with CPUQuota blocks jobs" start_batch limited --property CPUQuota=20%
    limited=$groups/system.slice/limited.service
    used=$(sed -n 's/^usage_usec //p' "$limited/cpu.stat") began=$(clock)
    sleep 10
    used=$(($(sed -n 's/^usage_usec //p' "$limited/cpu.stat") - used))
    share=$((used / 100 / ($(clock) - began)))
    echo "COST a busy job under CPUQuota=20%: $share % of a processor"
    check "CPUQuota holds" [ $share -le 30 ]
    check "the jobs ran" [ $share -ge 5 ]
    systemctl stop limited
}

users_are_made() {
    for user in alice bob carol; do
        useradd --create-home "$user" || return 1
    done
    usermod --append --groups memweir bob
}

the_package_is_installed() {
    check "dpkg --install" dpkg --install /memweir.deb
    check "the group of operators is there" getent group memweir
    check "users" users_are_made
    check "the service is not started by the package" state_is inactive memweir.service
    check "systemctl enable --now" systemctl enable --now memweir.service
    check "the service is active" state_is active memweir.service
    check "the state directory is closed to others" [ "$(stat -c %a /var/lib/memweir)" = 711 ]
    check "a job of a user" run 3 as alice memweir submit --wait -- sh -c 'id -un; pwd; exit 3'
    check "runs as that user" [ "$(as alice memweir log 1)" = "alice
/home/alice" ]
    check "blocks by the freezer" sh -c 'memweir status | grep cgroup-v2'
    check "the service gets little memory" \
        systemctl set-property --runtime memweir.service MemoryMax=128M MemorySwapMax=0
    check "a job that wants more is killed" run 137 as alice memweir submit --wait -- tail /dev/zero
    check "and says why" sh -c 'memweir queue --all | grep "killed for want of memory"'
    check "one that is killed says nothing" run 137 as alice memweir submit --wait -- sh -c 'kill -9 $$'
    check "of memory" [ "$(memweir queue --all | grep -c memory)" = 1 ]
    check "the service gets its memory back" \
        systemctl set-property --runtime memweir.service MemoryMax=infinity
}

# turns DIRECTORY OPTIONS: a daemon whose jobs take turns on one core, by a file of its unit in
# DIRECTORY.
turns() {
    mkdir -p "$1"
    options="$2 --policy round-robin --cores 1 --admit 3 --quantum 50ms"
    printf '[Service]\nExecStart=\nExecStart=/usr/bin/memweir daemon %s\n' "$options" >"$1/turns.conf"
}

# Three busy jobs of a user.
submit_busy() {
    for _ in 1 2 3; do
        as alice memweir submit --parsable -- sh -c "$busy" || return 1
    done
}

# All three run, each in its first attempt.
running_once() {
    memweir queue --json >/tmp/queue || return 1
    [ "$(grep -c '"state": *"running"' /tmp/queue)" = 3 ] && ! grep -q '"attempt": *[2-9]' /tmp/queue ||
        { cat /tmp/queue; return 1; }
}

the_daemon_dies_and_returns() {
    service=system.slice/memweir.service
    turns /etc/systemd/system/memweir.service.d "--operators memweir"
    systemctl daemon-reload
    check "restart" systemctl restart memweir.service
    check "three jobs" submit_busy
    check "are blocked in turn" within 60 some_are_blocked $service

    check "systemctl stop memweir" systemctl stop memweir.service
    check "blocks none" none_is_blocked $service
    check "leaves the jobs running" jobs_live 3
    check "systemctl start memweir" systemctl start memweir.service
    check "the jobs are adopted" running_once
    check "and blocked in turn" within 60 some_are_blocked $service

    kill_main memweir.service
    took 10 "no job is blocked after the death of the daemon" none_is_blocked $service
    check "systemd starts it again" within 60 state_is active memweir.service
    check "clients reach it" within 60 memweir status
    check "the jobs are adopted again" within 60 running_once
    check "and blocked in turn again" within 60 some_are_blocked $service
    check "systemd has restarted it once" [ "$(property memweir.service NRestarts)" = 1 ]
    check "the journal has the death" journal_has memweir.service 'code=killed, status=9/KILL'
    check "the journal has the start" journal_has memweir.service 'the daemon listens at /run/memweir.sock'

    pkill -9 -f '/exe guardian$'
    check "a killed guardian is replaced, and the journal says so" \
        within 60 journal_has memweir.service 'another one was started'

    job=$(memweir queue --json | sed -n 's/^ *"id": *\([0-9]*\),*/\1/p' | head -n 1)
    check "a stranger may not cancel the job of another" run 3 as carol memweir cancel "$job"
    check "an operator may" as bob memweir cancel "$job"
    check "the job ends" run 143 as alice memweir wait "$job"

    check "watch sees the unit" sh -c 'memweir watch --unit memweir --for 3s | grep memweir.service'
    systemd-run --quiet --scope --unit busy sh -c 'timeout 20 sh -c "while :; do :; done"' &
    check "watch sees a scope" sh -c 'memweir watch --unit "*.scope" --for 5s | grep busy.scope'
    wait

    kill_unit() { systemctl kill --signal KILL "$1"; }
    kill_unit memweir.service
    check "the service returns after a kill of all of its processes" within 60 memweir status
    check "no job lives after it" no_job_lives
    check "and they are lost" sh -c 'memweir queue --all | grep -c lost | grep 2'
}

the_service_of_a_user() {
    check "a user may linger" loginctl enable-linger alice
    check "the manager of the user" within 60 as alice systemctl --user is-system-running
    turns /home/alice/.config/systemd/user/memweir.service.d ""
    chown -R alice: /home/alice/.config
    check "daemon-reload of the user" as alice systemctl --user daemon-reload
    check "the user's service" as alice systemctl --user enable --now memweir.service
    check "has its socket" [ -S "/run/user/$(id -u alice)/memweir/daemon.sock" ]
    check "the user's jobs" submit_busy
    own=user.slice/user-$(id -u alice).slice
    check "are blocked in turn in the user's slice" within 60 some_are_blocked "$own"
    kill -9 "$(as alice systemctl --user show --property MainPID --value memweir.service)"
    took 10 "no job is blocked after the death of the user's daemon" none_is_blocked "$own"
    check "the user's daemon returns" within 60 as alice memweir status
    check "with the jobs" within 60 some_are_blocked "$own"
    check "the user's service stops" as alice systemctl --user disable --now memweir.service
    check "and leaves the jobs running" jobs_live 3
    pkill -9 -f "^sh -c $busy"
    check "their groups go" within 20 sh -c "! find $groups/$own -name 'memweir-*' -type d | grep ."

    check "a batch in a unit of the user" as alice systemd-run --user --quiet --unit batch memweir run \
        --policy round-robin --cores 1 --quantum 50ms --each 4 -- sh -c "$busy"
    check "blocks jobs" within 60 some_are_blocked "$own"
    check "is killed as a whole" as alice systemctl --user kill --signal KILL batch.service
    took 10 "no job of the user lives" no_job_lives
    rm -r /home/alice/.config/systemd/user/memweir.service.d
}

# One job runs, two wait for it and for a core when the machine goes down.
the_machine_goes_down() {
    rm -r /etc/systemd/system/memweir.service.d
    systemctl daemon-reload
    check "restart with the options of the package" systemctl restart memweir.service
    cores=$(nproc)
    check "a job that fills the machine" as alice memweir submit --cores "$cores" --name running -- sh -c "$busy"
    check "it runs" within 60 jobs_live 1
    for name in first second; do
        check "a job that waits" as alice memweir submit --name $name -- sh -c "echo $name; touch /home/alice/$name"
    done
    clock >/var/going-down
    cp /down.sh /usr/lib/systemd/system-shutdown/
}

the_machine_is_back() {
    rm /usr/lib/systemd/system-shutdown/down.sh
    check "the daemon is there" within 120 memweir status
    for name in first second; do
        check "a job that waited has run" within 120 [ -e /home/alice/$name ]
    done
    memweir queue --all
    check "the one that ran is over" sh -c 'memweir queue --all | grep -E " running .*(lost|143)"'
}

if [ "$(argument guest_boot)" = 2 ]; then
    the_machine_is_back
else
    the_package_is_installed
    batches_die_with_their_unit
    batches_run_out_of_memory
    limits_hold_for_jobs
    the_daemon_dies_and_returns
    the_service_of_a_user
    the_machine_goes_down
fi
true
