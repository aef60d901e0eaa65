#!/bin/sh
# Tests the kernel series in QEMU guests, on the source of Debian's linux-source-6.12. KVM is not
# needed, nor root once the tools are there (scripts/setup.sh kernel).
#
#   run.sh test [SUITE...]              every suite of suites/ with tier=test, or those named
#   run.sh soak [SUITE...]              every suite of either tier under KASAN, lockdep and longer
#                                       stress, then the planted bugs, each of which a suite must
#                                       catch
#   run.sh races [SUITE...]             the soaks under KCSAN, stock beside each series: data races
#                                       of a series fail
#   run.sh planted [NAME...]            the planted bugs alone (planted/*.patch), on the kernel of
#                                       `test`
#   run.sh bisect SERIES                a series patch by patch: each kernel builds, with its option
#                                       on, and boots
#   run.sh style                        checkpatch --strict on every patch of every series
#   run.sh review [SERIES...]           a dry run of submission: recipients, warnings of compilers
#                                       and checkers that the stock kernel does not have, for
#                                       several processors and configurations
#   run.sh selftests [long] [SERIES...] the kernel's own selftests of memory management: stock
#                                       against each series; long: compaction, migration, huge pages
#                                       and memory cgroups, for minutes
#   run.sh build SERIES [PATCH...]      one kernel; prints where its image and its tree are
#   run.sh forget                       removes the kernels that are kept for other clones
#
# SERIES is a directory of patches below kernel/, or `stock`. Source, build trees and logs lie below
# target/kernel (KERNEL_TEST_DIR), kernels in ~/.cache/memweir-kernel (KERNEL_TEST_CACHE) by the
# hash of their inputs. KERNEL_SOURCE names a tree that is unpacked already; it is only read, and
# its version decides which patches are taken. KERNEL_TEST_MEMWEIR names a memweir that is built
# already, KERNEL_TEST_PACKAGE a Debian package of it; KERNEL_TEST_CPUS ("2 4") how many CPUs guests
# have; KERNEL_TEST_GUESTS how many guests run at once, KERNEL_TEST_JOBS how many compilers;
# KERNEL_TEST_SOAK_SECONDS how long each stress of a soak or of `races` takes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
kernel=$(dirname "$here")
top=$(dirname "$kernel")
work=${KERNEL_TEST_DIR-$top/target/kernel}
jobs=${KERNEL_TEST_JOBS-$(nproc)}
# Seconds that each stress of a soak takes.
soak_seconds=${KERNEL_TEST_SOAK_SECONDS-1800}
# Patches of a series to apply: a number, or all.
upto=all

say() {
    echo "kernel-test: $*"
}

die() {
    echo "kernel-test: $*" >&2
    exit 1
}

# Ends a run that lacks tools or source: a failure in CI, whose machines are made for it, and a skip
# elsewhere.
skip() {
    [ "${CI-}" != true ] || die "CI must run these tests: $*"
    echo "SKIPPED: kernel-test: $*"
    exit 0
}

digest() {
    sha256sum | cut -c 1-20
}

digest_of_file() {
    sha256sum "$1" | cut -c 1-20
}

. "$here/lib/cache.sh"
. "$here/lib/source.sh"
. "$here/lib/build.sh"
. "$here/lib/guest.sh"
. "$here/lib/debian.sh"
. "$here/lib/suites.sh"
. "$here/lib/queue.sh"
. "$here/lib/selftests.sh"
. "$here/lib/costs.sh"
. "$here/lib/races.sh"
. "$here/lib/review.sh"

tools() {
    [ "$(uname -m)" = x86_64 ] || skip "the kernels are for x86_64, this is $(uname -m)"
    missing=
    for tool in qemu-system-x86_64 busybox cc make flex bison bc cpio patch perl flock timeout gzip xz dpkg-deb; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
    done
    [ -z "$missing" ] || skip "missing:$missing (as root, scripts/setup.sh kernel installs them)"
}

