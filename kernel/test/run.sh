#!/bin/sh
# Tests the kernel series in QEMU guests, on the source of Debian's linux-source-6.12. KVM is not
# needed, nor root once the tools are there (scripts/setup.sh kernel).
#
#   run.sh test [SUITE...]              every suite of suites/ with tier=test, or those named
#   run.sh soak [SUITE...]              every suite of either tier under KASAN, lockdep and longer stress,
#                                       then the planted bugs, each of which a suite must catch
#   run.sh planted [NAME...]            the planted bugs alone (planted/*.patch), on the kernel of `test`
#   run.sh bisect SERIES                a series patch by patch: each kernel builds, with its option on, and boots
#   run.sh style                        checkpatch --strict on every patch of every series
#   run.sh selftests [SERIES...]        the kernel's own mm selftests: stock against each series
#   run.sh build SERIES [PATCH...]      one kernel; prints where its image and its tree are
#
# SERIES is a directory of patches below kernel/, or `stock`. Everything lies below target/kernel
# (KERNEL_TEST_DIR): source, trees, cache (kernels by the hash of what went in), logs.
# KERNEL_SOURCE names a tree that is unpacked already; it is only read. KERNEL_TEST_MEMWEIR names a
# memweir that is built already; KERNEL_TEST_CPUS ("2 4") how many CPUs guests have.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
kernel=$(dirname "$here")
work=${KERNEL_TEST_DIR-$(dirname "$kernel")/target/kernel}
jobs=${KERNEL_TEST_JOBS-$(nproc)}
failures=0
# How many patches of a series are applied.
upto=all

say() {
    echo "kernel-test: $*"
}

die() {
    echo "kernel-test: $*" >&2
    exit 1
}

# What cannot run here is said aloud; it is no failure.
skip() {
    echo "SKIPPED: kernel-test: $*"
    exit 0
}

digest() {
    sha256sum | cut -c 1-20
}

digest_of_file() {
    sha256sum "$1" | cut -c 1-20
}

. "$here/lib/source.sh"
. "$here/lib/build.sh"
. "$here/lib/guest.sh"
. "$here/lib/selftests.sh"

tools() {
    [ "$(uname -m)" = x86_64 ] || skip "the kernels are for x86_64, this is $(uname -m)"
    missing=
    for tool in qemu-system-x86_64 busybox cc make flex bison bc cpio patch flock timeout xz dpkg-deb; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
    done
    [ -z "$missing" ] || skip "missing:$missing (as root, scripts/setup.sh kernel installs them)"
}

# load_suite NAME: the variables of suites/NAME.suite.
load_suite() {
    about='' tier=test series='' patches_extra='' config=base cpus='2 4' append='' programs='' script=''
    files='' memweir=no machine='' seconds=900
    [ -f "$here/suites/$1.suite" ] ||
        die "no suite $1; there are: $(cd "$here/suites" && echo *.suite | sed 's/\.suite//g')"
    # shellcheck disable=SC1090
    . "$here/suites/$1.suite"
}

# run_suite NAME LABEL CPUS APPEND [PATCH...]: boots the suite on the kernel of its series and PATCHes.
run_suite() {
    suite=$1 label=$2 vcpus=$3 more=$4
    shift 4
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
        binaries="$binaries $(dirname "$kernel")/$file"
    done
    if [ "$memweir" = yes ]; then
        guest_memweir
        binaries="$binaries $work/programs/memweir"
    fi
    # shellcheck disable=SC2086
    make_initramfs "$work/$label.cpio.gz" "$here/$script" $binaries
    boot "$label" "$image" "$work/$label.cpio.gz" "$vcpus" "$seconds" "$append $more"
    rm -f "$work/$label.cpio.gz"
}

report() {
    if [ "$1" = pass ]; then
        say "PASS $2, $seconds_taken"
    else
        failures=$((failures + 1))
        say "FAIL $2, $seconds_taken: $1"
        say "     log: $log"
    fi
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

# test_suites HOW SUITE...: HOW is `short` or `soak`.
test_suites() {
    how=$1
    shift
    for name; do
        load_suite "$name"
        [ "$how" = short ] || { config=$config+soak seconds=$((seconds * 10)); }
        for count in ${KERNEL_TEST_CPUS-$cpus}; do
            run_suite "$name" "$name-$how-$count" "$count" "stress=$how"
            seconds_taken="$seconds_run s"
            report "$verdict" "$name ($about), $count CPUs"
            grep -E '^(SKIPPED|COST)' "$log" || true
        done
    done
}

# A planted bug says in its first lines which suite must catch it and how:
#   Suite: NAME
#   Caught-by: a regular expression that the verdict or the log's FAIL lines match
planted() {
    for file in "$here"/planted/*.patch; do
        name=$(basename "$file" .patch)
        [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
        load_suite "$(sed -n 's/^Suite: //p' "$file")"
        catcher=$(sed -n 's/^Caught-by: //p' "$file")
        # The first warning (0x200) or bad page (0x20) is enough.
        run_suite planted "planted-$name" 4 "stress=brief panic_on_taint=0x220" "$file"
        seconds_taken="$seconds_run s"
        if ! grep -q '^PASS as many CPUs' "$log"; then
            report "the guest did not get to the suite ($verdict)" "planted bug $name"
        elif { echo "$verdict"; grep '^FAIL' "$log"; } | grep -qE "$catcher"; then
            say "PASS planted bug $name caught, $seconds_taken: $verdict"
        else
            report "not caught by /$catcher/ (verdict: $verdict)" "planted bug $name"
        fi
    done
}

bisect() {
    [ -d "$kernel/$1" ] || die "no series $1"
    upto=0
    for patch in $(upto=all series_patches "$1"); do
        upto=$((upto + 1))
        load_suite boot
        series=$1
        run_suite boot "bisect-$1-$upto" 2 ''
        seconds_taken="$seconds_run s"
        report "$verdict" "$1 up to $(basename "$patch")"
    done
}

# A series adds files where MAINTAINERS has somebody already.
style() {
    for patch in "$kernel"/*/[0-9]*.patch; do
        case $patch in */0000-*) continue ;; esac
        perl "$source/scripts/checkpatch.pl" --strict --no-tree --terse --ignore FILE_PATH_CHANGES - \
            <"$patch" >"$work/style" 2>&1 && continue
        failures=$((failures + 1))
        say "FAIL style of $patch"
        cat "$work/style"
    done
}

finish() {
    [ "$failures" -eq 0 ] || die "$failures failed"
    say "all passed"
}

command=${1-}
[ $# -eq 0 ] || shift
case $command in
test | soak | planted | bisect | style | selftests | build) ;;
*)
    sed -n 's/^# \{0,1\}//; 2,17p' "$0" >&2
    exit 2
    ;;
esac
mkdir -p "$work"
tools
find_source
say "Linux $version, logs in $work/logs"
case $command in
test)
    # shellcheck disable=SC2046
    if [ $# -gt 0 ]; then test_suites short "$@"; else
        style
        test_suites short $(suites test)
        selftests
    fi
    ;;
soak)
    # shellcheck disable=SC2046
    if [ $# -gt 0 ]; then test_suites soak "$@"; else
        test_suites soak $(suites test soak)
        planted
    fi
    ;;
planted) planted "$@" ;;
bisect) bisect "${1-}" ;;
style) style ;;
selftests) selftests "$@" ;;
build)
    build_kernel "${1-stock}" base $(shift; echo "$@")
    echo "image: $image"
    echo "tree:  $tree"
    ;;
esac
finish
