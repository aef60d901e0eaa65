#!/bin/sh
# Runs one fuzz target, for run.sh, which explains the variables. Fails if an input was found.
#
#   FUZZER=PROGRAM FUZZ_DIR=DIRECTORY fuzz/one.sh TARGET
set -eu

target=$1
here=$FUZZ_DIR/$target
mkdir -p "$here/corpus" "$here/findings" "$here/seeds"
export MEMWEIR_FUZZ="$target"
if ! MEMWEIR_FUZZ_SEEDS=$here/seeds "$FUZZER" 2>"$here/log"; then
    echo "failed: $target has no seeds: $(tail -n 3 "$here/log")" >&2
    exit 1
fi

# Twice the longest seed: what a grammar of a few words can hold is in short inputs, and the time
# for an input grows with its length.
longest=$(find "$here/seeds" -type f -printf '%s\n' | sort -n | tail -n 1)
length=$((${longest:-0} * 2))
[ "$length" -ge 128 ] || length=128
[ "$length" -le 4096 ] || length=4096

status=0
"$FUZZER" -runs="${FUZZ_INPUTS-1000000}" -max_total_time="${FUZZ_SECONDS-0}" \
    -max_len="$length" -timeout=25 -rss_limit_mb=512 -print_final_stats=1 \
    -artifact_prefix="$here/findings/" "$here/corpus" "$here/seeds" >"$here/log" 2>&1 || status=$?
inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$here/log")
echo "${inputs:-0}" >>"$here/inputs"
total=$(awk '{ sum += $1 } END { printf "%d", sum }' "$here/inputs")
corpus=$(find "$here/corpus" -type f | wc -l)
found=$(grep -E "panicked at|ERROR: libFuzzer|Test unit written" "$here/log" | sed 's/^/    /')
# The fuzzer may not have begun.
[ -n "$inputs" ] || found=$(tail -n 3 "$here/log" | sed 's/^/    /')
# In one piece, since other targets speak meanwhile.
printf '%s: %s inputs, %s in all runs, %s in the corpus%s\n' "$target" "${inputs:-0}" "$total" \
    "$corpus" "${found:+
$found}"
[ "$status" -eq 0 ] || { echo "failed: $target" >&2; exit 1; }
