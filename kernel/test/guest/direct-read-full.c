// SPDX-License-Identifier: GPL-2.0
/*
 * Direct read from a nearly full swap device. Pages read in place own their slots: page-outs that
 * look for the last free slots must not take one that is mapped or held. The test that matters
 * most: two of five planted bugs were found by nothing else.
 */
#include "swap.h"
#include <sys/uio.h>

/* Of 32,767 slots on 128 MiB. */
#define OURS 20000
#define OTHERS 16000
#define HELD 1234
#define FREED 5000
#define FREED_END 5256

/* One word of eight in each line is enough here, and keeps the emulated guest's time short. */
#define STEP 64

static uint64_t word_of(uint64_t who, size_t page, size_t word)
{
	return (who << 40) + page * WORDS + word + 1;
}

static void fill_some(uint64_t *at, size_t pages, uint64_t who)
{
	for (size_t page = 0; page < pages; page++)
		for (size_t word = 0; word < WORDS; word += STEP)
			at[page * WORDS + word] = word_of(who, page, word);
}

static size_t wrong_in_page(const volatile uint64_t *at, size_t page, uint64_t who)
{
	size_t wrong = 0;

	for (size_t word = 0; word < WORDS; word += STEP)
		wrong += at[page * WORDS + word] != word_of(who, page, word);
	return wrong;
}

static size_t wrong_some(const volatile uint64_t *at, size_t pages, uint64_t who)
{
	size_t wrong = 0;

	for (size_t page = 0; page < pages; page++)
		wrong += wrong_in_page(at, page, who);
	return wrong;
}

/* After its owner dropped one page and freed others lazily. */
static void check_ours(const volatile uint64_t *ours)
{
	size_t wrong = 0, freed_wrong = 0;

	for (size_t page = 0; page < OURS; page++) {
		uint64_t first = ours[page * WORDS];

		if (page == HELD)
			continue;
		if (page >= FREED && page < FREED_END)
			freed_wrong += first != 0 && first != word_of(1, page, 0);
		else
			wrong += wrong_in_page(ours, page, 1);
	}
	check(!wrong, "pages in place survive page-outs on a nearly full device: %zu wrong words",
	      wrong);
	check(!freed_wrong, "pages under MADV_FREE are old or zero: %zu wrong", freed_wrong);
}

/*
 * A slot that still belonged to its last occupant would be copied for the next: right contents, and
 * no read in place any more.
 */
static void check_next_occupants(void)
{
	uint64_t *later = map_pages(OURS);
	struct counters start;
	size_t wrong, in_place;

	fill_some(later, OURS, 5);
	page_out(later, OURS);
	start = count();
	wrong = wrong_some(later, OURS, 5);
	in_place = pages_in_place(later, OURS);
	check(!wrong && in_place >= OURS * 9L / 10 && labs(since(start).used) <= OURS / 10,
	      "slots forget their last occupants: %zu of %d pages mapped from the device, %zu wrong words, slots %+ld",
	      in_place, OURS, wrong, since(start).used);
	munmap(later, OURS * PAGE);
}

int main(void)
{
	uint64_t *ours = map_pages(OURS), *others = map_pages(OTHERS);
	struct iovec part = { ours + HELD * WORDS, PAGE };
	static uint64_t held[WORDS];
	struct counters start, change;
	size_t wrong;
	int ends[2];

	if (pipe(ends))
		die("pipe");
	swap_on(DIRECT);
	fill_some(ours, OURS, 1);
	page_out(ours, OURS);
	start = count();
	wrong = wrong_some(ours, OURS, 1);
	change = since(start);
	check(!wrong && change.direct >= OURS * 9L / 10 && pages_in_place(ours, OURS) >= OURS * 9L / 10,
	      "%ld of %d pages read in place, %zu mapped from the device, %zu wrong words", change.direct,
	      OURS, pages_in_place(ours, OURS), wrong);
	if (vmsplice(ends[1], &part, 1, 0) != (ssize_t)PAGE)
		die("vmsplice");
	madvise(ours + HELD * WORDS, PAGE, MADV_DONTNEED);
	madvise(ours + FREED * WORDS, (FREED_END - FREED) * PAGE, MADV_FREE);
	for (uint64_t round = 2; round < 5; round++) {
		fill_some(others, OTHERS, round);
		page_out(others, OTHERS);
	}
	check(swap_used() > 31000, "the device is nearly full: %ld slots", swap_used());
	check_ours(ours);
	wrong = wrong_some(others, OTHERS, 4);
	check(!wrong, "the pages that filled it: %zu wrong words", wrong);
	if (read(ends[0], held, PAGE) != (ssize_t)PAGE)
		die("read");
	check(held[0] == word_of(1, HELD, 0) && held[STEP] == word_of(1, HELD, STEP),
	      "a page held by a pipe survives as well");
	munmap(ours, OURS * PAGE);
	munmap(others, OTHERS * PAGE);
	check_next_occupants();
	swap_off();
	return check_result();
}
