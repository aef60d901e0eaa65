#!/bin/sh
# Runs the benchmarks and judges them (`scripts/performance.py bench`). Fails also if one of
# Criterion is slower than on the first night by more than NIGHTLY_SLOWER percent (default 10) even
# at the fast end of the confidence interval of its mean.
#
#   scripts/slower.sh [judge DIRECTORY]    `judge` reads only Criterion's results in DIRECTORY
#
# The first run keeps its measurements as the baseline `nightly` in target/criterion; remove that to
# begin anew.
set -eu

cd "$(dirname "$0")/.."
results=${CARGO_TARGET_DIR:-target}/criterion

# judge DIRECTORY [FIND-CONDITION...]: prints the changes that Criterion found; fails if one is too
# large, or if there is none.
judge() {
    directory=$1
    shift
    # shellcheck disable=SC2016 # a program of awk
    find "$directory" -path '*/change/estimates.json' "$@" -print0 | sort -z |
        xargs -0 awk -v percent="${NIGHTLY_SLOWER-10}" '
            # Up to the low end of the interval.
            match($0, /"mean":\{"confidence_interval":\{"confidence_level":[^:]*:[^,]*/) {
                low = substr($0, RSTART, RLENGTH)
                sub(/.*:/, "", low)
                name = FILENAME
                sub(/\/change\/estimates\.json$/, "", name)
                sub(/.*criterion\//, "", name)
                seen++
                slower = low * 100 > percent
                printf "%s %s: mean at least %+.1f %%\n", slower ? "SLOWER" : "ok    ", name,
                    low * 100
                if (slower) bad++
            }
            END {
                printf "%d benchmarks compared, %d slower\n", seen, bad
                exit bad > 0 || !seen
            }'
}

if [ "${1-}" = judge ]; then
    judge "$2"
    exit
fi

mkdir -p "$results"
baseline=--save-baseline
first=$(find "$results" -path '*/nightly/estimates.json' | head -n 1)
[ -z "$first" ] || baseline=--baseline-lenient
: >"$results/started"
status=0
make build
scripts/setup.sh bench
scripts/performance.py bench -- $baseline nightly || status=1
[ $baseline = --save-baseline ] || judge "$results" -newer "$results/started" || status=1
exit $status
