# The kernel's own mm selftests, in guests with a stock kernel and with each series: what passes on
# stock must pass on the series. Sourced by run.sh.

# Those that run in a small guest, in minutes without KVM, and touch what the series change.
selftest_programs='cow gup_longterm madv_populate map_populate mkdirty mlock-random-test mlock2-tests
mrelease_test mremap_dontunmap mremap_test mseal_test pagemap_ioctl soft-dirty uffd-unit-tests
ksm_functional_tests memfd_secret on-fault-limit droppable migration'

# Sets $selftests: a directory of static programs, built from the pristine source.
build_selftests() {
    selftests=$work/selftests/$source_id
    [ -f "$selftests/complete" ] && return
    say "building the kernel's mm selftests"
    series=stock config=base tree=$work/trees/stock-base
    mkdir -p "$selftests" "$work/trees"
    (
        flock 9
        make_tree
        set_patches
        make -C "$tree" -s headers
        for program in $selftest_programs; do
            make -C "$tree/tools/testing/selftests/mm" -s OUTPUT="$selftests" \
                EXTRA_CFLAGS='-static -O1' "$selftests/$program" || echo "SKIPPED: $program"
        done
    ) 9>"$tree.lock" >"$selftests/log" 2>&1 || die "selftests: not built (see $selftests/log)"
    grep '^SKIPPED' "$selftests/log" | sed 's/$/ (selftest) does not build here/' || true
    touch "$selftests/complete"
}

# selftests [SERIES...]: all series that there are, if none is named.
selftests() {
    [ $# -gt 0 ] || set -- $(cd "$kernel" && for name in */0001-*.patch; do dirname "$name"; done | sort -u)
    build_selftests
    run_selftests stock
    for series_tested; do
        run_selftests "$series_tested"
        compare_selftests "$series_tested"
    done
}

# run_selftests SERIES: boots them, writes the sorted outcomes to logs/selftests-SERIES.outcomes. Those of
# one kernel and one set of programs are kept with the image.
run_selftests() {
    build_kernel "$1" base
    outcomes=$(dirname "$image")/selftests.outcomes
    if [ ! -f "$outcomes" ]; then
        guest_program "$here/guest/swapon-direct.c" swapon-direct
        # shellcheck disable=SC2086
        make_initramfs "$work/selftests.cpio.gz" "$here/guest/selftests.sh" "$work/programs/swapon-direct" \
            $(cd "$selftests" && for program in $selftest_programs; do [ ! -x "$program" ] || echo "$selftests/$program"; done)
        boot "selftests-$1" "$image" "$work/selftests.cpio.gz" 2 1200 \
            "memmap=128M!512M selftests=$(echo $selftest_programs | tr ' ' ',')"
        rm -f "$work/selftests.cpio.gz"
        outcomes_of "$log" >"$outcomes.part"
        mv "$outcomes.part" "$outcomes"
        [ "$verdict" = pass ] || echo "not ok whole-run $verdict" >>"$outcomes"
    fi
    say "selftests on $1: $(grep -c '^ok' "$outcomes") ok, $(grep -c '^not ok' "$outcomes") not ok"
}

# TAP lines with the program's name before the test's, without numbers (which shift) and addresses.
outcomes_of() {
    awk '/^SELFTEST /  { program = $2 }
         /^(not )?ok / { state = $1 == "ok" ? "ok" : "not ok"
                         sub(/^(not )?ok [0-9]* */, ""); gsub(/0x[0-9a-f]+/, "ADDR")
                         print state, program, $0 }
         /^EXIT /      { print $2 == 0 || $2 == 4 ? "ok" : "not ok", program, "exit status" }' "$1" | sort
}

compare_selftests() {
    stock=$work/cache/stock.ok series_ok=$work/cache/series.ok
    series_outcomes=$outcomes
    build_kernel stock base >/dev/null
    grep '^ok' "$(dirname "$image")/selftests.outcomes" | sort -u >"$stock"
    grep '^ok' "$series_outcomes" | sort -u >"$series_ok"
    lost_tests=$(comm -23 "$stock" "$series_ok")
    if [ -z "$lost_tests" ]; then
        say "PASS selftests: all that pass on stock pass on $1"
    else
        failures=$((failures + 1))
        say "FAIL selftests: pass on stock, not on $1:"
        echo "$lost_tests"
    fi
}
