# Budgets of page faults: instructions per page that is touched first, against the stock kernel. A
# suite with `baseline` and `budgets` has a line per budget: the cost, the cost of the baseline, and
# the percentage by which the former may exceed the latter. Sourced by run.sh; needs queue.sh.

# compare_costs: for the suites with budgets that passed in this run. $scratch/costs lists them with
# their logs.
compare_costs() {
    [ -f "$scratch/costs" ] || return 0
    while read -r suite_name suite_log; do
        load_suite "$suite_name"
        baseline_log=$work/logs/$(basename "$suite_log" | sed "s/^$suite_name-/$baseline-/")
        say "budgets of $suite_name, instructions for each page touched:"
        echo "$budgets" | within_budgets "$baseline_log" "$suite_log" ||
            failed "$suite_name: over budget, or not measured"
    done <"$scratch/costs"
}

# within_budgets BASELINE_LOG LOG <BUDGETS: prints a line per budget; fails if one is exceeded, or a
# cost is missing.
within_budgets() {
    awk -v baseline_log="$1" -v log_file="$2" '
        function read_costs(file, costs, line, name, status) {
            while ((status = (getline line < file)) > 0)
                if (line ~ /^COST .*: [0-9]+ per page touched/) {
                    name = line
                    sub(/^COST /, "", name)
                    sub(/: [0-9]+ per page touched.*/, "", name)
                    sub(/.*: /, "", line)
                    costs[name] = line + 0
                }
            close(file)
        }
        BEGIN { FS = " *: *"; read_costs(baseline_log, stock); read_costs(log_file, series) }
        NF == 0 { next }
        {
            if (!($1 in series) || !($2 in stock)) {
                printf "    FAIL %s: not measured\n", $1
                bad = 1
                next
            }
            more = series[$1] - stock[$2]
            over = more * 100 > stock[$2] * $3
            printf "    %s %s: %d, stock %d: %+.2f %%, budget %s %%\n", over ? "FAIL" : "PASS", $1,
                series[$1], stock[$2], more * 100 / stock[$2], $3
            if (over) bad = 1
            budgets++
        }
        END { exit bad || !budgets }'
}
