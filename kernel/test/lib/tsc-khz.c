// Prints how many thousand times in a second this machine's time-stamp counter counts, for
// guests, whose emulated counter is the machine's own.
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct moment {
	unsigned long long ticks;
	double seconds;
};

// The counter and the clock at the same time: of many tries the one that was interrupted least.
static struct moment now(void)
{
	struct moment best = { 0 };
	unsigned long long shortest = ~0ULL;

	for (int i = 0; i < 1000; i++) {
		struct timespec clock;
		unsigned long long before = __rdtsc();
		clock_gettime(CLOCK_MONOTONIC, &clock);
		unsigned long long taken = __rdtsc() - before;

		if (taken < shortest) {
			shortest = taken;
			best.ticks = before + taken / 2;
			best.seconds = clock.tv_sec + clock.tv_nsec / 1e9;
		}
	}
	return best;
}

int main(void)
{
	struct timespec pause = { .tv_nsec = 500000000 };
	struct moment start = now();
	nanosleep(&pause, NULL);
	struct moment end = now();

	printf("%.0f\n", (end.ticks - start.ticks) / (end.seconds - start.seconds) / 1000);
	return 0;
}
