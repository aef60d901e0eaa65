/*
 * Page colors for programs that place their data themselves.
 *
 * The functions are in libmemweir_preload.so, which `memweir color run` loads into the program.
 * Link against it, or declare them weak and test for null, so that the program also runs without.
 * Colors are written as `0-3,8`, and must be among those that the program was given.
 */
#ifndef MEMWEIR_COLOR_H
#define MEMWEIR_COLOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of colors of the map; 0 if pages are not placed */
uint32_t memweir_color_count(void);

/*
 * Memory of `size` bytes, zeroed, whose pages have these colors (NULL: all of the program's).
 * NULL with errno ENOSYS if pages are not placed, EINVAL for colors that the program was not given,
 * ENOMEM, or ENOSPC if too many ranges or different sets of colors are in use.
 */
void *memweir_color_alloc(size_t size, const char *colors);

/* Gives back what memweir_color_alloc returned, with the same size. */
void memweir_color_free(void *memory, size_t size);

/*
 * From now on, pages that the calling thread is the first to touch have these colors (NULL: all of
 * the program's). 0, or -1 with errno as above.
 */
int memweir_thread_colors(const char *colors);

#ifdef __cplusplus
}
#endif

#endif
