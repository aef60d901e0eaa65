# The kernel's own selftests of memory management, in guests with a stock kernel and with each
# series: what passes on stock must pass on the series. The outcomes on Debian's stock kernel are
# recorded in selftests-VERSION.outcomes, so that `test` needs no stock kernel. Sourced by run.sh.

# Selftests that run in a small guest, in a minute without KVM, and touch code that the series
# change; with arguments after colons. The tests of userfaultfd for events, minor faults and poison
# take minutes together; they concern the file descriptor, the page cache, and entries that are no
# swap entries.
short_selftest_calls='cow gup_longterm madv_populate map_populate mkdirty mlock-random-test mlock2-tests
mrelease_test mremap_dontunmap mremap_test mseal_test pagemap_ioctl soft-dirty uffd-unit-tests:-f:zeropage
uffd-unit-tests:-f:move uffd-unit-tests:-f:wp-fork uffd-unit-tests:-f:wp-unpopulated
ksm_functional_tests memfd_secret on-fault-limit droppable'
# Selftests that take minutes: compaction, migration, huge pages, and memory cgroups. khugepaged
# splits 512 huge pages and keeps one page of each: with 1 GiB the kernel does not always get the
# next one.
long_selftest_calls='compaction_test migration khugepaged khugepaged:all+shmem khugepaged:-s:4:all+anon
split_huge_page_test test_memcontrol test_kmem test_hugetlb_memcg test_zswap test_cpuset test_core'
selftest_calls=$short_selftest_calls selftest_set=short selftest_seconds=600

# selftest_programs CALL...: each program once.
selftest_programs() {
    echo "$@" | tr ' ' '\n' | sed 's/:.*//' | uniq
}

# Sets $selftests: a directory of static programs, built from the pristine source and kept.
build_selftests() {
    # Some need libraries that may come later.
    needed=$(ls /usr/include/sys/capability.h /usr/include/numa.h 2>/dev/null || true)
    cache_entry "$( (echo "$source_id $needed"; toolchain; cat "$here/lib/selftests.sh") | digest)"
    selftests=$entry
    [ ! -f "$selftests/complete" ] || return 0
    say "building the kernel's selftests"
    need_source
    series=stock config=base tree=$work/trees/selftests
    mkdir -p "$work/trees"
    (
        make_tree
        make -C "$tree" -s headers
        for program in $(selftest_programs $short_selftest_calls $long_selftest_calls); do
            case $program in test_*) subject=cgroup ;; *) subject=mm ;; esac
            # One Makefile sets CFLAGS, the other adds to them. In 6.12 khugepaged forgets
            # kselftest.h.
            CFLAGS='-static -O1' make -C "$tree/tools/testing/selftests/$subject" -s OUTPUT="$selftests" \
                EXTRA_CFLAGS='-static -O1 -DKSFT_SKIP=4' "$selftests/$program" || echo "SKIPPED: $program"
        done
    ) >"$selftests/log" 2>&1 || die "selftests: not built (see $selftests/log)"
    rm -rf "$tree" "$tree.unfinished"
    grep '^SKIPPED' "$selftests/log" | sed 's/$/ (selftest) does not build here/' || true
    touch "$selftests/complete"
}

# selftests [long|recorded] [SERIES...]: all series that there are, if none is named. `recorded`
# takes the outcomes on stock from the record, where there is one.
selftests() {
    stock=stock
    record=$here/selftests-$linux.outcomes
    # Another source may be of another stable release.
    [ -f "$record" ] && [ -z "${KERNEL_SOURCE-}" ] || record=
    case "${1-}" in
    long)
        shift
        selftest_calls=$long_selftest_calls selftest_set=long selftest_seconds=3600 guest_memory=2G
        record=
        ;;
    recorded)
        shift
        [ -z "$record" ] || stock=
        ;;
    esac
    # shellcheck disable=SC2046
    [ $# -gt 0 ] || set -- $(all_series)
    build_selftests
    [ -z "$record" ] || recorded_outcomes >"$scratch/recorded.outcomes"
    [ -n "$stock" ] || cp "$scratch/recorded.outcomes" "$work/logs/selftests-stock.outcomes"
    guest_program "$here/guest/swapon-direct.c" swapon-direct
    for series_tested in $stock "$@"; do
        build_kernel "$series_tested" base
        enqueue selftests_job "$series_tested"
    done
    echo "$*" >"$scratch/selftests"
}

