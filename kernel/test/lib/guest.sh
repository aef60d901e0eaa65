# Guests: an initramfs with our test programs, QEMU without KVM, a log, a verdict. Sourced by
# run.sh.

# guest_program SOURCE NAME [CFLAGS...]: compiles a static program for the guest if its sources have
# changed.
guest_program() {
    out=$work/programs/$2
    if [ -n "$(find "$1" "$here/guest" -name '*.[ch]' -newer "$out" 2>/dev/null | head -n 1)" ] ||
        [ ! -x "$out" ]; then
        mkdir -p "$work/programs"
        program_source=$1
        shift 2
        cc -O2 -g0 -static -pthread -Wall -Wextra -Werror "$@" -o "$out" "$program_source" ||
            die "cannot compile $program_source"
    fi
}

# guest_memweir KIND: the command of this repository as memweir.KIND/memweir, `yes` without features
# of Cargo, or with the feature KIND. It is the one that `make test` builds, unless
# KERNEL_TEST_MEMWEIR names one. Fails, after saying so, where there is no cargo.
guest_memweir() {
    [ ! -f "$scratch/memweir.$1" ] || return 0
    features=
    [ "$1" = yes ] || features="--features memweir/$1"
    memweir_built=${KERNEL_TEST_MEMWEIR-${CARGO_TARGET_DIR:-$top/target}/debug/memweir}
    if [ -z "${KERNEL_TEST_MEMWEIR-}" ]; then
        "$top/scripts/cargo.sh" --version >"$work/memweir.log" 2>&1 ||
            { say "SKIPPED: $(tail -n 1 "$work/memweir.log")"; return 1; }
        # shellcheck disable=SC2086
        "$top/scripts/build-as-tested.sh" $features >"$work/memweir.log" 2>&1 ||
            die "memweir: not built (see $work/memweir.log)"
    fi
    mkdir -p "$work/programs/memweir.$1"
    strip -o "$work/programs/memweir.$1/memweir" "$memweir_built" || die "no memweir in $memweir_built"
    touch "$scratch/memweir.$1"
}

# The tests of mechanisms of crates/linux, as programs that run in a guest, too.
mechanism_test_names='mechanisms deaths switch'
guest_mechanism_tests() {
    [ ! -f "$scratch/mechanism_tests" ] || return 0
    "$top/scripts/cargo.sh" --version >"$work/mechanism-tests.log" 2>&1 ||
        { say "SKIPPED: $(tail -n 1 "$work/mechanism-tests.log")"; return 1; }
    mkdir -p "$work/programs"
    (cd "$top" && scripts/cargo.sh test --workspace --locked --features memweir/sched-ext --no-run \
        --test mechanisms --test deaths --bench switch) >"$work/mechanism-tests.log" 2>&1 ||
        die "the tests of mechanisms: not built (see $work/mechanism-tests.log)"
    for test_program in $mechanism_test_names; do
        built=$(sed -n "s/.*(\(.*\/$test_program-[0-9a-f]*\))$/\1/p" "$work/mechanism-tests.log")
        (cd "$top" && strip -o "$work/programs/$test_program" "$built") || die "no program $test_program in $built"
    done
    touch "$scratch/mechanism_tests"
}

# The libraries that a program loads, by its path.
libraries_of() {
    ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true
}

