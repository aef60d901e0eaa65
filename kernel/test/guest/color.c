// SPDX-License-Identifier: GPL-2.0
/*
 * Page colors: maps, cgroups, inheritance, and that every page of a colored cgroup has a color of
 * it. Shortage, and memory that moves, are programs of their own (color-shortage, color-move).
 */
#include "color.h"

static uint64_t allowed;
static size_t size;

static void maps_that_are_wrong_are_refused(void)
{
	static const char *const wrong[] = {
		"bank 0x800\n",				/* inside of a page */
		"bank 0x2001\n",
		"bank 0x2000\nbank 0x2000\n",		/* a sum of others */
		"bank 0x6000\nbank 0x2000\nbank 0x4000\n",
		"offset 0x1000\nbank 0x2000\n",		/* not a multiple of the largest block */
		"node 1\nbank 0x2000\n",			/* a map for each node */
		"interleave 3\n",			/* channels that are no power of two */
		"bank\n", "bank x\n", "0x2000\n",
		"bank 0x1000\nbank 0x2000\nbank 0x4000\nbank 0x8000\nbank 0x10000\nbank 0x20000\n"
		"bank 0x40000\nbank 0x80000\nbank 0x100000\nbank 0x200000\nbank 0x400000\n"
		"bank 0x800000\nbank 0x1000000\n",
	};
	size_t accepted = 0;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (put(COLOR_MAP, wrong[i]) || errno != EINVAL)
			accepted++, printf("accepted: %s\n", wrong[i]);
	check(!accepted, "%zu wrong maps accepted", accepted);
}

/* PALLOC's interface cut a map off at 63 bytes, and 10 bits of color crashed it. */
static void a_long_map_reads_as_it_was_written(void)
{
	char text[2000] = "offset 0x0\n", back[2000] = "";
	size_t used = strlen(text);
	int fd;

	for (int i = 0; i < 12; i++)
		used += sprintf(text + used, "bank %#lx\n", 0xffff550000000000UL | 1UL << (13 + i));
	check(put(COLOR_MAP, text), "a map of 12 long functions: errno %d", errno);
	fd = open(COLOR_MAP, O_RDONLY);
	if (fd < 0 || read(fd, back, sizeof(back) - 1) < 0)
		die(COLOR_MAP);
	close(fd);
	check(!strcmp(text, back), "it reads back");
	check(put(COLOR_MAP, "\n"), "an empty map unloads it");
}

static void nothing_is_colored_without_a_map(void)
{
	make_cgroup("a");
	check(set_in("a", "memory.colors", "bank=0") == ENODEV, "colors without a map are refused");
	check(!strcmp(get_from("a", "memory.colors"), "any"), "memory.colors: any");
	remove_cgroup("a");
}

static int all_pages_are_allowed(void)
{
	char *memory = map_memory(size);
	struct colors colors;
	unsigned int most = 0, used = 0;

	write_pages(memory, size);
	colors = count_colors(memory, size, paper_color);
	for (int i = 0; i < 32; i++) {
		used += colors.of[i] > 0;
		most = colors.of[i] > most ? colors.of[i] : most;
	}
	if (outside(&colors, allowed) || colors.pages != size / PAGE ||
	    most > 2 * colors.pages / used) {
		printf("%u of %u pages outside, %u in one of %u colors\n",
		       outside(&colors, allowed), colors.pages, most, used);
		return 1;
	}
	return 0;
}

static void pages_have_the_colors_of_the_cgroup(void)
{
	make_cgroup("a");
	check(!set_in("a", "memory.colors", "bank=3,8-11"), "memory.colors accepts a list");
	check(!strcmp(get_from("a", "memory.colors"), "bank=3,8-11 cache=0 shortage=spill"),
	      "it reads back: %s", get_from("a", "memory.colors"));
	allowed = 0xf08;
	size = 32 * MIB;
	check(!in_cgroup("a", all_pages_are_allowed), "every page, spread over the colors");
	let_counters_settle();
	check(counter_of("a", "memory.stat", "color_alloc") >= (long)(size / PAGE),
	      "memory.stat counts them: %ld", counter_of("a", "memory.stat", "color_alloc"));
	check(counter_of("a", "memory.stat", "color_spill") == 0, "none was spilled");
	check(set_in("a", "memory.colors", "bank=32") != 0, "a color outside of the map is refused");
	check(set_in("a", "memory.colors", "disk=3") == EINVAL, "an unknown key is refused");
	check(set_in("a", "memory.colors", "shortage=never") == EINVAL, "so is an unknown policy");
	check(!set_in("a", "memory.colors", "bank=30"), "colors can be changed");
	allowed = 1UL << 30;
	size = 4 * MIB;
	check(!in_cgroup("a", all_pages_are_allowed), "new pages have the new color");
	remove_cgroup("a");
}

