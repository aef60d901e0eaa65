/*
 * A job that faults pages in: faults SECONDS FILE [THREADS]. Each second it appends a line to FILE,
 * with the faults of that second and the most of them in one millisecond of the kernel's clock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGES = 256, PAGE = 4096 };

/* Number of a millisecond in the upper half, the faults in it in the lower. */
static _Atomic unsigned long long window;
static atomic_long faults, most;

static void count(void)
{
	unsigned long long before = window, now;
	struct timespec time;
	long in_window;

	do {
		clock_gettime(CLOCK_MONOTONIC, &time);
		now = (time.tv_sec * 1000ULL + time.tv_nsec / 1000000) << 32;
		now |= now >> 32 == before >> 32 ? (unsigned int)before + 1 : 1;
	} while (!atomic_compare_exchange_weak(&window, &before, now));
	in_window = (unsigned int)now;
	if (in_window > most)
		most = in_window;
	faults++;
}

static void *fault(void *unused)
{
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)unused;
	if (memory == MAP_FAILED)
		exit(1);
	for (;;) {
		if (madvise(memory, PAGES * PAGE, MADV_DONTNEED))
			exit(1);
		for (int page = 0; page < PAGES; page++) {
			*(volatile char *)&memory[page * PAGE] = 1;
			count();
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 3)
		return 1;
	for (int threads = argc > 3 ? atoi(argv[3]) : 1; threads > 0; threads--)
		if (pthread_create(&thread, NULL, fault, NULL))
			return 1;
	for (int seconds = atoi(argv[1]); seconds > 0; seconds--) {
		FILE *file;

		sleep(1);
		file = fopen(argv[2], "a");
		if (!file)
			return 1;
		fprintf(file, "%ld %ld\n", atomic_exchange(&faults, 0), atomic_exchange(&most, 0));
		fclose(file);
	}
	return 0;
}
