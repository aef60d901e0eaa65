#!/bin/sh
# Runs fuzz targets under libFuzzer: coverage-guided, on the stable compiler, without a sanitizer.
#
#   fuzz/run.sh [TARGET...]    these targets (fuzz/src/lib.rs lists them), or all
#
# FUZZ_INPUTS    inputs for each target (default: 1000000)
# FUZZ_JOBS      targets at a time (default: as many as processors)
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
[ $# -gt 0 ] || set -- $(MEMWEIR_FUZZ=list "$fuzzer" 2>/dev/null)
printf '%s\n' "$@" | FUZZER="$fuzzer" FUZZ_DIR="$work" \
    xargs -n 1 -P "${FUZZ_JOBS-$(nproc)}" "$top/fuzz/one.sh"
