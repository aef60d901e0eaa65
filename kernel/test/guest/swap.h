/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Swap devices and pages with known contents, for the tests of direct read.
 */
#ifndef SWAP_H
#define SWAP_H

#include "check.h"
#include <sys/mman.h>
#include <sys/swap.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#define SWAP_FLAG_DIRECT_READ 0x80000

/* Slots that per-CPU caches may hold back, and pages that a page-out may miss. */
#define SLACK 128

static const char *const device = "/dev/pmem0";

enum reading { COPYING, DIRECT };

static inline void __attribute__((unused)) swap_on(enum reading how)
{
	if (swapon(device, how == DIRECT ? SWAP_FLAG_DIRECT_READ : 0))
		die("swapon /dev/pmem0");
}

static inline void __attribute__((unused)) swap_off(void)
{
	if (swapoff(device))
		die("swapoff /dev/pmem0");
}

/* Pages of swap in use, all devices. */
static inline long __attribute__((unused)) swap_used(void)
{
	FILE *file = fopen("/proc/swaps", "r");
	char line[300];
	long used, total = 0;

	if (!file || !fgets(line, sizeof(line), file))
		die("/proc/swaps");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %*s %*d %ld", &used) == 1)
			total += used / 4;
	fclose(file);
	return total;
}

static inline uint64_t *__attribute__((unused)) map_pages(size_t pages)
{
	void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("mmap");
	madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
	return at;
}

#define WORDS (PAGE / sizeof(uint64_t))

/* The word that fill() wrote: every word of every page and round differs, none is zero. */
static inline uint64_t expected(uint64_t round, size_t page, size_t word)
{
	return (round << 40) + page * WORDS + word + 1;
}

static inline void __attribute__((unused)) fill(uint64_t *at, size_t pages, uint64_t round)
{
	for (size_t page = 0; page < pages; page++)
		for (size_t word = 0; word < WORDS; word++)
			at[page * WORDS + word] = expected(round, page, word);
}

/* Words of pages [first, end) that are not what fill() wrote. */
static inline size_t __attribute__((unused))
wrong_between(const volatile uint64_t *at, size_t first, size_t end, uint64_t round)
{
	size_t wrong = 0;

	for (size_t page = first; page < end; page++)
		for (size_t word = 0; word < WORDS; word++)
			wrong += at[page * WORDS + word] != expected(round, page, word);
	return wrong;
}

static inline size_t __attribute__((unused))
wrong_words(const volatile uint64_t *at, size_t pages, uint64_t round)
{
	return wrong_between(at, 0, pages, round);
}

static inline void __attribute__((unused)) page_out(void *at, size_t pages)
{
	madvise(at, pages * PAGE, MADV_PAGEOUT);
}

/* The first and last page frame of the device. */
static inline void __attribute__((unused)) device_frames(uint64_t *first, uint64_t *last)
{
	FILE *file = fopen("/proc/iomem", "r");
	char line[200];

	*first = *last = 0;
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "Persistent Memory") &&
		    sscanf(line, "%lx-%lx", first, last) == 2)
			break;
	if (!*last)
		die("/proc/iomem: no persistent memory");
	fclose(file);
	*first /= PAGE;
	*last /= PAGE;
}

/* Number of the pages that are mapped from the device itself */
static inline size_t __attribute__((unused)) pages_in_place(const void *at, size_t pages)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t first, last, entry;
	size_t in_place = 0;

	if (fd < 0)
		die("/proc/self/pagemap");
	device_frames(&first, &last);
	for (size_t page = 0; page < pages; page++) {
		if (pread(fd, &entry, sizeof(entry),
			  ((uintptr_t)at / PAGE + page) * sizeof(entry)) != sizeof(entry))
			die("/proc/self/pagemap");
		/* Bit 63: present; bits 0 to 54: its frame. */
		if (entry >> 63) {
			entry &= (1UL << 55) - 1;
			in_place += first <= entry && entry <= last;
		}
	}
	close(fd);
	return in_place;
}

/* The counters that tell how pages came back. */
struct counters {
	long copied_in;		/* pswpin */
	long direct;		/* swpin_direct: mapped in place */
	long copied;		/* swpin_direct_copy: copied later, on write */
	long saved;		/* swpin_direct_saved: given up without a copy */
	long used;		/* slots in use */
};

static inline struct counters __attribute__((unused)) count(void)
{
	return (struct counters){
		.copied_in = vmstat("pswpin"),
		.direct = vmstat("swpin_direct"),
		.copied = vmstat("swpin_direct_copy"),
		.saved = vmstat("swpin_direct_saved"),
		.used = swap_used(),
	};
}

static inline struct counters __attribute__((unused)) since(struct counters start)
{
	struct counters now = count();

	return (struct counters){
		.copied_in = now.copied_in - start.copied_in,
		.direct = now.direct - start.direct,
		.copied = now.copied - start.copied,
		.saved = now.saved - start.saved,
		.used = now.used - start.used,
	};
}

/* True if `value` is `wanted`, give or take pages that a page-out misses or per-CPU caches hold. */
static inline bool __attribute__((unused)) about(long value, long wanted)
{
	return labs(value - wanted) <= SLACK;
}

#endif
