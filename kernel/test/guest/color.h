/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the tests of page colors: maps, colored cgroups, the frames behind memory, and the
 * allocator's books. Colors are worked out here anew, from the map's definition.
 */
#ifndef COLOR_H
#define COLOR_H

#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define COLOR_MAP "/sys/kernel/mm/page_color/map"
#define MIB (1UL << 20)

/* Of the paper's machine: banks by bits 13, 14, 15, 21 and 22. */
static const char *const paper_map =
	"bank 0x2000\nbank 0x4000\nbank 0x8000\nbank 0x200000\nbank 0x400000\n";

static inline unsigned int __attribute__((unused)) paper_color(uint64_t pfn)
{
	return (pfn >> 1 & 7) | (pfn >> 9 & 3) << 3;
}

/* Loads a map, waiting for what was colored to be given up (RCU). */
static inline bool __attribute__((unused)) load_map(const char *text)
{
	for (int i = 0; i < 200; i++) {
		if (put(COLOR_MAP, text))
			return true;
		if (errno != EBUSY)
			return false;
		usleep(50000);
	}
	return false;
}

/* A cgroup; of `a/b`, `a` is made first and may have no processes of its own. */
static inline void __attribute__((unused)) make_cgroup(const char *dir)
{
	char path[200];

	snprintf(path, sizeof(path), "/cg/%s", dir);
	if (mkdir(path, 0755) && errno != EEXIST)
		die(path);
	if (!strchr(dir, '/'))
		return;
	snprintf(path, sizeof(path), "/cg/%.*s/cgroup.subtree_control",
		 (int)(strchr(dir, '/') - dir), dir);
	if (!put(path, "+memory"))
		die(path);
}

static inline void __attribute__((unused)) remove_cgroup(const char *dir)
{
	char path[200];

	snprintf(path, sizeof(path), "/cg/%s", dir);
	for (int i = 0; i < 100 && rmdir(path) && errno == EBUSY; i++)
		usleep(50000);
}

/* Zero, or the errno. */
static inline int __attribute__((unused)) set_in(const char *dir, const char *file, const char *text)
{
	char path[200];

	snprintf(path, sizeof(path), "/cg/%s/%s", dir, file);
	errno = 0;
	return put(path, text) ? 0 : errno;
}

static inline const char *__attribute__((unused)) get_from(const char *dir, const char *file)
{
	static char text[8192];
	char path[200];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/cg/%s/%s", dir, file);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	text[strcspn(text, "\n")] = strchr(text, '\n') && !strchr(text, '\n')[1] ? 0 : '\n';
	return text;
}

/* memory.stat may leave out what was counted on the CPUs in the last two seconds. */
static inline void __attribute__((unused)) let_counters_settle(void)
{
	sleep(3);
}

/* A counter of memory.stat, memory.events or another flat keyed file. */
static inline long __attribute__((unused)) counter_of(const char *dir, const char *file, const char *key)
{
	char path[200], name[80];
	long value, found = -1;
	FILE *in;

	snprintf(path, sizeof(path), "/cg/%s/%s", dir, file);
	in = fopen(path, "r");
	if (!in)
		return -1;
	while (fscanf(in, "%79s %ld", name, &value) == 2)
		if (!strcmp(name, key))
			found = value;
	fclose(in);
	return found;
}

static inline void __attribute__((unused)) enter(const char *dir)
{
	if (set_in(dir, "cgroup.procs", "0"))
		die("cgroup.procs");
}

/* Runs a function in a process of a cgroup; its exit status, or 128 and the signal. */
static inline int __attribute__((unused)) in_cgroup(const char *dir, int (*body)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		enter(dir);
		_exit(body());
	}
	if (waitpid(pid, &status, 0) < 0)
		die("waitpid");
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static inline char *__attribute__((unused)) map_memory(size_t size)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	return memory;
}

/* Writes into each page its own address; wrong_pages() counts those that hold another. */
static inline void __attribute__((unused)) write_pages(char *memory, size_t size)
{
	for (size_t i = 0; i < size; i += PAGE)
		*(volatile uint64_t *)(memory + i) = (uintptr_t)memory + i;
}

