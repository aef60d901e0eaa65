/*
 * A job that keeps a CPU busy: spin MILLIONS [FILE]. It does a fixed amount of work and then
 * appends a line to FILE, with the seconds that it has taken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) * 1000000 : 0;
	double begun = now();
	volatile long x = 0;

	while (rounds--)
		x += rounds;
	if (argc > 2) {
		FILE *file = fopen(argv[2], "a");

		if (!file)
			return 1;
		fprintf(file, "%.3f\n", now() - begun);
		fclose(file);
	}
	return 0;
}