# make_initramfs FILE SCRIPT PART...: busybox, our init, helpers, the suite's script as /suite;
# programs in /bin with their libraries; other files of this repository in /data, and those from
# elsewhere under their own paths.
make_initramfs() {
    cpio=$1 suite_script=$2
    shift 2
    root=$(mktemp -d "$scratch/root.XXXXXX")
    mkdir -p "$root/bin" "$root/data" "$root/dev" "$root/proc" "$root/run" "$root/sys" \
        "$root/tmp" "$root/cg"
    cp "$(command -v busybox)" "$root/bin/busybox"
    for applet in $(busybox --list); do
        [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
    done
    cp "$here/guest/init" "$root/init"
    cp "$here/guest/lib.sh" "$here/guest/memweir.sh" "$root/"
    cp "$suite_script" "$root/suite"
    chmod 755 "$root/init" "$root/suite"
    for part; do
        if [ ! -x "$part" ]; then
            case $part in
            "$top"/*) cp "$part" "$root/data/" ;;
            *) cp -L --parents "$part" "$root" ;;
            esac
            continue
        fi
        rm -f "$root/bin/$(basename "$part")"
        cp -L "$part" "$root/bin/"
        for library in $(libraries_of "$part"); do
            cp -L --parents "$library" "$root"
        done
    done
    (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) | gzip -1 >"$cpio.part"
    mv "$cpio.part" "$cpio"
    rm -rf "$root"
}

# boot LABEL IMAGE START CPUS SECONDS APPEND: two NUMA nodes, 1 GiB together or $guest_memory, the
# kernel's messages and the suite's in one log. START is QEMU's option of the initramfs or the disk.
# A socket for each CPU: without ACPI the kernel sees no others. Sets $log, $taken and $verdict:
# `pass`, or why not.
boot() {
    log=$work/logs/$1.log
    started=$(date +%s)
    code=0
    # The clock that counts instructions has one thread for all CPUs.
    case ${machine-} in *-icount*) threads=single ;; *) threads=multi ;; esac
    # shellcheck disable=SC2086
    timeout --foreground -k 10 "$5" qemu-system-x86_64 ${machine-} \
        -machine pc -accel "${KERNEL_TEST_ACCEL-tcg,thread=$threads}" -cpu "${KERNEL_TEST_CPU-max}" \
        -smp "$4,sockets=$4" -m "${guest_memory-1G}" \
        -kernel "$2" $3 -nodefaults -no-user-config -nographic -no-reboot \
        -serial "file:$log" \
        -append "console=ttyS0 numa=fake=2 panic=-1 oops=panic $patience guest_cpus=$4 $6" \
        </dev/null >"$log.qemu" 2>&1 8>&- &
    echo $! >"$scratch/guest.$1"
    wait $! || code=$?
    [ -d "$scratch" ] || exit 1
    rm -f "$scratch/guest.$1"
    seconds_run=$(($(date +%s) - started))
    times >"$scratch/times.$1"
    taken="$seconds_run s, $(processor_time "$scratch/times.$1") s of processors"
    tr -d '\r' <"$log" >"$log.part" && mv "$log.part" "$log"
    judge "$code"
}

# processor_time FILE: seconds of the children that a shell has waited for, from its `times`.
processor_time() {
    awk 'NR == 2 { gsub(/s/, ""); split($1, program, "m"); split($2, kernel, "m")
                   printf "%d", 60 * (program[1] + kernel[1]) + program[2] + kernel[2] }' "$1"
}

# The host may stop a guest's CPU for a while: that is neither a broken timer nor a stall nor a
# hang.
patience='no_timer_check rcupdate.rcu_cpu_stall_timeout=300 watchdog_thresh=60 sysctl.kernel.hung_task_timeout_secs=600'

# host_clock: parameters that give a guest the clock of this machine. Without ACPI a guest has no
# other clock than its ticks, which are coarse and come late on a busy machine, so that its hours
# are longer than ours; and there it cannot find out the speed of its time-stamp counter.
host_clock() {
    guest_program "$here/lib/tsc-khz.c" tsc-khz
    echo "tsc=reliable tsc_early_khz=$("$work/programs/tsc-khz")"
}

# Messages by which the kernel reports its own errors.
complaint='BUG:|WARNING:|Oops|general protection|KASAN:|INFO: task .* blocked|INFO: rcu|possible circular|inconsistent lock|Bad page|bad pte|Kernel panic|soft lockup|UBSAN'

# complains LOG: the lines; fails if there is none. Data races are for races.sh.
complains() {
    grep -E "$complaint" "$1" | grep -v 'BUG: KCSAN: data-race in '
}

judge() {
    if [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; then
        verdict="time-out after $seconds_run s"
    elif [ "$1" -ne 0 ]; then
        verdict="QEMU ended with $1: $(tail -n 1 "$log.qemu")"
    elif complains "$log"; then
        verdict="kernel: $(complains "$log" | head -n 1)"
    elif grep -q '^FAIL' "$log"; then
        verdict=$(grep -m 1 '^FAIL' "$log")
    elif ! grep -q '^GUEST END 0$' "$log"; then
        verdict="the suite did not come to its end"
    else
        verdict=pass
    fi
}
