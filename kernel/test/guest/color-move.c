// SPDX-License-Identifier: GPL-2.0
/*
 * Page colors of memory that moves or is copied: fork, exec, swap, compaction, NUMA nodes, huge
 * pages, and what a thread chooses for itself.
 */
#include "color.h"
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#define PR_SET_PAGE_COLORS 0x50434f4c
#define SIZE (16 * MIB)
/* Half of what a node of the guest has in four of 32 colors */
#define HALF_A_NODE (32 * MIB)
#define ALLOWED 0x00f0UL

static char *memory;

static unsigned int stray(size_t size)
{
	struct colors colors = count_colors(memory, size, paper_color);

	return outside(&colors, ALLOWED);
}

/* Each fork's copies, and the copies of its child's, have the cgroup's colors. */
static int fork_and_write(void)
{
	int status;
	pid_t pid;

	memory = map_memory(SIZE);
	write_pages(memory, SIZE);
	for (int level = 0; level < 3; level++) {
		pid = fork();
		if (pid) {
			write_pages(memory, SIZE);
			return waitpid(pid, &status, 0) != pid || status || stray(SIZE) ? 1 : 0;
		}
		write_pages(memory, SIZE);
		if (stray(SIZE))
			_exit(1);
	}
	_exit(0);
}

/* The stack and the heap of the program that exec starts */
static int exec_self(void)
{
	execl("/proc/self/exe", "color-move", "after-exec", NULL);
	return 3;
}

static int after_exec(void)
{
	char stack[64 * PAGE], *heap = malloc(64 * PAGE);
	struct colors colors;
	unsigned int n;

	write_pages(stack, sizeof(stack));
	write_pages(heap, 64 * PAGE);
	colors = count_colors(stack, sizeof(stack), paper_color);
	n = outside(&colors, ALLOWED);
	colors = count_colors(heap, 64 * PAGE, paper_color);
	return n + outside(&colors, ALLOWED) ? 1 : 0;
}

static int swap_out_and_in(void)
{
	struct colors colors;

	memory = map_memory(SIZE);
	write_pages(memory, SIZE);
	madvise(memory, SIZE, MADV_PAGEOUT);
	colors = count_colors(memory, SIZE, paper_color);
	if (colors.pages > SIZE / PAGE / 2) {
		printf("%u pages stayed\n", colors.pages);
		return 2;
	}
	if (wrong_pages(memory, SIZE))
		return 3;
	return stray(SIZE) ? 1 : 0;
}

static uint64_t *frames(void)
{
	uint64_t *list = malloc(HALF_A_NODE / PAGE * sizeof(*list));

	for (size_t i = 0; i < HALF_A_NODE / PAGE; i++)
		list[i] = frame(memory + i * PAGE);
	return list;
}

/* Pages that moved, and those that have another color than before; takes the frames that were. */
static void compare(const char *what, uint64_t *before, long *moved, long *changed)
{
	*moved = *changed = 0;
	for (size_t i = 0; i < HALF_A_NODE / PAGE; i++) {
		uint64_t now = frame(memory + i * PAGE);

		*moved += now != before[i];
		*changed += paper_color(now) != paper_color(before[i]);
	}
	free(before);
	printf("%s: %ld of %lu pages moved, %ld changed color\n", what, *moved, HALF_A_NODE / PAGE,
	       *changed);
}

/*
 * Free memory in the cgroup's four of 32 colors. It varies with the kernel's own memory: KASAN
 * takes an eighth.
 */
static size_t free_in_colors(void)
{
	struct sysinfo info;

	sysinfo(&info);
	return info.freeram / 8;
}

/*
 * Most of the memory in the cgroup's colors, which is all over the machine, and all but half a
 * node's given up again, so that compaction has work.
 */
static int compaction(void)
{
	long moved, changed;
	uint64_t *before;
	size_t parts = free_in_colors() * 9 / 10 / HALF_A_NODE - 1;
	char *holes = map_memory(parts * HALF_A_NODE);

	memory = map_memory(HALF_A_NODE);
	for (size_t i = 0; i < HALF_A_NODE; i += PAGE) {
		write_pages(holes + parts * i, parts * PAGE);
		write_pages(memory + i, PAGE);
	}
	munmap(holes, parts * HALF_A_NODE);
	before = frames();
	for (int i = 0; i < 3; i++)
		compact();
	compare("compaction", before, &moved, &changed);
	return !moved || changed || wrong_pages(memory, HALF_A_NODE) || stray(HALF_A_NODE) ? 1 : 0;
}

static bool bind_to(unsigned int node, char *at, size_t size, unsigned int flags)
{
	unsigned long nodes = 1UL << node;

	return !syscall(SYS_mbind, at, size, MPOL_BIND, &nodes, 64, flags);
}

static int move_to_other_node(void)
{
	long moved, changed;
	uint64_t *before;

	memory = map_memory(HALF_A_NODE);
	/* On node 0, whatever CPU this is */
	if (!bind_to(0, memory, HALF_A_NODE, 0))
		return 2;
	write_pages(memory, HALF_A_NODE);
	before = frames();
	if (!bind_to(1, memory, HALF_A_NODE, MPOL_MF_MOVE))
		return 3;
	compare("nodes", before, &moved, &changed);
	if (moved < (long)(HALF_A_NODE / PAGE) * 9 / 10 || changed)
		return 1;
	return wrong_pages(memory, HALF_A_NODE) ? 4 : 0;
}

