// SPDX-License-Identifier: GPL-2.0
/*
 * The protocols by which a program may evict pages of a private file mapping while other threads
 * read and write them, on a kernel whose copy-on-write windows are widened (widened-window.patch).
 * Owners check every word before they overwrite it, shared words take atomic additions: a copy made
 * of stale contents loses updates, and the test sees it.
 *
 *   eviction PROTOCOL SECONDS WANT     WANT: `loses` or `keeps`
 *
 * One that must lose ends with the first loss seen, or after so many evictions that there will be
 * none. One that must keep takes SECONDS, and on a slow machine longer: until there were enough
 * evictions for a loss.
 *
 * Protocols, each for one page at a time:
 *   none      copy by stores, MADV_DONTNEED (the control: must lose)
 *   stores    uffd write-protect, copy by stores, MADV_DONTNEED, un-protect
 *   pwrite    the same with pwrite(2), which takes the file page's lock as do_cow_fault() does
 *   barrier   as pwrite, with a call that write-locks the VMA (MADV_SEQUENTIAL, MADV_NORMAL)
 *             between protection and pwrite: it waits for every fault in flight, also for
 *             wp_page_copy(), which copies without the page lock
 *   punch     as pwrite, for pages that have a copy in DRAM, after their old page was removed from
 *             the file since they have it (FALLOC_FL_PUNCH_HOLE), before or after protection: a
 *             fault in flight then finds another page mapped than the one that it copied
 */
#include "check.h"
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define PAGES 16
#define WORDS (PAGE / sizeof(uint64_t))
#define WRITERS 4
#define READERS 2
#define SHARED 8
#define OWNED 440
/* Evictions. A protocol that loses has done so after 30 to 750 of them. */
#define ENOUGH 1500
#define HOPELESS 50000

enum protocol { NONE, STORES, PWRITE, BARRIER, PUNCH, PROTOCOLS };

static const char *const names[PROTOCOLS] = { "none", "stores", "pwrite", "barrier", "punch" };

static enum protocol protocol;
static uint64_t *pages, *file_pages;
static int file, faults, pagemap;
/* Pages whose old page was removed from the file; the evicting thread's. */
static bool punched[PAGES];
static atomic_bool stop;
static atomic_long lost, evictions;
static atomic_ulong additions;

static void *write_and_check(void *argument)
{
	long writer = (long)argument;
	uint64_t random = 77777 * (writer + 1), serial = 0;
	uint64_t *mine = calloc(PAGES * OWNED, sizeof(*mine));

	if (!mine)
		die("calloc");
	while (!stop) {
		size_t page = next_random(&random) % PAGES;
		size_t word = next_random(&random) % (OWNED / WRITERS) * WRITERS + writer;
		volatile uint64_t *at = pages + page * WORDS + SHARED + word;
		uint64_t *copy = mine + page * OWNED + word;

		if (*at != *copy) {
			lost++;
			*copy = *at;
		}
		*at = *copy = (uint64_t)(writer + 1) << 56 | ++serial;
		atomic_fetch_add((_Atomic uint64_t *)(pages + page * WORDS + serial % SHARED), 1);
		additions++;
	}
	for (size_t page = 0; page < PAGES; page++)
		for (size_t word = writer; word < OWNED; word += WRITERS)
			lost += ((volatile uint64_t *)pages)[page * WORDS + SHARED + word] !=
				mine[page * OWNED + word];
	free(mine);
	return NULL;
}

