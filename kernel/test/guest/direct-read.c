// SPDX-License-Identifier: GPL-2.0
/*
 * Direct read from a swap device: what programs see, and what the counters say. Needs /dev/pmem0
 * with a swap signature and struct pages, transparent huge pages off, root. The nearly full device
 * and the stress are programs of their own.
 */
#include "swap.h"
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define PAGES 2048

static uint64_t *pages;

/* New contents, on the device and read in place. */
static void read_in_place(uint64_t round)
{
	fill(pages, PAGES, round);
	page_out(pages, PAGES);
	if (wrong_words(pages, PAGES, round))
		check(false, "contents of round %lu after the first read", round);
}

static void without_the_flag_pages_are_copied(void)
{
	struct counters start, change;
	size_t wrong;

	swap_on(COPYING);
	fill(pages, PAGES, 1);
	page_out(pages, PAGES);
	start = count();
	wrong = wrong_words(pages, PAGES, 1);
	change = since(start);
	check(!wrong && about(change.copied_in, PAGES) && change.direct == 0,
	      "without the flag: %zu wrong words, %ld copied in, %ld direct", wrong,
	      change.copied_in, change.direct);
	swap_off();
}

static void reads_are_served_in_place(void)
{
	struct counters start, change;
	size_t wrong;

	fill(pages, PAGES, 2);
	page_out(pages, PAGES);
	start = count();
	wrong = wrong_words(pages, PAGES, 2);
	change = since(start);
	check(!wrong && change.copied_in <= SLACK && about(change.direct, PAGES),
	      "read in place: %zu wrong words, %ld copied in, %ld direct of %d", wrong,
	      change.copied_in, change.direct, PAGES);
	check(change.used == 0, "slots stay allocated while mapped: %+ld", change.used);
	wrong = wrong_words(pages, PAGES, 2);
	check(!wrong && since(start).direct == change.direct, "a second read takes no fault");
}

static void writes_copy_and_free_the_slot(void)
{
	struct counters start = count(), change;
	size_t wrong = 0;

	for (size_t page = 0; page < PAGES; page += 4)
		pages[page * WORDS + 5] = ~0ull;
	change = since(start);
	check(about(change.copied, PAGES / 4) && change.copied_in == 0,
	      "writes to pages read in place: %ld copies of %d", change.copied, PAGES / 4);
	check(about(change.used, -PAGES / 4), "slots of written pages freed: %+ld", change.used);
	check(change.saved == 0, "a copied page is not counted as saved: %+ld", change.saved);
	for (size_t page = 0; page < PAGES; page++)
		for (size_t word = 0; word < WORDS; word++) {
			bool written = page % 4 == 0 && word == 5;

			wrong += pages[page * WORDS + word] !=
				 (written ? ~0ull : expected(2, page, word));
		}
	check(!wrong, "contents after the copies: %zu wrong words", wrong);
}

static void dropped_pages_are_saved_copies(void)
{
	struct counters start, change;

	read_in_place(3);
	start = count();
	madvise(pages, PAGES * PAGE, MADV_DONTNEED);
	change = since(start);
	check(about(change.saved, PAGES) && about(change.used, -PAGES) && change.copied == 0,
	      "dropped without a write: %ld copies saved of %d, slots %+ld", change.saved, PAGES,
	      change.used);
	check(pages[5 * WORDS] == 0, "MADV_DONTNEED gives zeros");
}

static void writes_to_swapped_pages_go_to_dram(void)
{
	struct counters start, change;

	fill(pages, PAGES, 4);
	page_out(pages, PAGES);
	start = count();
	for (size_t page = 0; page < PAGES; page++)
		*(volatile uint64_t *)&pages[page * WORDS] = expected(4, page, 0);
	change = since(start);
	check(!wrong_words(pages, PAGES, 4) && change.direct == 0 && about(change.copied_in, PAGES),
	      "a write fault copies at once: %ld copied in, %ld direct", change.copied_in,
	      change.direct);
}

/* Exit status of a child that runs `work`. */
static int in_child(int (*work)(void))
{
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(work());
	waitpid(child, &status, 0);
	return status;
}