/* Of a node's memory in these colors all but a sixth is used then. */
static int nodes(void)
{
	size_t size = (free_in_colors() / 2 * 5 / 6 - HALF_A_NODE) & -PAGE;
	char *there = map_memory(size);

	if (!bind_to(1, there, size, 0))
		return 5;
	write_pages(there, size);
	for (int i = 0; i < 6; i++) {
		int status = move_to_other_node();

		if (status)
			return status;
		munmap(memory, HALF_A_NODE);
	}
	return 0;
}

/* KiB of huge pages that this process has */
static long huge(void)
{
	FILE *in = fopen("/proc/self/smaps_rollup", "r");
	char line[200];
	long kib = -1;

	while (fgets(line, sizeof(line), in))
		if (sscanf(line, "AnonHugePages: %ld", &kib) == 1)
			break;
	fclose(in);
	return kib;
}

/* Huge pages have every color of this map. */
static int no_huge_pages(void)
{
	char *area = map_memory(SIZE + 2 * MIB);

	memory = (char *)(((uintptr_t)area + 2 * MIB - 1) & ~(2 * MIB - 1));
	madvise(memory, SIZE, MADV_HUGEPAGE);
	write_pages(memory, SIZE);
	if (huge() != 0)
		return 2;
	if (!madvise(memory, SIZE, 25 /* MADV_COLLAPSE */))
		return 3;
	return wrong_pages(memory, SIZE) || stray(SIZE) ? 1 : 0;
}

static unsigned int high_color(uint64_t pfn)
{
	return pfn >> 9 & 3;
}

/* Of banks that only bits above a huge page choose, a huge page has one. */
static int huge_pages(void)
{
	char *area = map_memory(SIZE + 2 * MIB);
	struct colors colors;

	memory = (char *)(((uintptr_t)area + 2 * MIB - 1) & ~(2 * MIB - 1));
	madvise(memory, SIZE, MADV_HUGEPAGE);
	write_pages(memory, SIZE);
	colors = count_colors(memory, SIZE, high_color);
	printf("huge pages: %ld KiB\n", huge());
	return huge() < 8192 || outside(&colors, 0x6) ? 1 : 0;
}

/*
 * A CPU may keep 32 batches of 63 pages of the color that a thread chose. Any task with this color
 * gets those first; a quarter of the pages after them has it.
 */
#define MOST_OF_ONE (SIZE / PAGE / 4 * 3)

static void *thread_of_its_own(void *argument)
{
	char *own = map_memory(SIZE);
	struct colors colors;

	write_pages(own, SIZE);
	colors = count_colors(own, SIZE, paper_color);
	*(unsigned int *)argument = colors.of[5];
	return NULL;
}

static int thread_colors(void)
{
	unsigned long five = 1UL << 5, ninth = 1UL << 9, none = 0;
	unsigned int in_thread = 0;
	struct colors colors;
	pthread_t thread;

	if (prctl(PR_SET_PAGE_COLORS, &ninth, 64, 0, 0) != -1 || errno != EINVAL)
		return 2;
	if (prctl(PR_SET_PAGE_COLORS, &none, 64, 0, 0) != -1 || errno != EINVAL)
		return 3;
	if (prctl(PR_SET_PAGE_COLORS, &five, 64, 0, 0))
		return 4;
	memory = map_memory(4 * MIB);
	write_pages(memory, 4 * MIB);
	colors = count_colors(memory, 4 * MIB, paper_color);
	if (outside(&colors, five))
		return 5;
	if (pthread_create(&thread, NULL, thread_of_its_own, &in_thread) ||
	    pthread_join(thread, NULL))
		return 6;
	if (in_thread > MOST_OF_ONE)
		return 7;
	if (prctl(PR_SET_PAGE_COLORS, NULL, 0, 0, 0))
		return 8;
	memory = map_memory(SIZE);
	write_pages(memory, SIZE);
	colors = count_colors(memory, SIZE, paper_color);
	return outside(&colors, ALLOWED) || colors.of[5] > MOST_OF_ONE ? 9 : 0;
}

static int uncolored_thread(void)
{
	unsigned long five = 1UL << 5;

	return prctl(PR_SET_PAGE_COLORS, &five, 64, 0, 0) != -1 || errno != EOPNOTSUPP;
}

static void run(const char *what, int (*body)(void))
{
	int status = in_cgroup("a", body);

	check(!status, "%s%s", what, status ? ": see the status" : "");
	if (status)
		printf("status %d\n", status);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "after-exec"))
		return after_exec();

	put("/cg/cgroup.subtree_control", "+memory");
	check(load_map(paper_map), "the map of the paper's machine");
	make_cgroup("a");
	run("a thread of an uncolored cgroup cannot choose", uncolored_thread);
	check(!set_in("a", "memory.colors", "bank=4-7"), "four colors");
	run("fork: copies have the colors", fork_and_write);
	run("exec: stack and heap have them", exec_self);
	run("swap: pages come back in them", swap_out_and_in);
	run("compaction keeps each page's color", compaction);
	run("so does a move to another node", nodes);
	run("huge pages, which have every color, are not made", no_huge_pages);
	run("a thread chooses for itself", thread_colors);
	let_counters_settle();
	check(counter_of("a", "memory.stat", "color_spill") == 0, "none was spilled: %ld",
	      counter_of("a", "memory.stat", "color_spill"));
	check(!set_in("a", "memory.colors", "inherit"), "colored no more");
	check(load_map("bank 0x200000\nbank 0x400000\n"), "a map of high bits");
	check(!set_in("a", "memory.colors", "bank=1-2"), "two of its colors");
	run("huge pages of one color are made", huge_pages);
	remove_cgroup("a");
	check(load_map("\n"), "the map is unloaded");
	return check_result();
}
