// SPDX-License-Identifier: GPL-2.0
/*
 * Where direct read stops: devices that are no memory, zswap, poisoned memory; and what memory
 * cgroups are charged. Needs cgroup v2 on /cg with the memory controller, and swap signatures on
 * /dev/pmem0 and /dev/zram0.
 */
#include "swap.h"
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PAGES 4096
#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif

static void other_devices_are_refused(void)
{
	int result;

	result = swapon("/dev/zram0", SWAP_FLAG_DIRECT_READ);
	check(result == -1 && errno == EOPNOTSUPP, "zram is refused: %d, %s", result,
	      strerror(errno));
	result = swapon(device, 0x100000);
	check(result == -1 && errno == EINVAL, "an unknown flag is still refused");
}

static void cgroups_pay_swap_not_memory(void)
{
	static const long bytes = PAGES * PAGE;
	long full, out, in, swapped, direct;
	uint64_t *pages = map_pages(PAGES);

	fill(pages, PAGES, 1);
	full = number_in("/cg/direct/memory.current");
	page_out(pages, PAGES);
	out = number_in("/cg/direct/memory.current");
	swapped = number_in("/cg/direct/memory.swap.current");
	check(!wrong_words(pages, PAGES, 1), "contents in a cgroup");
	in = number_in("/cg/direct/memory.current");
	check(full - out > bytes * 9 / 10 && in - out < bytes / 10,
	      "memory.current: %ld KiB resident, %ld out, %ld read in place", full / 1024,
	      out / 1024, in / 1024);
	check(swapped >= bytes * 9 / 10 &&
		      labs(number_in("/cg/direct/memory.swap.current") - swapped) < bytes / 10,
	      "memory.swap.current stays %ld KiB", swapped / 1024);
	direct = vmstat("swpin_direct");
	check(direct > 0, "vmstat has swpin_direct: %ld", direct);
	munmap(pages, bytes);
	swapped = number_in("/cg/direct/memory.swap.current");
	check(swapped <= (long)(SLACK * PAGE), "freed slots are uncharged: %ld KiB left",
	      swapped / 1024);
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	_exit(77);
}

static int read_poisoned(volatile uint64_t *page)
{
	struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		sigaction(SIGBUS, &action, NULL);
		_exit(page[3] == 0 ? 1 : 0);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Poison in a page that is mapped in place: whoever reads it dies, the slot is never used again. */
static void poison_is_contained(void)
{
	uint64_t *pages = map_pages(PAGES);
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	int result;

	sigaction(SIGBUS, &ignore, NULL);
	fill(pages, PAGES, 2);
	page_out(pages, PAGES);
	check(!wrong_words(pages, PAGES, 2), "contents before the poison");
	result = madvise(pages + 7 * WORDS, PAGE, MADV_HWPOISON);
	check(result == 0, "poison in a page mapped in place: %s", result ? strerror(errno) : "ok");
	check(read_poisoned(pages + 7 * WORDS) == 77, "reading it is a bus error");
	check(!wrong_between(pages, 0, 7, 2) && !wrong_between(pages, 8, PAGES, 2),
	      "its neighbors are whole");
	munmap(pages, PAGES * PAGE);
}

/* With zswap the data of a slot may be in DRAM, compressed: never read the slot. */
static void zswap_keeps_it_off(void)
{
	uint64_t *pages = map_pages(PAGES);
	struct counters start;

	if (!put("/sys/module/zswap/parameters/enabled", "1")) {
		printf("SKIPPED: zswap cannot be enabled: %s\n", strerror(errno));
		return;
	}
	fill(pages, PAGES, 3);
	page_out(pages, PAGES);
	start = count();
	check(!wrong_words(pages, PAGES, 3) && since(start).direct == 0,
	      "with zswap nothing is read in place: %ld direct", since(start).direct);
	put("/sys/module/zswap/parameters/enabled", "0");
	munmap(pages, PAGES * PAGE);
}

static void enter_cgroup(void)
{
	put("/cg/cgroup.subtree_control", "+memory");
	if (mkdir("/cg/direct", 0755) || !put("/cg/direct/cgroup.procs", "0"))
		die("/cg/direct");
}

int main(void)
{
	other_devices_are_refused();
	enter_cgroup();
	swap_on(DIRECT);
	cgroups_pay_swap_not_memory();
	poison_is_contained();
	swap_off();
	swap_on(DIRECT);
	/* Last: once it was enabled, the kernel must assume that zswap holds data. */
	zswap_keeps_it_off();
	swap_off();
	return check_result();
}
