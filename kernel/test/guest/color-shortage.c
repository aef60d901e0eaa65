// SPDX-License-Identifier: GPL-2.0
/*
 * Page colors when they are used up, by each policy, and stress: everything at once, with colors
 * that change, while the books of the allocator are kept.
 */
#include "color.h"
#include <pthread.h>

static size_t size;

/* Of one color of 32 there are 32 MiB in a guest of 1 GiB. */
static unsigned int stray_of(char *memory)
{
	struct colors colors = count_colors(memory, size, paper_color);

	return outside(&colors, 1UL << 12);
}

static int more_than_there_is(void)
{
	char *memory = map_memory(size);

	write_pages(memory, size);
	return wrong_pages(memory, size) ? 1 : stray_of(memory) ? 2 : 0;
}

static long stat_of(const char *dir, const char *key)
{
	return counter_of(dir, "memory.stat", key);
}

static void spill_gives_other_colors(void)
{
	long spilled = vmstat("color_spill");

	make_cgroup("a");
	set_in("a", "memory.colors", "bank=12 shortage=spill");
	size = 48 * MIB;
	check(in_cgroup("a", more_than_there_is) == 2, "spill: more than there is of a color");
	let_counters_settle();
	check(stat_of("a", "color_spill") > 1000, "it is counted: %ld", stat_of("a", "color_spill"));
	check(vmstat("color_spill") - spilled == stat_of("a", "color_spill"), "in vmstat, too");
	check(counter_of("a", "memory.events", "oom_kill") == 0, "nobody is killed");
	remove_cgroup("a");
}

static void reclaim_swaps_the_cgroup_s_own(void)
{
	make_cgroup("a");
	set_in("a", "memory.colors", "bank=12 shortage=reclaim");
	size = 48 * MIB;
	check(in_cgroup("a", more_than_there_is) != 1, "reclaim: contents are right");
	let_counters_settle();
	check(stat_of("a", "color_reclaim") > 0, "its memory is reclaimed: %ld times",
	      stat_of("a", "color_reclaim"));
	check(stat_of("a", "color_spill") < 100, "instead of spilling: %ld", stat_of("a", "color_spill"));
	remove_cgroup("a");
}

static int bystander;

static int wait_for_ever(void)
{
	char *memory = map_memory(8 * MIB);

	write_pages(memory, 8 * MIB);
	pause();
	return 0;
}

static void strict_ends_in_the_cgroup(void)
{
	int status;

	make_cgroup("a");
	make_cgroup("b");
	set_in("a", "memory.colors", "bank=12 shortage=strict");
	set_in("a", "memory.swap.max", "0");
	fflush(stdout);
	bystander = fork();
	if (!bystander) {
		enter("b");
		_exit(wait_for_ever());
	}
	size = 48 * MIB;
	check(in_cgroup("a", more_than_there_is) == 128 + SIGKILL, "strict without swap: killed");
	let_counters_settle();
	check(counter_of("a", "memory.events", "oom_kill") == 1, "one process, in this cgroup: %ld",
	      counter_of("a", "memory.events", "oom_kill"));
	check(stat_of("a", "color_oom") >= 1, "it is counted: %ld", stat_of("a", "color_oom"));
	check(stat_of("a", "color_spill") == 0, "no page was spilled");
	check(!kill(bystander, 0) && !waitpid(bystander, &status, WNOHANG), "a bystander lives");
	kill(bystander, SIGKILL);
	waitpid(bystander, &status, 0);
	set_in("a", "memory.swap.max", "max");
	check(in_cgroup("a", more_than_there_is) == 0, "strict with swap: every page in the color");
	remove_cgroup("a");
	remove_cgroup("b");
}

/* Each stress takes at least so many rounds, and so many seconds. */
static int rounds = 30, seconds;
static time_t end_of_stress;

/*
 * Findings of a thread: pages with wrong contents and, among those that it looked at, pages of
 * colors that it may not have
 */
struct found {
	pthread_t thread;
	uint64_t seed;
	size_t wrong;
	size_t looked_at;
	size_t stray;
};

static void look(struct found *found, const char *memory, size_t size)
{
	struct colors colors = count_colors(memory, size, paper_color);

	found->looked_at += colors.pages;
	found->stray += outside(&colors, 0xffff);
}