# The record of those programs that build here.
recorded_outcomes() {
    while IFS= read -r outcome; do
        program=${outcome#not }
        program=${program#ok }
        [ ! -x "$selftests/${program%%[ :]*}" ] || printf '%s\n' "$outcome"
    done <"$record"
}

# selftests_job SERIES: boots them, writes the sorted outcomes to logs/selftests-SERIES.outcomes.
# The outcomes of the stock kernel are always the same, and kept.
selftests_job() {
    build_selftests
    build_kernel "$1" base
    outcomes=$work/logs/selftests-$1.outcomes
    kept=$entry/$(basename "$selftests").$(echo "$selftest_calls" | digest).outcomes
    if [ "$1" = stock ] && [ -f "$kept" ]; then
        cp "$kept" "$outcomes"
        return
    fi
    # shellcheck disable=SC2046
    make_initramfs "$scratch/selftests-$1.cpio.gz" "$here/guest/selftests.sh" "$work/programs/swapon-direct" \
        $(for program in $(selftest_programs $selftest_calls); do [ ! -x "$selftests/$program" ] || echo "$selftests/$program"; done)
    # shellcheck disable=SC2086
    boot "selftests-$1" "$image" "-initrd $scratch/selftests-$1.cpio.gz" 2 $selftest_seconds \
        "memmap=128M!512M selftest_set=$selftest_set selftests=$(echo $selftest_calls | tr ' ' ',')"
    rm -f "$scratch/selftests-$1.cpio.gz"
    outcomes_of "$log" >"$outcomes"
    say "selftests on $1: $(grep -c '^ok' "$outcomes") ok, $(grep -c '^not ok' "$outcomes") not ok, $taken"
    if [ "$verdict" != pass ]; then
        guest_failed "selftests on $1"
    elif [ "$1" = stock ]; then
        cp "$outcomes" "$kept.$$" && mv "$kept.$$" "$kept"
    fi
}

# One line for each test of TAP and of userfaultfd, with the call before the test's name, without
# the parts that differ from run to run: numbers of tests, addresses, and the memory with which a
# race was won. Of calls that were repeated, the lines of the best.
outcomes_of() {
    awk 'function note(state, test) { lines = lines state " " program " " test "\n"; bad += state != "ok" }
         function end() { if (program != "" && (!(program in least) || bad < least[program])) {
                              least[program] = bad; best[program] = lines }
                          lines = ""; bad = 0 }
         /^SELFTEST /  { end(); program = $2 }
         /^(not )?ok / { state = $1 == "ok" ? "ok" : "not ok"
                         sub(/^(not )?ok [0-9]* */, ""); gsub(/0x[0-9a-f]+/, "ADDR"); sub(/Extra pages.*/, "Extra pages")
                         sub(/with [0-9]+MB/, "with some")
                         note(state, $0) }
         /^Testing .*\.\.\. / { state = $NF == "done" ? "ok" : "not ok"
                               sub(/\.\.\. .*/, ""); note(state, $0) }
         /^Run test: /   { run = $0; sub(/.*: /, "", run) }
         /\033\[3[123]m/ { state = /\033\[31m/ ? "not ok" : "ok"
                         gsub(/\033\[[0-9]*m|\.\.+.*/, ""); note(state, run ": " $0) }
         /^EXIT /      { note($2 == 0 || $2 == 4 ? "ok" : "not ok", "exit status") }
         END           { end(); for (program in best) printf "%s", best[program] }' "$1" | sort
}

# Compares the record with the outcomes on the stock kernel that has just run.
check_record() {
    LC_ALL=C sort -u "$work/logs/selftests-stock.outcomes" >"$scratch/stock.outcomes"
    cmp -s "$scratch/recorded.outcomes" "$scratch/stock.outcomes" ||
        failed "selftests: $record is not what stock gives:
$(diff "$scratch/recorded.outcomes" "$scratch/stock.outcomes" | grep '^[<>]')"
}

# Compares the selftests of this run, if there were any. It fails if none passed on stock, as there
# is nothing to compare with.
compare_selftests() {
    [ -f "$scratch/selftests" ] || return 0
    grep '^ok' "$work/logs/selftests-stock.outcomes" | sort -u >"$scratch/stock.ok"
    [ -s "$scratch/stock.ok" ] || { failed "selftests: none passed on stock"; return; }
    [ -z "$stock" ] || [ -z "$record" ] || check_record
    for series_tested in $(cat "$scratch/selftests"); do
        grep '^ok' "$work/logs/selftests-$series_tested.outcomes" | sort -u >"$scratch/series.ok"
        lost_tests=$(comm -23 "$scratch/stock.ok" "$scratch/series.ok")
        if [ -z "$lost_tests" ]; then
            say "PASS selftests: all $(wc -l <"$scratch/stock.ok") that pass on stock pass on $series_tested"
        else
            failed "selftests: pass on stock, not on $series_tested (log: $work/logs/selftests-$series_tested.log):
$lost_tests
$(grep -B 5 '^not ok' "$work/logs/selftests-$series_tested.log")"
        fi
    done
}