/* Readers map evicted pages in place, so that writes find them there. */
static void *read_pages(void *argument)
{
	uint64_t random = 4242 + (long)argument;

	while (!stop) {
		size_t page = next_random(&random) % PAGES;

		(void)*(volatile uint64_t *)(pages + page * WORDS + WORDS - 1);
		if (next_random(&random) % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void protect(void *page, bool on)
{
	struct uffdio_writeprotect range = {
		.range = { (uint64_t)page, PAGE },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	while (ioctl(faults, UFFDIO_WRITEPROTECT, &range))
		if (errno != EAGAIN)
			die("UFFDIO_WRITEPROTECT");
}

/* Both calls change the VMA's flags, and so write-lock it; its neighbors and its pages stay. */
static void wait_for_faults(void)
{
	if (madvise(pages, PAGES * PAGE, MADV_SEQUENTIAL) ||
	    madvise(pages, PAGES * PAGE, MADV_NORMAL))
		die("madvise");
}

/* Only an eviction changes this back. */
static bool has_copy_in_dram(size_t number)
{
	const uint64_t present = 1ULL << 63, of_file = 1ULL << 61;
	uint64_t entry;
	off_t at = (uint64_t)(pages + number * WORDS) / PAGE * sizeof(entry);

	if (pread(pagemap, &entry, sizeof(entry), at) != sizeof(entry))
		die("pagemap");
	return (entry & (present | of_file)) == present;
}

static void punch(size_t number)
{
	if (!punched[number] && fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  number * PAGE, PAGE))
		die("FALLOC_FL_PUNCH_HOLE");
	punched[number] = true;
}

static void evict(size_t number)
{
	uint64_t *page = pages + number * WORDS;

	if (protocol != NONE)
		protect(page, true);
	if (protocol == BARRIER)
		wait_for_faults();
	else if (protocol == PUNCH)
		punch(number);
	if (protocol == NONE || protocol == STORES)
		memcpy(file_pages + number * WORDS, page, PAGE);
	else if (pwrite(file, page, PAGE, number * PAGE) != (ssize_t)PAGE)
		die("pwrite");
	if (madvise(page, PAGE, MADV_DONTNEED))
		die("MADV_DONTNEED");
	if (protocol != NONE)
		protect(page, false);
	punched[number] = false;
}

static void *evict_pages(void *argument)
{
	uint64_t random = 999;

	(void)argument;
	/* This thread's alone: it has to get a processor beside so many that never wait. */
	if (setpriority(PRIO_PROCESS, 0, -15))
		die("setpriority");
	while (!stop) {
		size_t page = next_random(&random) % PAGES;

		if (protocol == PUNCH) {
			size_t seen = next_random(&random) % PAGES;

			if (has_copy_in_dram(seen))
				punch(seen);
			if (!has_copy_in_dram(page))
				continue;
		}
		evict(page);
		evictions++;
	}
	return NULL;
}

static void prepare(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_WP };

	file = memfd_create("evicted", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, PAGES * PAGE))
		die("memfd");
	file_pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file,
		     0);
	if (file_pages == MAP_FAILED || pages == MAP_FAILED)
		die("mmap");
	memset(file_pages, 0, PAGES * PAGE);
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		die("pagemap");
	faults = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api))
		die("userfaultfd");
	range.range.start = (uint64_t)pages;
	range.range.len = PAGES * PAGE;
	if (ioctl(faults, UFFDIO_REGISTER, &range))
		die("UFFDIO_REGISTER");
}

static void run(unsigned int seconds, bool must_lose)
{
	pthread_t threads[WRITERS + READERS], evictor;
	int running = 0;

	for (long writer = 0; writer < WRITERS; writer++)
		pthread_create(&threads[running++], NULL, write_and_check, (void *)writer);
	for (long reader = 0; reader < READERS; reader++)
		pthread_create(&threads[running++], NULL, read_pages, (void *)reader);
	pthread_create(&evictor, NULL, evict_pages, NULL);
	for (unsigned int passed = 0;; passed++) {
		if (must_lose ? lost > 0 || evictions >= HOPELESS :
				passed >= seconds && evictions >= ENOUGH)
			break;
		sleep(1);
	}
	stop = true;
	pthread_join(evictor, NULL);
	/*
	 * A write that met a protected page may have begun to wait after that page was
	 * un-protected: the kernel looks again, finds no page or one of the file that cannot be
	 * written, and lets it wait for what comes next. Until now that was the next eviction.
	 * Closing wakes all.
	 */
	if (close(faults))
		die("close");
	for (int thread = 0; thread < running; thread++)
		pthread_join(threads[thread], NULL);
}

int main(int argc, char **argv)
{
	uint64_t total = 0;
	bool loses, must_lose;

	if (argc != 4)
		die("usage: eviction PROTOCOL SECONDS loses|keeps");
	while (protocol < PROTOCOLS && strcmp(argv[1], names[protocol]))
		protocol++;
	if (protocol == PROTOCOLS)
		die("no such protocol");
	must_lose = !strcmp(argv[3], "loses");
	prepare();
	run((unsigned int)atoi(argv[2]), must_lose);
	for (size_t page = 0; page < PAGES; page++)
		for (size_t word = 0; word < SHARED; word++)
			total += pages[page * WORDS + word];
	loses = lost || total != additions;
	check(loses == must_lose,
	      "eviction by %s %s updates: %ld words, %ld additions lost in %ld evictions, %lu additions (must: %s)",
	      argv[1], loses ? "loses" : "keeps", (long)lost, (long)(additions - total),
	      (long)evictions, (unsigned long)additions, argv[3]);
	return check_failures != 0;
}
