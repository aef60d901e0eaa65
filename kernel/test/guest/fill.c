// SPDX-License-Identifier: GPL-2.0
/*
 * A program for memweir to run in a guest: fill MIB [COLORS] [GATE]
 * Fills memory, reads it, writes a quarter of it anew and reads again. COLORS (a mask, in
 * hexadecimal) are those of the paper's machine that its pages may have. GATE is a FIFO: the
 * program says there that it is done, and ends when somebody has written to it.
 */
#include "color.h"

/* Every page holds its own address, or in the second round its complement where this says so. */
static bool is_rewritten(size_t at)
{
	return at / PAGE % 4 == 0;
}

static size_t wrong_after_rewrite(const char *memory, size_t size)
{
	size_t wrong = 0;

	for (size_t i = 0; i < size; i += PAGE) {
		uint64_t expected = (uintptr_t)memory + i;

		if (is_rewritten(i))
			expected = ~expected;
		wrong += *(volatile uint64_t *)(memory + i) != expected;
	}
	return wrong;
}

static void wait_at(const char *gate)
{
	char word;
	int fd = open(gate, O_WRONLY);

	if (fd < 0 || dprintf(fd, "%d\n", getpid()) < 0)
		die(gate);
	close(fd);
	fd = open(gate, O_RDONLY);
	if (fd < 0 || read(fd, &word, 1) != 1)
		die(gate);
}

int main(int argc, char **argv)
{
	size_t size = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) * MIB, wrong;
	uint64_t allowed = argc > 2 ? strtoull(argv[2], NULL, 16) : ~0ULL;
	char *memory = map_memory(size);
	struct colors colors;

	write_pages(memory, size);
	wrong = wrong_pages(memory, size);
	for (size_t i = 0; i < size; i += PAGE)
		if (is_rewritten(i))
			*(volatile uint64_t *)(memory + i) = ~((uintptr_t)memory + i);
	wrong += wrong_after_rewrite(memory, size);
	colors = count_colors(memory, size, paper_color);
	printf("filled %lu pages, %zu wrong, %u of %u resident outside\n", size / PAGE, wrong,
	       outside(&colors, allowed), colors.pages);
	fflush(stdout);
	if (argc > 3)
		wait_at(argv[3]);
	return wrong || outside(&colors, allowed);
}