# report NAME: prints the outcome and the notes of the guest that was booted last, in one piece,
# since others report beside it.
report() {
    notes=$(grep -E '^(SKIPPED|COST)' "$log" || true)
    notes=${notes:+"
$notes"}
    if [ "$verdict" = pass ]; then
        say "PASS $1, $taken$notes"
    else
        guest_failed "$1"
    fi
}

# test_suites HOW SUITE...: HOW is `short`, `soak` or `races`.
test_suites() {
    how=$1
    shift
    with_baselines "$@"
    for name in $wanted; do
        load_suite_for "$how" "$name"
        prepare_suite || { say "SKIPPED: suite $name"; continue; }
        for count in ${KERNEL_TEST_CPUS-$cpus}; do
            enqueue suite_job "$how" "$name" "$count"
        done
    done
}

# A soak is the same under every check that the kernel has, and takes longer; data races have a
# kernel of their own.
load_suite_for() {
    load_suite "$2"
    stress=$1
    [ "$1" != short ] || return 0
    config=$config+$1 stress=soak clock=host seconds=$((seconds * 10 + soak_seconds * 20))
}

suite_job() {
    load_suite_for "$1" "$2"
    prepare_suite
    boot_suite "$2-$1-$3" "$3" "stress=$stress soak_seconds=$soak_seconds"
    report "$2 ($about), $3 CPUs"
    [ "$1" != races ] || echo "$series $2-$3 $log" >>"$scratch/races"
    [ -z "$budgets" ] || [ "$verdict" != pass ] || echo "$2 $log" >>"$scratch/costs"
}

# planted [NAME...]: all, if none is named. A planted bug says in its first lines which suite must
# catch it and how:
#   Suite: NAME
#   Caught-by: a regular expression that the verdict or the log's FAIL lines match
planted() {
    for file in "$here"/planted/*.patch; do
        name=$(basename "$file" .patch)
        [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
        load_suite "$(sed -n 's/^Suite: //p' "$file")"
        prepare_suite "$file"
        enqueue planted_job "$name" "$file"
    done
}

planted_job() {
    load_suite "$(sed -n 's/^Suite: //p' "$2")"
    catcher=$(sed -n 's/^Caught-by: //p' "$2")
    prepare_suite "$2"
    # The first warning (0x200) or bad page (0x20) is enough.
    boot_suite "planted-$1" 4 "stress=brief panic_on_taint=0x220"
    if ! grep -q '^PASS as many CPUs' "$log"; then
        guest_failed "planted bug $1: the guest did not get to the suite"
    elif { echo "$verdict"; grep '^FAIL' "$log"; } | grep -qE "$catcher"; then
        say "PASS planted bug $1 caught, $taken: $verdict"
    else
        guest_failed "planted bug $1: not caught by /$catcher/"
    fi
}

# Not in lanes: the number of patches is in the way that a kernel is built.
bisect() {
    [ "$1" ] && [ -d "$kernel/$1" ] || die "no series '$1'"
    upto=0
    for patch in $(upto=all series_patches "$1"); do
        upto=$((upto + 1))
        load_suite boot
        series=$1
        prepare_suite
        boot_suite "bisect-$1-$upto" 2 ''
        report "$1 up to $(basename "$patch")"
    done
    upto=all
}

# A series adds files in directories that MAINTAINERS covers already.
style() {
    need_source
    for patch in $(for name in $(all_series); do series_patches "$name"; done); do
        perl "$source/scripts/checkpatch.pl" --strict --no-tree --terse --ignore FILE_PATH_CHANGES - \
            <"$patch" >"$scratch/style" 2>&1 && continue
        failed "style of $patch"
        cat "$scratch/style"
    done
}

finish() {
    [ ! -f "$scratch/failed" ] || die "$(wc -l <"$scratch/failed") failed:
$(cat "$scratch/failed")"
    say "all passed"
}

command=${1-}
[ $# -eq 0 ] || shift
case $command in
test | soak | races | planted | bisect | style | review | selftests | build | forget) ;;
*)
    sed -n 's/^# \{0,1\}//; 2,31p' "$0" >&2
    exit 2
    ;;
esac
mkdir -p "$work/logs"
find_cache
if [ "$command" = forget ]; then
    rm -rf "$cache"
    exit
fi
tools
exec 8>"$work/lock"
flock -n 8 || { say "waiting for another run in $work" && flock 8; }
rm -rf "$work"/run.*
scratch=$(mktemp -d "$work/run.XXXXXX")
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
find_source
say "logs in $work/logs"
case $command in
test)
    # shellcheck disable=SC2046
    if [ $# -gt 0 ]; then test_suites short "$@"; else
        style
        selftests recorded
        test_suites short $(suites test)
    fi
    run_queue
    ;;
soak)
    # shellcheck disable=SC2046
    if [ $# -gt 0 ]; then test_suites soak "$@"; else
        test_suites soak $(suites test soak)
        planted
    fi
    run_queue
    ;;
races)
    # shellcheck disable=SC2046
    [ $# -gt 0 ] || set -- $(suites soak)
    # shellcheck disable=SC2046
    test_suites races $(suites races) "$@"
    run_queue
    ;;
planted)
    planted "$@"
    run_queue
    ;;
bisect) bisect "${1-}" ;;
style) style ;;
review) style && review "$@" ;;
selftests)
    selftests "$@"
    run_queue
    ;;
build)
    series_built=${1-stock}
    [ $# -eq 0 ] || shift
    build_kernel "$series_built" base "$@"
    echo "image: $image"
    echo "tree:  $tree"
    ;;
esac
compare_selftests
compare_costs
compare_races
finish
