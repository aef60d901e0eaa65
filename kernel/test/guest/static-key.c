// SPDX-License-Identifier: GPL-2.0
/*
 * Switches static keys of the stock kernel while all CPUs execute the branches that they patch:
 * allocations of pages ask for vm.numa_stat, the scheduler asks for the others, where they exist. A
 * kernel that ends in `Oops: int3` here does so without any patch.
 *
 *   static-key SECONDS
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <time.h>

#define SIZE (16 * PAGE)

static const char *const keys[] = {
	"/proc/sys/vm/numa_stat",
	"/proc/sys/kernel/sched_schedstats",
	"/proc/sys/kernel/task_delayacct",
};

static atomic_bool stop;
static atomic_long pages;

static void *touch_pages(void *argument)
{
	while (!stop) {
		char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			die("mmap");
		for (size_t at = 0; at < SIZE; at += PAGE)
			memory[at] = 1;
		pages += SIZE / PAGE;
		munmap(memory, SIZE);
		sched_yield();
	}
	return argument;
}

int main(int argc, char **argv)
{
	int threads = 2 * get_nprocs();
	long switches = 0;
	time_t end;

	if (argc != 2)
		die("usage: static-key SECONDS");
	end = time(NULL) + atoi(argv[1]);
	for (int n = 0; n < threads; n++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, touch_pages, NULL))
			die("pthread_create");
	}
	for (int value = 0; time(NULL) < end; value = !value) {
		for (size_t key = 0; key < sizeof(keys) / sizeof(keys[0]); key++)
			switches += put(keys[key], value ? "1" : "0");
		/* Where the kernel ends, this is its last word. */
		if (switches % 100 < 3)
			fprintf(stderr, "switched %ld times\n", switches);
	}
	stop = true;
	check(switches > 100 && pages > 1000, "static keys switched %ld times, %ld pages touched",
	      switches, (long)pages);
	return check_failures != 0;
}
