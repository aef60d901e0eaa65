#!/bin/sh
# Runs fuzz targets under libFuzzer: coverage-guided, on the stable compiler, without a sanitizer.
#
#   fuzz/run.sh [TARGET...]    these targets (fuzz/src/lib.rs lists them), or all
#
# FUZZ_INPUTS    inputs for each target (default: 1000000)
# FUZZ_SECONDS   ends a target earlier, after so many seconds
# FUZZ_DIR       corpora, findings, logs and counts (default: target/fuzz), from which later runs
#                go on
#
# Fails if a target crashed, took longer than 25 s for an input, or needed more than 512 MiB. The
# input lies in FUZZ_DIR/TARGET/findings then. Once the parser is mended, the input belongs in
# fuzz/found/TARGET, which every test run tries again.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
work=${FUZZ_DIR-$top/target/fuzz}
host=$(rustc -vV | sed -n 's/^host: //p')
build=${CARGO_TARGET_DIR:-$top/target}/fuzz-build

# With --target the flags do not reach build scripts and procedural macros.
RUSTFLAGS="${RUSTFLAGS-} -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    "$top/scripts/cargo.sh" build --manifest-path "$top/Cargo.toml" --locked --profile fuzz \
    --target "$host" --target-dir "$build" -p memweir-fuzz --features libfuzzer
fuzzer=$build/$host/fuzz/memweir-fuzz

# An allocation beyond this fails at once, however little of it would be touched.
# shellcheck disable=SC3045 # dash and bash have it
ulimit -v 4194304

# shellcheck disable=SC2046 # names of targets are single words
[ $# -gt 0 ] || set -- $(MEMWEIR_FUZZ=list "$fuzzer")
failed=
for target; do
    here=$work/$target
    mkdir -p "$here/corpus" "$here/findings" "$here/seeds"
    MEMWEIR_FUZZ=$target MEMWEIR_FUZZ_SEEDS=$here/seeds "$fuzzer"
    status=0
    MEMWEIR_FUZZ=$target "$fuzzer" -runs="${FUZZ_INPUTS-1000000}" \
        -max_total_time="${FUZZ_SECONDS-0}" -max_len=4096 -timeout=25 -rss_limit_mb=512 \
        -print_final_stats=1 -artifact_prefix="$here/findings/" \
        "$here/corpus" "$here/seeds" >"$here/log" 2>&1 || status=$?
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$here/log")
    echo "${inputs:-0}" >>"$here/inputs"
    total=$(awk '{ sum += $1 } END { printf "%d", sum }' "$here/inputs")
    corpus=$(find "$here/corpus" -type f | wc -l)
    echo "$target: ${inputs:-0} inputs, $total in all runs, $corpus in the corpus"
    if [ "$status" -ne 0 ]; then
        grep -E "panicked at|ERROR: libFuzzer|Test unit written" "$here/log" | sed 's/^/    /'
        failed="$failed $target"
    fi
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