static inline size_t __attribute__((unused)) wrong_pages(const char *memory, size_t size)
{
	size_t wrong = 0;

	for (size_t i = 0; i < size; i += PAGE)
		wrong += *(volatile uint64_t *)(memory + i) != (uintptr_t)memory + i;
	return wrong;
}

/* Compacts all zones of both nodes. */
static inline void __attribute__((unused)) compact(void)
{
	put("/sys/devices/system/node/node0/compact", "1");
	put("/sys/devices/system/node/node1/compact", "1");
}

/* The frame behind an address; 0 where there is none. */
static inline uint64_t __attribute__((unused)) frame(const void *address)
{
	static int fd = -1;
	uint64_t entry;

	if (fd < 0)
		fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pread(fd, &entry, 8, (uintptr_t)address / PAGE * 8) != 8)
		die("pagemap");
	return entry >> 63 ? entry & ((1UL << 55) - 1) : 0;
}

/* Pages of a range by their color. */
struct colors {
	unsigned int of[1024];
	unsigned int pages;
};

/* `pagemap` belongs to whoever opened it: a child has to open its own. */
static inline struct colors __attribute__((unused))
count_colors(const char *memory, size_t size, unsigned int (*color)(uint64_t))
{
	struct colors colors = { 0 };
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entries[512];

	for (size_t i = 0; i < size; i += sizeof(entries) / 8 * PAGE) {
		size_t n = (size - i) / PAGE < 512 ? (size - i) / PAGE : 512;

		if (pread(fd, entries, n * 8, ((uintptr_t)memory + i) / PAGE * 8) != (ssize_t)(n * 8))
			die("pagemap");
		for (size_t k = 0; k < n; k++) {
			if (!(entries[k] >> 63))
				continue;
			colors.of[color(entries[k] & ((1UL << 55) - 1))]++;
			colors.pages++;
		}
	}
	close(fd);
	return colors;
}

/* Pages whose color is not one of those in the mask. */
static inline unsigned int __attribute__((unused)) outside(const struct colors *colors, uint64_t mask)
{
	unsigned int n = colors->pages;

	for (int i = 0; i < 64; i++)
		if (mask >> i & 1)
			n -= colors->of[i];
	return n;
}

/* Free pages of all zones: as counted, as linked in free lists, and in the lists of CPUs. */
struct books {
	long counted;
	long linked;
	long on_cpus;
};

/*
 * The lines of a file of /proc. It stays open, and with it the kernel's buffer: one that is freed
 * between two files goes to a CPU's list, which may give others back to the free lists.
 */
static inline char *__attribute__((unused)) read_proc(const char *path, int *fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;

	if (*fd < 0)
		*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0 || lseek(*fd, 0, SEEK_SET))
		die(path);
	while (length < size - 1 && (got = read(*fd, text + length, size - 1 - length)) > 0)
		length += got;
	text[length] = 0;
	return text;
}

static inline struct books __attribute__((unused)) read_books(void)
{
	static char zones[65536], blocks[4096];
	static int zoneinfo = -1, buddyinfo = -1;
	struct books books = { 0 };
	long value;

	read_proc("/proc/zoneinfo", &zoneinfo, zones, sizeof(zones));
	read_proc("/proc/buddyinfo", &buddyinfo, blocks, sizeof(blocks));
	for (char *line = strtok(zones, "\n"); line; line = strtok(NULL, "\n")) {
		if (sscanf(line, " nr_free_pages %ld", &value) == 1)
			books.counted += value;
		else if (sscanf(line, " count: %ld", &value) == 1)
			books.on_cpus += value;
	}
	for (char *line = strtok(blocks, "\n"); line; line = strtok(NULL, "\n")) {
		char *at = strstr(line, "zone");
		int used = 0;

		sscanf(at, "zone %*s%n", &used);
		at += used;
		for (int order = 0; sscanf(at, " %ld%n", &value, &used) == 1; order++, at += used)
			books.linked += value << order;
	}
	return books;
}

/* True if counter and lists agree; both move a little by themselves, so this asks again. */
static inline bool __attribute__((unused)) books_agree(struct books *books)
{
	for (int i = 0; i < 100; i++) {
		number_in("/proc/sys/vm/stat_refresh");
		*books = read_books();
		if (books->counted == books->linked)
			return true;
		usleep(20000);
	}
	return false;
}

#endif
