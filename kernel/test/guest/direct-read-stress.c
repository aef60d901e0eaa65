// SPDX-License-Identifier: GPL-2.0
/*
 * Stress of direct read: owners check every word before they overwrite it, shared words take atomic
 * additions, two threads page out, children read and write after fork, and in the second round a
 * loop of swapoff and swapon. direct-read-stress SECONDS
 */
#include "swap.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define PAGES 512
#define WRITERS 3
#define SHARED 8	/* words at the start of each page that everybody adds to */
#define OWNED 440	/* words after them, dealt to the writers in turn */

static uint64_t *pages;
static atomic_bool stop;
static atomic_long lost, page_outs, children;
static atomic_ulong additions;

static void own_words(long writer, uint64_t *mine, uint64_t *random, uint64_t *serial)
{
	size_t page = next_random(random) % PAGES;
	size_t word = next_random(random) % (OWNED / WRITERS) * WRITERS + writer;
	volatile uint64_t *at = pages + page * WORDS + SHARED + word;
	uint64_t *copy = mine + page * OWNED + word;

	if (*at != *copy) {
		lost++;
		*copy = *at;
	}
	if (next_random(random) % 4)
		return;
	*at = *copy = (uint64_t)(writer + 1) << 56 | ++*serial;
	if (*serial % 3 == 0) {
		atomic_fetch_add((_Atomic uint64_t *)(pages + page * WORDS + *serial % SHARED), 1);
		additions++;
	}
}

static void *write_and_check(void *argument)
{
	long writer = (long)argument;
	uint64_t random = 77777 * (writer + 1), serial = 0;
	uint64_t *mine = calloc(PAGES * OWNED, sizeof(*mine));

	if (!mine)
		die("calloc");
	while (!stop)
		own_words(writer, mine, &random, &serial);
	for (size_t page = 0; page < PAGES; page++)
		for (size_t word = writer; word < OWNED / WRITERS * WRITERS; word += WRITERS)
			lost += ((volatile uint64_t *)pages)[page * WORDS + SHARED + word] !=
				mine[page * OWNED + word];
	free(mine);
	return NULL;
}

static void *evict(void *argument)
{
	uint64_t random = (long)argument + 99;

	while (!stop) {
		size_t count = 1 + next_random(&random) % 32;

		page_out(pages + next_random(&random) % (PAGES - count) * WORDS, count);
		page_outs += count;
	}
	return NULL;
}

/* A child's pages must not change under it, whatever its parent does and it writes elsewhere. */
static int child(void)
{
	volatile uint64_t *at = pages;
	uint64_t before = 0, after = 0;

	for (size_t page = 0; page < PAGES; page += 3)
		before += at[page * WORDS + SHARED + 1];
	for (size_t page = 0; page < PAGES; page += 7)
		at[page * WORDS + 500] = page;
	for (size_t page = 0; page < PAGES; page += 3)
		after += at[page * WORDS + SHARED + 1];
	return before != after;
}

static void *fork_children(void *argument)
{
	int status;

	(void)argument;
	while (!stop) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(child());
		waitpid(pid, &status, 0);
		lost += status != 0;
		children++;
		usleep(20000);
	}
	return NULL;
}

static void *swap_off_and_on(void *argument)
{
	(void)argument;
	while (!stop) {
		usleep(700000);
		swap_off();
		swap_on(DIRECT);
	}
	return NULL;
}

static void stress(unsigned int seconds, bool with_swapoff)
{
	pthread_t threads[WRITERS + 4];
	struct counters start = count(), change;
	uint64_t total = 0;
	int running = 0;

	pages = map_pages(PAGES);
	stop = false;
	lost = page_outs = children = 0;
	additions = 0;
	for (long writer = 0; writer < WRITERS; writer++)
		pthread_create(&threads[running++], NULL, write_and_check, (void *)writer);
	for (long evictor = 0; evictor < 2; evictor++)
		pthread_create(&threads[running++], NULL, evict, (void *)evictor);
	pthread_create(&threads[running++], NULL, fork_children, NULL);
	if (with_swapoff)
		pthread_create(&threads[running++], NULL, swap_off_and_on, NULL);
	sleep(seconds);
	stop = true;
	for (int thread = 0; thread < running; thread++)
		pthread_join(threads[thread], NULL);
	for (size_t page = 0; page < PAGES; page++)
		for (size_t word = 0; word < SHARED; word++)
			total += pages[page * WORDS + word];
	change = since(start);
	check(lost == 0 && total == additions && change.direct > 0,
	      "stress %u s%s: %ld lost words, %ld lost additions; %ld pages paged out, %ld children, %ld direct, %ld copied, %ld copied in",
	      seconds, with_swapoff ? " with swapoff" : "", (long)lost, (long)(additions - total),
	      (long)page_outs, (long)children, change.direct, change.copied, change.copied_in);
	munmap(pages, PAGES * PAGE);
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 1 ? (unsigned int)atoi(argv[1]) : 20;

	swap_on(DIRECT);
	stress(seconds, false);
	stress(seconds, true);
	check(swap_used() <= SLACK, "slots in use at the end: %ld", swap_used());
	swap_off();
	return check_result();
}