static int child_writes(void)
{
	size_t wrong = wrong_words(pages, PAGES, 5);

	for (size_t page = 0; page < PAGES; page++)
		pages[page * WORDS + 7] = page;
	for (size_t page = 0; page < PAGES; page++)
		wrong += pages[page * WORDS + 7] != page;
	return wrong != 0;
}

static int child_reads(void)
{
	return wrong_words(pages, PAGES, 6) != 0;
}

static void fork_shares_the_pages(void)
{
	read_in_place(5);
	check(in_child(child_writes) == 0, "a child sees and overwrites pages read in place");
	check(!wrong_words(pages, PAGES, 5), "its parent's are untouched");
	fill(pages, PAGES, 6);
	page_out(pages, PAGES);
	check(in_child(child_reads) == 0 && !wrong_words(pages, PAGES, 6),
	      "a child reads swapped pages first, then its parent");
}

static void system_calls_use_the_pages(void)
{
	static char buffer[PAGE];
	struct counters start;
	size_t wrong = 0;
	int ends[2];

	if (pipe(ends))
		die("pipe");
	read_in_place(7);
	start = count();
	for (size_t page = 0; page < 64; page++) {
		wrong += write(ends[1], pages + page * WORDS, PAGE) != (ssize_t)PAGE;
		wrong += read(ends[0], buffer, PAGE) != (ssize_t)PAGE;
		wrong += memcmp(buffer, pages + page * WORDS, PAGE) != 0;
	}
	check(!wrong && since(start).copied == 0, "write(2) from pages in place: %zu wrong", wrong);
	for (size_t page = 64; page < 128; page++) {
		memset(buffer, (int)page, PAGE);
		wrong += write(ends[1], buffer, PAGE) != (ssize_t)PAGE;
		wrong += read(ends[0], pages + page * WORDS, PAGE) != (ssize_t)PAGE;
		wrong += ((char *)(pages + page * WORDS))[99] != (char)page;
	}
	check(!wrong && about(since(start).copied, 64),
	      "read(2) into pages in place copies them first: %zu wrong, %ld copies of 64", wrong,
	      since(start).copied);
	struct iovec here = { buffer, PAGE }, there = { pages + 200 * WORDS, PAGE };

	check(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)PAGE &&
		      !memcmp(buffer, pages + 200 * WORDS, PAGE),
	      "process_vm_readv");
	close(ends[0]);
	close(ends[1]);
}

/* A pipe may hold the page of a slot after its owner dropped it. */
static void a_held_page_keeps_its_slot(void)
{
	static uint64_t buffer[WORDS];
	struct iovec part = { pages + 300 * WORDS, PAGE };
	struct counters start;
	int ends[2];

	if (pipe(ends))
		die("pipe");
	read_in_place(8);
	if (vmsplice(ends[1], &part, 1, 0) != (ssize_t)PAGE)
		die("vmsplice");
	madvise(pages + 300 * WORDS, PAGE, MADV_DONTNEED);
	/* Swap-outs take every slot that is free by now. */
	start = count();
	for (int round = 0; round < 3; round++) {
		fill(pages + 512 * WORDS, PAGES - 512, 9 + round);
		page_out(pages + 512 * WORDS, PAGES - 512);
	}
	if (read(ends[0], buffer, PAGE) != (ssize_t)PAGE)
		die("read");
	check(buffer[0] == expected(8, 300, 0) && buffer[511] == expected(8, 300, 511),
	      "a page held by a pipe keeps its contents (slots %+ld)", since(start).used);
	close(ends[0]);
	close(ends[1]);
}