/* PALLOC filled n bits of 2^n. */
static void every_color_can_be_used(void)
{
	char text[40];
	int failed = 0;

	make_cgroup("a");
	size = MIB;
	for (int i = 0; i < 32; i++) {
		sprintf(text, "bank=%d", i);
		allowed = 1UL << i;
		failed += set_in("a", "memory.colors", text) || in_cgroup("a", all_pages_are_allowed);
	}
	check(!failed, "each of 32 colors alone: %d failed", failed);
	remove_cgroup("a");
}

/* PALLOC's child cgroups begin without a restriction. */
static void children_inherit_and_cannot_escape(void)
{
	make_cgroup("a");
	check(!set_in("a", "memory.colors", "bank=0-7 shortage=reclaim"), "a parent with eight colors");
	make_cgroup("a/b");
	check(!strcmp(get_from("a/b", "memory.colors"), "bank=0-7 cache=0 shortage=reclaim"),
	      "a child inherits: %s", get_from("a/b", "memory.colors"));
	allowed = 0xff;
	size = 4 * MIB;
	check(!in_cgroup("a/b", all_pages_are_allowed), "its pages have the parent's colors");
	check(set_in("a/b", "memory.colors", "bank=8-15") == EINVAL, "it cannot have others");
	check(!set_in("a/b", "memory.colors", "bank=6-9 shortage=spill"), "what overlaps is cut down");
	check(!strcmp(get_from("a/b", "memory.colors"), "bank=6-7 cache=0 shortage=reclaim"),
	      "it may use %s", get_from("a/b", "memory.colors"));
	allowed = 0xc0;
	check(!in_cgroup("a/b", all_pages_are_allowed), "its pages have the overlap");
	check(!set_in("a", "memory.colors", "bank=8-15"), "the parent moves on");
	allowed = 0x300;
	check(!in_cgroup("a/b", all_pages_are_allowed), "and the child with it");
	check(!set_in("a", "memory.colors", "bank=16-17"), "to where they have nothing in common");
	allowed = 0x30000;
	check(!in_cgroup("a/b", all_pages_are_allowed), "there the child has all of the parent's");
	check(!set_in("a", "memory.colors", "inherit"), "the parent is colored no more");
	check(!strcmp(get_from("a/b", "memory.colors"), "bank=6-9 cache=0 shortage=spill"),
	      "the child has what it asked for: %s", get_from("a/b", "memory.colors"));
	remove_cgroup("a/b");
	remove_cgroup("a");
}

