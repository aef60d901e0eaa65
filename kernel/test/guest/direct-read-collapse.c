// SPDX-License-Identifier: GPL-2.0
/*
 * Huge pages in place of ranges that have pages on a direct-read swap device: MADV_COLLAPSE and
 * khugepaged copy those to DRAM. Needs what direct-read needs.
 */
#include "swap.h"
#include <sys/wait.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE 512
/* The first pages of a range are read in place, the next ones swapped out, the others in DRAM. */
#define IN_PLACE 96
#define SWAPPED 192
#define KHUGEPAGED "/sys/kernel/mm/transparent_hugepage/khugepaged/"

static uint64_t *pages;

/* A new range of the size and alignment of a huge page, all of it swapped out. */
static void swap_out_range(uint64_t round)
{
	uintptr_t at = (uintptr_t)map_pages(2 * HUGE);

	pages = (uint64_t *)((at + HUGE * PAGE - 1) & ~(HUGE * PAGE - 1));
	fill(pages, HUGE, round);
	page_out(pages, HUGE);
}

/* Reads what is to be in place, writes what is to be in DRAM, and allows a huge page. */
static void bring_back(uint64_t round)
{
	if (wrong_between(pages, 0, IN_PLACE, round))
		check(false, "contents of round %lu in place", round);
	for (size_t page = SWAPPED; page < HUGE; page++)
		pages[page * WORDS] = expected(round, page, 0);
	madvise(pages, HUGE * PAGE, MADV_HUGEPAGE);
}

static void collapse(const char *whose, uint64_t round)
{
	size_t before = pages_in_place(pages, HUGE);
	struct counters start = count(), change;
	int failed = madvise(pages, HUGE * PAGE, MADV_COLLAPSE) ? errno : 0;

	change = since(start);
	check(!failed && before > IN_PLACE / 2,
	      "MADV_COLLAPSE of a range with %zu pages in place, %s: %s", before, whose,
	      strerror(failed));
	check(!pages_in_place(pages, HUGE) && !wrong_words(pages, HUGE, round),
	      "the huge page is DRAM and holds the same: %zu in place, %zu wrong words",
	      pages_in_place(pages, HUGE), wrong_words(pages, HUGE, round));
	check(change.direct == 0, "what is collapsed is not mapped in place first: %ld",
	      change.direct);
}

static void a_range_of_one_process(void)
{
	struct counters start;

	swap_out_range(1);
	start = count();
	bring_back(1);
	collapse("of one process", 1);
	check(about(since(start).used, -HUGE), "its slots are free: %+ld", since(start).used);
}

/* The slots are in the swap cache, read in place by a child. */
static void a_range_that_a_child_reads(void)
{
	int ready[2], done[2], status;
	char byte = 0;
	pid_t child;

	swap_out_range(2);
	if (pipe(ready) || pipe(done))
		die("pipe");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		size_t wrong = wrong_words(pages, HUGE, 2);

		if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)
			die("pipe");
		_exit(wrong + wrong_words(pages, HUGE, 2) != 0);
	}
	if (read(ready[0], &byte, 1) != 1)
		die("pipe");
	bring_back(2);
	collapse("which a child reads, too", 2);
	fill(pages, HUGE, 3);
	if (write(done[1], &byte, 1) != 1)
		die("pipe");
	waitpid(child, &status, 0);
	check(status == 0, "the child keeps its contents when its parent writes");
}

/* Until khugepaged was everywhere once more, or the range is collapsed. */
static bool collapsed_by_khugepaged(void)
{
	long scans = number_in(KHUGEPAGED "full_scans");

	for (int tenths = 0; tenths < 600; tenths++) {
		if (!pages_in_place(pages, HUGE))
			return true;
		if (number_in(KHUGEPAGED "full_scans") > scans + 2)
			return false;
		usleep(100000);
	}
	check(false, "khugepaged scans");
	return false;
}

static void khugepaged_counts_pages_in_place_as_swapped(void)
{
	/* Before the range may have huge pages: khugepaged hears of it by that. */
	if (!put(KHUGEPAGED "max_ptes_swap", "0") || !put(KHUGEPAGED "pages_to_scan", "65536") ||
	    !put(KHUGEPAGED "scan_sleep_millisecs", "10") ||
	    !put("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"))
		die("khugepaged");
	swap_out_range(4);
	bring_back(4);
	/* Nothing is swapped out any more, so that pages in place alone can exceed the limit. */
	for (size_t page = IN_PLACE; page < SWAPPED; page++)
		pages[page * WORDS] = expected(4, page, 0);
	check(!collapsed_by_khugepaged(), "khugepaged leaves pages in place beyond max_ptes_swap");
	put(KHUGEPAGED "max_ptes_swap", "511");
	check(collapsed_by_khugepaged() && !wrong_words(pages, HUGE, 4),
	      "khugepaged copies pages in place within max_ptes_swap: %zu wrong words",
	      wrong_words(pages, HUGE, 4));
	put("/sys/kernel/mm/transparent_hugepage/enabled", "never");
}

int main(void)
{
	swap_on(DIRECT);
	a_range_of_one_process();
	a_range_that_a_child_reads();
	khugepaged_counts_pages_in_place_as_swapped();
	swap_off();
	return check_result();
}
