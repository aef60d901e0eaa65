#!/bin/sh
# Checks that take hours. Each part runs even where one before it failed; the list of those that
# failed comes last.
#
#   scripts/nightly.sh [PART...]     default: all of them, in this order
#
#   costs     instructions of a page fault on each kernel series, within the budgets of its suite
#   sched_ext the suites of the BPF scheduler that `make kernel-test` has no time for
#   planted   the planted bugs of the kernel series, each of which a suite must catch
#   bisect    each kernel series patch by patch
#   review    each kernel series as maintainers and their robots would look at it
#   selftests the kernel's own tests of memory management: the recorded outcomes on the stock
#             kernel, then compaction, migration, huge pages and memory cgroups
#   fuzz      every fuzz target, FUZZ_INPUTS inputs (default: ten million)
#   tests     the tests that `make test` leaves out because they take minutes
#   user      the end-to-end tests as an ordinary user
#   live      one round of the live batches of experiments/max-weight
#   engines   sweeps on Dask, Ray, MPI, HyperQueue and Slurm
#   wheel     the Python package as `make wheel` builds it, in an empty environment
#   deb       the Debian package: lintian, and its life in a clean Debian 12 tree
#   systemd   the Debian package under systemd, and watch beside Podman and Slurm, in guests
#   site      the site is made, its links lead somewhere, and it fits on narrow screens
#   publish   every crate that is published, built from its package
#   bench     benchmarks against their budgets and those of the first night (scripts/slower.sh)
set -u

cd "$(dirname "$0")/.." || exit
# Nothing may be skipped for want of tools.
export CI=true
export FUZZ_INPUTS="${FUZZ_INPUTS-10000000}"

costs() {
    kernel/test/run.sh test fault-cost fault-cost-direct-read
}

sched_ext() {
    scripts/setup.sh kernel && KERNEL_TEST_CPUS=2 kernel/test/run.sh test sched-ext &&
        kernel/test/run.sh test sched-ext-daemon sched-ext-limits sched-ext-long
}

planted() {
    kernel/test/run.sh planted
}

bisect() {
    status=0
    for series in kernel/*/0001-*.patch; do
        kernel/test/run.sh bisect "$(basename "$(dirname "$series")")" || status=1
    done
    return $status
}

review() {
    scripts/setup.sh review && kernel/test/run.sh review
}

selftests() {
    scripts/setup.sh kernel && kernel/test/run.sh selftests && kernel/test/run.sh selftests long
}

fuzz() {
    fuzz/run.sh
}

tests() {
    MEMWEIR_DAEMON_KILLS=1000 MEMWEIR_STEPS=1 scripts/cargo.sh test --locked --no-fail-fast \
        -p memweir-map -p memweir-reproduce -p memweir -- --include-ignored 'maps' 'full_runs' \
        'queue::' 'steps::' </dev/null
}

user() {
    # `make test` runs them as the user that it has.
    [ "$(id -u)" -eq 0 ] || return 0
    scripts/setup.sh test && scripts/build-as-tested.sh || return
    home=$(mktemp -d) && chmod 711 "$home" && mkdir "$home/own" && chown 65534:65534 "$home/own"
    as_user="env HOME=$home/own TMPDIR=$home/own setpriv --reuid=65534 --regid=65534 --clear-groups"
    MEMWEIR_SKIPS="$home/own/skips" \
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$as_user" \
        scripts/cargo.sh test --workspace --locked --test e2e </dev/null
    tested=$?
    # shellcheck disable=SC2086 # the command has several words
    $as_user scripts/skips.sh "$home/own/skips" || tested=1
    rm -rf "$home"
    return $tested
}

live() {
    make build && mkdir -p target/live &&
        experiments/max-weight/live.py target/release/memweir target/live 1
}

engines() {
    scripts/setup.sh engines &&
        scripts/build-as-tested.sh &&
        python/environment.sh && python/wheel.sh dev && python/engines.sh
}

wheel() {
    make wheel && (cd python && MEMWEIR_WHEELS=target/python/wheels \
        ../target/python/venv/bin/python -m pytest -q tests/test_wheel.py)
}

deb() {
    make deb && scripts/setup.sh deb-test && packaging/deb-test.sh
}

systemd() {
    make deb && scripts/setup.sh kernel && scripts/setup.sh deb-test &&
        kernel/test/run.sh test systemd containers
}

site() {
    make docs && scripts/setup.sh browser && scripts/check-width.py target/book
}

publish() {
    scripts/cargo.sh package --workspace --locked --exclude memweir-fuzz \
        --exclude memweir-test-support --exclude memweir-python
}

bench() {
    scripts/slower.sh
}

parts='costs sched_ext planted bisect review selftests fuzz tests user live engines wheel deb'
parts="$parts systemd site publish bench"
# shellcheck disable=SC2086 # the parts are separate words
[ $# -gt 0 ] || set -- $parts
failed=
for part; do
    case " $parts " in
    *" $part "*) ;;
    *)
        sed -n 's/^# \{0,1\}//; 2,24p' "$0" >&2
        exit 2
        ;;
    esac
done
for part; do
    echo "nightly: $part"
    "$part" || failed="$failed $part"
done
[ -z "$failed" ] || { echo "nightly: failed:$failed" >&2; exit 1; }
echo "nightly: all passed"