static int leave_a_file(void)
{
	static char page[PAGE];
	int fd = open("/tmp/left", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (int i = 0; i < 64; i++)
		if (fd < 0 || write(fd, page, PAGE) != PAGE)
			return 1;
	return 0;
}

/* Memory that outlives its cgroup keeps what the kernel knows of that. */
static void removed_cgroups_keep_no_map(void)
{
	make_cgroup("a");
	make_cgroup("a/b");
	check(!set_in("a", "memory.colors", "bank=0-7"), "a parent with eight colors");
	check(!in_cgroup("a/b", leave_a_file), "a file outlives the child");
	remove_cgroup("a/b");
	for (int i = 0; i < 20; i++) {
		set_in("a", "memory.colors", i % 2 ? "bank=0-7" : "bank=8-15");
		usleep(20000);
	}
	remove_cgroup("a");
	check(load_map("\n"), "a removed cgroup keeps no map in place");
	unlink("/tmp/left");
	check(load_map(paper_map), "and another can be loaded");
}

static unsigned int cache_color(uint64_t pfn)
{
	return pfn >> 2 & 7;
}

static unsigned int bank_color(uint64_t pfn)
{
	return pfn >> 1 & 7;
}

static int cache_pages(void)
{
	char *memory = map_memory(8 * MIB);
	struct colors caches, banks;

	write_pages(memory, 8 * MIB);
	caches = count_colors(memory, 8 * MIB, cache_color);
	banks = count_colors(memory, 8 * MIB, bank_color);
	return outside(&caches, 0x0f) || outside(&banks, 0x81) || !banks.of[0] || !banks.of[7];
}

/* Banks by bits 13 to 15, cache sets by 14 to 16: two bits in common (bpm Fig. 3). */
static void cache_and_bank_colors_are_chosen_separately(void)
{
	check(load_map("bank 0x2000\nbank 0x4000\nbank 0x8000\n"
		       "cache 0x4000\ncache 0x8000\ncache 0x10000\n"), "a map of banks and cache sets");
	make_cgroup("a");
	check(!set_in("a", "memory.colors", "cache=0-3"), "cache colors alone");
	check(!strcmp(get_from("a", "memory.colors"), "bank=0-7 cache=0-3 shortage=spill"),
	      "leave all banks: %s", get_from("a", "memory.colors"));
	check(set_in("a", "memory.colors", "bank=0 cache=1") == EINVAL,
	      "a pair that no page has is refused");
	check(!set_in("a", "memory.colors", "bank=0,7 cache=0-3"), "both");
	check(!in_cgroup("a", cache_pages), "pages have both");
	remove_cgroup("a");
}

static unsigned int offset_color(uint64_t pfn)
{
	return (pfn - (0x1c00000 >> 12)) >> 10 & 3;
}

static int offset_pages(void)
{
	char *memory = map_memory(8 * MIB);
	struct colors colors;

	write_pages(memory, 8 * MIB);
	colors = count_colors(memory, 8 * MIB, offset_color);
	return outside(&colors, 0x4) != 0;
}

static void an_offset_is_taken_off(void)
{
	check(load_map("offset 0x1c00000\nbank 0x400000\nbank 0x800000\n"), "a map with an offset");
	make_cgroup("a");
	check(!set_in("a", "memory.colors", "bank=2"), "one of its colors");
	check(!in_cgroup("a", offset_pages), "pages have it");
	check(put(COLOR_MAP, paper_map) == false && errno == EBUSY, "a map in use cannot be replaced");
	remove_cgroup("a");
}

/* Which cgroup would be charged is not known for these, or is somebody else's. */
static int others_memory(void)
{
	char *memory;
	struct colors colors;
	int fd = open("/tmp/file", O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || ftruncate(fd, 8 * MIB))
		return 2;
	memory = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	write_pages(memory, 8 * MIB);
	colors = count_colors(memory, 8 * MIB, paper_color);
	unlink("/tmp/file");
	return outside(&colors, 1) < colors.pages / 2;
}

/* More than half of a node, as half of its largest blocks may have half of the colors. */
static int uncolored_memory(void)
{
	char *memory = map_memory(288 * MIB);
	struct colors colors;
	int used = 0;

	write_pages(memory, 288 * MIB);
	colors = count_colors(memory, 288 * MIB, paper_color);
	for (int i = 0; i < 32; i++)
		used += colors.of[i] > 0;
	return used < 32;
}

static void everybody_else_is_untouched(void)
{
	long before;

	make_cgroup("a");
	make_cgroup("b");
	set_in("a", "memory.colors", "bank=0");
	check(!in_cgroup("a", others_memory), "files of a colored cgroup have any color");
	before = vmstat("color_alloc");
	check(!in_cgroup("b", uncolored_memory), "a neighbor's memory has every color");
	check(vmstat("color_alloc") == before, "and is not counted");
	remove_cgroup("a");
	remove_cgroup("b");
}

static int allocate_and_free(void)
{
	char *memory = map_memory(4 * MIB);

	for (int i = 0; i < 200; i++) {
		write_pages(memory, 4 * MIB);
		madvise(memory, 4 * MIB, MADV_DONTNEED);
	}
	return 0;
}

/* PALLOC does not account for pages that leave by color, only for those that return. */
static void the_books_are_right(void)
{
	struct books start, end;
	bool agree;

	make_cgroup("a");
	set_in("a", "memory.colors", "bank=5,21");
	in_cgroup("a", allocate_and_free);
	agree = books_agree(&start);
	check(agree, "free pages: %ld counted, %ld linked", start.counted, start.linked);
	in_cgroup("a", allocate_and_free);
	agree = books_agree(&end);
	check(agree, "after 200,000 colored pages: %ld counted, %ld linked",
	      end.counted, end.linked);
	check(labs(end.counted + end.on_cpus - start.counted - start.on_cpus) < 512,
	      "free pages come back: %+ld", end.counted + end.on_cpus - start.counted - start.on_cpus);
	remove_cgroup("a");
}

int main(void)
{
	put("/cg/cgroup.subtree_control", "+memory");
	nothing_is_colored_without_a_map();
	maps_that_are_wrong_are_refused();
	a_long_map_reads_as_it_was_written();
	check(load_map(paper_map), "the map of the paper's machine");
	pages_have_the_colors_of_the_cgroup();
	every_color_can_be_used();
	children_inherit_and_cannot_escape();
	removed_cgroups_keep_no_map();
	everybody_else_is_untouched();
	the_books_are_right();
	cache_and_bank_colors_are_chosen_separately();
	an_offset_is_taken_off();
	check(load_map("\n"), "the map is unloaded");
	return check_result();
}