/* Threads of a colored process: allocate, free, fork, discard. */
static void *worker(void *argument)
{
	struct found *found = argument;
	size_t part = 4 * MIB;
	char *memory = map_memory(part);

	for (int i = 0; i < rounds || time(NULL) < end_of_stress; i++) {
		size_t from = next_random(&found->seed) % (part / PAGE) * PAGE;

		write_pages(memory, part);
		found->wrong += wrong_pages(memory, part);
		if (i % 16 == 15)
			look(found, memory, part);
		madvise(memory + from, part - from,
			next_random(&found->seed) & 1 ? MADV_DONTNEED : MADV_PAGEOUT);
	}
	write_pages(memory, part);
	look(found, memory, part);
	return NULL;
}

static int stressed(void)
{
	struct found found[4] = { 0 };
	size_t wrong = 0, looked_at = 0, stray = 0;

	end_of_stress = time(NULL) + seconds;
	for (int i = 0; i < 4; i++) {
		found[i].seed = (i + 1) * 0x9e3779b97f4a7c15UL + 1;
		if (pthread_create(&found[i].thread, NULL, worker, &found[i]))
			return 3;
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(found[i].thread, NULL);
		wrong += found[i].wrong;
		looked_at += found[i].looked_at;
		stray += found[i].stray;
	}
	printf("%zu pages with wrong contents; %zu looked at, %zu stray\n", wrong, looked_at, stray);
	fflush(stdout);
	return wrong ? 1 : stray ? 2 : 0;
}

static void stress(void)
{
	static const char *const settings[] = { "bank=0-7", "bank=3,9-12", "bank=0-15", "bank=8" };
	struct books start, end;
	bool agree;
	pid_t pids[3];
	int status, bad = 0, left = 3;
	long spilled = vmstat("color_spill");

	make_cgroup("a");
	make_cgroup("a/b");
	make_cgroup("a/d");
	make_cgroup("c");
	set_in("a", "memory.colors", "bank=0-15");
	agree = books_agree(&start);
	check(agree, "stress: %ld counted, %ld linked before", start.counted, start.linked);
	for (int i = 0; i < 3; i++) {
		fflush(stdout);
		pids[i] = fork();
		if (!pids[i]) {
			enter(i == 0 ? "a/b" : i == 1 ? "a/d" : "c");
			/* Pages of the uncolored one have all colors; only its contents count. */
			status = stressed();
			_exit(i == 2 && status == 2 ? 0 : status);
		}
	}
	for (unsigned int i = 0; left; i++) {
		set_in("a/b", "memory.colors", settings[i % 4]);
		compact();
		usleep(10000);
		while (left && waitpid(-1, &status, WNOHANG) > 0) {
			bad += status != 0;
			left--;
		}
	}
	check(!bad, "stress: %d processes found wrong pages; %ld spilled", bad,
	      vmstat("color_spill") - spilled);
	agree = books_agree(&end);
	check(agree, "stress: %ld counted, %ld linked after", end.counted, end.linked);
	check(labs(end.counted + end.on_cpus - start.counted - start.on_cpus) < 2048,
	      "stress: free pages come back: %+ld",
	      end.counted + end.on_cpus - start.counted - start.on_cpus);
	remove_cgroup("a/b");
	remove_cgroup("a/d");
	remove_cgroup("a");
	remove_cgroup("c");
}

/* Maps come and go while everybody allocates. */
static void maps_come_and_go(void)
{
	int failed = 0, status;
	pid_t pid;

	make_cgroup("c");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		enter("c");
		_exit(stressed() == 1);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		failed += !load_map(paper_map);
		failed += !load_map("bank 0x1000\nbank 0x400000\n");
		failed += !load_map("\n");
	}
	check(!failed && !status, "maps come and go: %d failed", failed);
	remove_cgroup("c");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds = atoi(argv[1]);
	if (argc > 2)
		seconds = atoi(argv[2]);
	put("/cg/cgroup.subtree_control", "+memory");
	check(load_map(paper_map), "the map of the paper's machine");
	spill_gives_other_colors();
	reclaim_swaps_the_cgroup_s_own();
	strict_ends_in_the_cgroup();
	stress();
	/* Hours of a soak are for the colors. */
	seconds /= 10;
	maps_come_and_go();
	return check_result();
}
