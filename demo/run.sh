#!/bin/sh
# The demo: a batch of real programs under policies, on inputs that it makes itself. Writes
# the tables, the figure and the raw results to demo/out/.
#
#   [ROUNDS=2] [POLICIES=os,...] [PLATFORM=FILE] demo/run.sh MEMWEIR
#
# PLATFORM is a calibration of this machine.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
memweir=$(realpath "$1")
out=$here/out
rounds=${ROUNDS:-2}
policies=${POLICIES:-os,ideal-average,max-weight}
platform=${PLATFORM:+$(realpath "$PLATFORM")}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export XDG_DATA_HOME="$work/data"
mkdir -p "$out"

echo "== what this machine offers"
"$memweir" doctor

echo
echo "== whether its cores contend for memory (three seconds)"
cpus=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2], sep=",")')
bandwidth() {
    "$memweir" hog --kernel read --for 1s --cpus "$1" --json - |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["bandwidth"])'
}
alone=$(bandwidth "${cpus%%,*}")
both=$(bandwidth "$cpus")
python3 - "$alone" "$both" <<'PYTHON'
import sys

alone, both = (float(value) / 1e9 for value in sys.argv[1:])
share = both / (2 * alone)
print(f"one reader {alone:.1f} GB/s, two together {both:.1f} GB/s: each keeps {share:.0%}")
if share > 0.9:
    print("Two cores hardly contend here: expect no difference between the policies.")
else:
    print("Two readers disturb each other here: putting them apart can save time.")
PYTHON

echo
echo "== making the inputs"
python3 "$here/inputs.py" "$work"
cp "$here/frames.py" "$here/primes.py" "$here/readings.sql" "$work"
sed "s|@MEMWEIR@|$memweir|" "$here/jobs.toml" >"$work/jobs.toml"

echo
echo "== profiling each program once, then the batch under each policy, $rounds times"
cd "$work"
{
    "$memweir" run jobs.toml \
        --profile-first --sample 10% \
        --compare "$policies" --repeat "$rounds" ${platform:+--platform "$platform"} \
        --logs "$work/logs" \
        --json "$out/comparison.json" --plot "$out/timeline.svg" || echo $? >"$work/failed"
} | tee "$out/comparison.txt"
[ ! -e "$work/failed" ] || exit "$(cat "$work/failed")"
"$memweir" store list >"$out/profiles.txt"

echo
echo "the timeline of the first round: $out/timeline.svg"
echo "the profiles that were recorded:  $out/profiles.txt"
