// SPDX-License-Identifier: GPL-2.0
/*
 * Page colors and the per-CPU lists: pages that one cgroup freed go to no other if they have the
 * wrong colors, nor to the same one after its colors changed. They count as free again when the
 * lists are drained.
 */
#include "color.h"
#include <sched.h>

#define TURNS 300

/* Lists belong to a CPU: all of this happens on the first. */
static void stay_on_one_cpu(void)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		die("sched_setaffinity");
}

/* Touches three pages whenever it is its turn; how many of them all have colors of others. */
static unsigned int take_turns(const char *dir, uint64_t colors, int from, int to)
{
	char *memory = map_memory(TURNS * 3 * PAGE), turn;
	struct colors seen;

	enter(dir);
	for (int i = 0; i < TURNS; i++) {
		if (read(from, &turn, 1) != 1)
			_exit(200);
		write_pages(memory + i * 3 * PAGE, 3 * PAGE);
		if (write(to, &turn, 1) != 1)
			_exit(201);
	}
	seen = count_colors(memory, TURNS * 3 * PAGE, paper_color);
	return outside(&seen, colors);
}

static int player(const char *dir, uint64_t colors, const int *pipes, int mine, int other)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		unsigned int strays = take_turns(dir, colors, pipes[2 * mine], pipes[2 * other + 1]);

		_exit(strays > 100 ? 100 : strays);
	}
	return pid;
}

static void two_cgroups_share_a_cpu(void)
{
	int pipes[4], first, second, status;

	make_cgroup("a");
	make_cgroup("b");
	set_in("a", "memory.colors", "bank=0-7");
	set_in("b", "memory.colors", "bank=8-15");
	if (pipe(pipes) || pipe(pipes + 2))
		die("pipe");
	first = player("a", 0x00ff, pipes, 0, 1);
	second = player("b", 0xff00, pipes, 1, 0);
	if (write(pipes[1], "", 1) != 1)
		die("write");
	waitpid(first, &status, 0);
	check(!status, "a cgroup gets none of its neighbor's pages on the same CPU: %d", status >> 8);
	waitpid(second, &status, 0);
	check(!status, "nor its neighbor of it: %d", status >> 8);
	remove_cgroup("b");
	remove_cgroup("a");
}

static int touch_some_and_change(void)
{
	char *memory = map_memory(MIB);
	struct colors seen;

	for (int i = 0; i < 64; i++) {
		bool even = i % 2;

		if (set_in("a", "memory.colors", even ? "bank=16-23" : "bank=24-31"))
			return 2;
		write_pages(memory + i * 4 * PAGE, 4 * PAGE);
		seen = count_colors(memory + i * 4 * PAGE, 4 * PAGE, paper_color);
		if (outside(&seen, even ? 0xff0000 : 0xff000000))
			return 1;
	}
	return 0;
}

static void colors_change(void)
{
	make_cgroup("a");
	set_in("a", "memory.colors", "bank=0-7");
	check(!in_cgroup("a", touch_some_and_change), "colors that were taken away come no more");
	remove_cgroup("a");
}

static int touch(void)
{
	char *memory = map_memory(16 * MIB);

	write_pages(memory, 16 * MIB);
	return 0;
}

/* A write to memory.colors makes all CPUs give up what they keep. */
static void what_is_kept_comes_back(void)
{
	struct books start, end;
	bool agree;

	make_cgroup("a");
	set_in("a", "memory.colors", "bank=3,9,22");
	in_cgroup("a", touch);
	set_in("a", "memory.colors", "bank=3,9,22");
	books_agree(&start);
	for (int i = 0; i < 10; i++)
		in_cgroup("a", touch);
	set_in("a", "memory.colors", "bank=3,9,22");
	agree = books_agree(&end);
	check(agree, "what CPUs kept: %ld counted, %ld linked", end.counted, end.linked);
	check(labs(end.counted - start.counted) < 256 && end.on_cpus < 256,
	      "it is free again: %+ld, %ld still on CPUs", end.counted - start.counted, end.on_cpus);
	remove_cgroup("a");
}

int main(void)
{
	put("/cg/cgroup.subtree_control", "+memory");
	stay_on_one_cpu();
	check(load_map(paper_map), "the map of the paper's machine");
	two_cgroups_share_a_cpu();
	colors_change();
	what_is_kept_comes_back();
	check(load_map("\n"), "the map is unloaded");
	return check_result();
}
