# Suites: reads suites/NAME.suite, prepares its kernel and programs, and boots it. Sourced by
# run.sh.

# load_suite NAME: its variables.
load_suite() {
    about='' tier=test series='' patches_extra='' config=base cpus='2 4' append='' programs='' script=''
    files='' commands='' mechanism_tests=no memweir=no disk=no packages='' boots=1 farewell='' machine=''
    seconds=900 baseline='' budgets='' clock=ticks
    [ -f "$here/suites/$1.suite" ] ||
        die "no suite $1; there are: $(cd "$here/suites" && echo *.suite | sed 's/\.suite//g')"
    # shellcheck disable=SC1090
    . "$here/suites/$1.suite"
}

# suites TIER...: their names.
suites() {
    for file in "$here"/suites/*.suite; do
        name=$(basename "$file" .suite)
        load_suite "$name"
        case " $* " in
        *" $tier "*) [ "$series" = stock ] || [ -d "$kernel/$series" ] && echo "$name" ;;
        esac
    done
}

# with_baselines SUITE...: sets $wanted to these suites, each behind the one that is its baseline.
with_baselines() {
    wanted=
    for named; do
        load_suite "$named"
        for each in $baseline "$named"; do
            case " $wanted " in *" $each "*) ;; *) wanted="$wanted $each" ;; esac
        done
    done
}

# prepare_suite [PATCH...]: builds the kernel and the programs of the loaded suite, and sets $image
# and $binaries. Cheap once they are built; prints the missing part and fails if there is one.
prepare_suite() {
    extra=
    for patch in $patches_extra; do
        extra="$extra $here/$patch"
    done
    # shellcheck disable=SC2086
    build_kernel "$series" "$config" $extra "$@"
    binaries=
    for program in $programs; do
        guest_program "$here/guest/$program.c" "$program"
        binaries="$binaries $work/programs/$program"
    done
    for file in $files; do
        case $file in /*) ;; *) file=$top/$file ;; esac
        binaries="$binaries $file"
    done
    if [ "$memweir" != no ]; then
        guest_memweir "$memweir" || return 1
        binaries="$binaries $work/programs/memweir.$memweir/memweir"
    fi
    if [ "$mechanism_tests" = yes ]; then
        guest_mechanism_tests || return 1
        for test_program in $mechanism_test_names; do
            binaries="$binaries $work/programs/$test_program"
        done
    fi
    if [ "$disk" = debian ]; then
        guest_package && debian_archive || return 1
    fi
    for wanted in $commands; do
        command -v "$wanted" >"$scratch/command" || { say "SKIPPED: no $wanted here"; return 1; }
        binaries="$binaries $(cat "$scratch/command")"
    done
}

# boot_suite LABEL CPUS APPEND: the loaded and prepared suite. A disk outlives its boots, up to the
# first that fails. Each boot but the last must pass the check $farewell when it goes down.
boot_suite() {
    [ "$clock" = ticks ] || append="$append $(host_clock)"
    if [ "$disk" = debian ]; then
        medium=$scratch/$1.ext4
        make_disk "$medium" "$here/$script"
        start="-drive file=$medium,format=raw,if=virtio" root='root=/dev/vda rw systemd.show_status=false'
    else
        medium=$scratch/$1.cpio.gz
        # shellcheck disable=SC2086
        make_initramfs "$medium" "$here/$script" $binaries
        start="-initrd $medium" root=
    fi
    for boot in $(seq "$boots"); do
        label=$1
        [ "$boots" = 1 ] || label=$1-$boot
        boot "$label" "$image" "$start" "$2" "$seconds" "$root guest_boot=$boot $append $3"
        [ "$verdict" = pass ] || break
        [ "$boot" = "$boots" ] || [ -z "$farewell" ] || grep -q "^PASS $farewell" "$log" ||
            { verdict="nothing said: $farewell"; break; }
    done
    rm -f "$medium"
}
