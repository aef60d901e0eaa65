#!/bin/sh
# Lists the skipped tests of a run with their reasons, and fails if one is not allowed on this kind
# of machine.
#
#   scripts/skips.sh FILE [ALLOWED]
#
# FILE has the records of the tests: test, reason and words, separated by tabs; it is absent if none
# was skipped. Each line of ALLOWED (default: scripts/skips.allowed) is `MACHINE REASON TEST`; * in
# TEST stands for anything. MACHINE is a kind of machine, of which this one may be several;
# SKIPS_MACHINE names them instead of a look at this one:
#   any         every machine
#   user        the tests do not run as root
#   virtual     a virtual machine
#   container   a process in a container
set -eu

file=$1
allowed=${2-$(dirname "$0")/skips.allowed}

kinds() {
    echo any
    [ "$(id -u)" -eq 0 ] || echo user
    ! grep -qw hypervisor /proc/cpuinfo || echo virtual
    if [ -e /.dockerenv ] || [ -e /run/.containerenv ] || [ -n "${container-}" ]; then
        echo container
    fi
}

[ -e "$file" ] || { echo "no test was skipped"; exit 0; }
machine=${SKIPS_MACHINE-$(kinds | tr '\n' ' ')}
sort -u "$file" | awk -F '\t' -v kinds="${machine% }" -v allowed="$allowed" '
    # A pattern with * as an anchored regular expression. `[.` would begin a collating symbol.
    function pattern(text) {
        gsub(/[].+?(){}|^$\\[]/, "\\\\&", text)
        gsub(/\*/, ".*", text)
        return "^" text "$"
    }
    BEGIN {
        count = split(kinds, list, " ")
        for (i = 1; i <= count; i++) is[list[i]] = 1
        while ((status = (getline line < allowed)) > 0) {
            if (line ~ /^[ \t]*(#|$)/) continue
            if (split(line, words, /[ \t]+/) != 3) {
                print allowed ": not `MACHINE REASON TEST`: " line
                wrong = 1
            } else if (words[1] in is) {
                reasons[++rules] = words[2]
                tests[rules] = pattern(words[3])
            }
        }
        if (status < 0) { print allowed ": cannot be read"; wrong = 1 }
    }
    {
        known = 0
        for (i = 1; i <= rules; i++) if ($2 == reasons[i] && $1 ~ tests[i]) known = 1
        printf "%s %s (%s): %s\n", known ? "skipped    " : "NOT ALLOWED", $1, $2, $3
        if (!known) unknown++
    }
    END {
        printf "%d skipped, %d of them not allowed here (%s)\n", NR, unknown, kinds
        exit unknown || wrong ? 1 : 0
    }'
