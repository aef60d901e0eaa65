# Data races, as KCSAN finds them by chance. The stock kernel has some, so a suite fails for those
# alone that the stock kernel does not have under the same stress and that name a function which the
# series touches; the others are listed for review. Sourced by run.sh; needs queue.sh.

# compare_races: for the suites of `run.sh races`. A guest that failed has shown its races, too.
compare_races() {
    [ -f "$scratch/races" ] || return 0
    grep '^stock ' "$scratch/races" | while read -r _ _ stock_log; do races_in "$stock_log"; done |
        sort -u >"$scratch/races.stock"
    grep -v '^stock ' "$scratch/races" | while read -r series_raced label race_log; do
        races_in "$race_log" | comm -23 - "$scratch/races.stock" >"$scratch/races.new"
        # shellcheck disable=SC2046 # file names of this repository, without spaces
        functions_of $(series_patches "$series_raced") >"$scratch/races.functions"
        grep -wFf "$scratch/races.functions" "$scratch/races.new" >"$scratch/races.ours" || true
        say "data races of $label: $(races_in "$race_log" | wc -l) by their functions; stock has" \
            "$(wc -l <"$scratch/races.stock"); not there: $(wc -l <"$scratch/races.new")"
        sed 's/^/    /' "$scratch/races.new"
        [ ! -s "$scratch/races.ours" ] ||
            failed "$label: data races in functions of the series:" \
                "$(paste -sd ';' "$scratch/races.ours")"
    done
}

# races_in LOG: the pairs of functions that raced, or the one that is known, each once.
races_in() {
    sed -n 's/+0x[0-9a-f]*\/0x[0-9a-f]*//g; s/.*BUG: KCSAN: data-race in //p' "$1" | sort -u
}

# functions_of PATCH...: the functions of C that the patches change, and those beside them.
functions_of() {
    awk '
        /^diff --git/ { code = $4 ~ /\.[ch]$/ }
        !code { next }
        !sub(/^@@[^@]*@@ /, "") { $0 = substr($0, 2) }
        match($0, /^[a-z_][A-Za-z0-9_ *]*[ *][A-Za-z0-9_]+\(/) {
            name = substr($0, 1, RLENGTH - 1)
            sub(/.*[ *]/, "", name)
            print name
        }' "$@" | sort -u
}