static void address_space_calls_keep_the_fence(void)
{
	struct counters start;
	uint64_t *moved;
	long copied;
	int locked;

	read_in_place(12);
	mprotect(pages, PAGES * PAGE, PROT_READ);
	mprotect(pages, PAGES * PAGE, PROT_READ | PROT_WRITE);
	start = count();
	*(volatile uint64_t *)&pages[512] = pages[512];
	*(volatile uint64_t *)&pages[1024] = pages[1024];
	check(!wrong_words(pages, PAGES, 12) && since(start).copied == 2,
	      "mprotect to read-only and back keeps the fence: %ld copies of 2",
	      since(start).copied);
	moved = mremap(pages, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		       (char *)pages + (1UL << 32));
	check(moved != MAP_FAILED && !wrong_words(moved, PAGES, 12), "mremap moves pages in place");
	if (moved != MAP_FAILED)
		pages = moved;
	start = count();
	locked = mlock(pages, 64 * PAGE);
	copied = since(start).copied;
	check(!locked && !wrong_words(pages, PAGES, 12) && copied >= 60,
	      "mlock brings writable pages to DRAM: %ld copies of 64", copied);
	munlock(pages, 64 * PAGE);
	check(madvise(pages + 400 * WORDS, 64 * PAGE, MADV_FREE) == 0 &&
		      madvise(pages + 500 * WORDS, 64 * PAGE, MADV_COLD) == 0 &&
		      madvise(pages + 600 * WORDS, 64 * PAGE, MADV_PAGEOUT) == 0 &&
		      !wrong_between(pages, 0, 400, 12) &&
		      !wrong_between(pages, 464, PAGES, 12),
	      "MADV_FREE, MADV_COLD and MADV_PAGEOUT on pages in place");
}

static void zero_pages_have_no_slot_contents(void)
{
	struct counters start;
	size_t wrong = 0;

	/* Give the slots old contents first. */
	read_in_place(13);
	memset(pages, 0, PAGES * PAGE);
	page_out(pages, PAGES);
	start = count();
	for (size_t word = 0; word < PAGES * WORDS; word++)
		wrong += ((volatile uint64_t *)pages)[word] != 0;
	check(!wrong && since(start).direct == 0,
	      "zero-filled pages are not read from their slots: %zu wrong words, %ld direct", wrong,
	      since(start).direct);
}

static int child_reads_and_waits(void)
{
	size_t wrong = wrong_words(pages, PAGES, 14);

	usleep(500000);
	return wrong + wrong_words(pages, PAGES, 14) != 0;
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* Gives up after some time, which swapoff allows: a hang would end every other test. */
static int try_swapoff(unsigned int seconds)
{
	struct sigaction action = { .sa_handler = on_alarm };
	int result;

	sigaction(SIGALRM, &action, NULL);
	alarm(seconds);
	result = swapoff(device);
	alarm(0);
	return result;
}

static void swapoff_brings_pages_back(void)
{
	pid_t child;
	int status;

	read_in_place(14);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(child_reads_and_waits());
	usleep(200000);
	check(try_swapoff(120) == 0, "swapoff with %d pages mapped in place, twice", PAGES);
	waitpid(child, &status, 0);
	check(status == 0 && !wrong_words(pages, PAGES, 14), "contents after swapoff");
	swap_on(DIRECT);
	read_in_place(15);
	check(!wrong_words(pages, PAGES, 15), "swapon again, read in place again");
}

static void swapoff_waits_for_held_pages(void)
{
	struct iovec part = { pages + 700 * WORDS, PAGE };
	static uint64_t buffer[WORDS];
	int ends[2];

	if (pipe(ends))
		die("pipe");
	read_in_place(16);
	if (vmsplice(ends[1], &part, 1, 0) != (ssize_t)PAGE)
		die("vmsplice");
	check(try_swapoff(3) == -1 && errno == EINTR,
	      "swapoff waits for a held page and can be interrupted");
	check(read(ends[0], buffer, PAGE) == (ssize_t)PAGE && buffer[0] == expected(16, 700, 0),
	      "the held page kept its contents");
	check(swapoff(device) == 0 && !wrong_words(pages, PAGES, 16), "swapoff once it is let go");
	swap_on(DIRECT);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	pages = map_pages(PAGES);
	without_the_flag_pages_are_copied();
	swap_on(DIRECT);
	reads_are_served_in_place();
	writes_copy_and_free_the_slot();
	dropped_pages_are_saved_copies();
	writes_to_swapped_pages_go_to_dram();
	fork_shares_the_pages();
	system_calls_use_the_pages();
	a_held_page_keeps_its_slot();
	address_space_calls_keep_the_fence();
	zero_pages_have_no_slot_contents();
	swapoff_brings_pages_back();
	swapoff_waits_for_held_pages();
	munmap(pages, PAGES * PAGE);
	check(swap_used() <= SLACK, "slots in use at the end: %ld", swap_used());
	swap_off();
	return check_result();
}
