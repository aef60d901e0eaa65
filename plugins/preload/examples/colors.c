/*
 * Places data in chosen page colors, and looks whether it is there (for the map of a Core i7-860,
 * and as root, who may see page frames).
 *
 *   memweir color run --map i7-860.toml --colors 0-7 -- ./colors
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memweir_color.h"

/* Weak, so that the program also runs by itself. */
#pragma weak memweir_color_count
#pragma weak memweir_color_alloc
#pragma weak memweir_color_free
#pragma weak memweir_thread_colors

#define SIZE (1 << 20)

static int color_of(const char *page)
{
    static const int bits[] = {13, 14, 15, 21, 22};
    uint64_t entry = 0;
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    if (pread(pagemap, &entry, 8, (uintptr_t)page / 4096 * 8) != 8)
        exit(2);
    close(pagemap);
    uint64_t address = (entry & ((1ULL << 55) - 1)) * 4096;
    int color = 0;
    for (int i = 0; i < 5; i++)
        color |= (address >> bits[i] & 1) << i;
    return color;
}

/* True if every page of the memory has one of the colors from `low` to `high`. */
static int inside(const char *memory, int low, int high)
{
    for (int at = 0; at < SIZE; at += 4096) {
        int color = color_of(memory + at);
        if (color < low || color > high)
            return 0;
    }
    return 1;
}

static void *work(void *unused)
{
    (void)unused;
    if (memweir_thread_colors("5"))
        exit(3);
    char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, SIZE);
    printf("thread: %d\n", inside(memory, 5, 5));
    return NULL;
}

int main(void)
{
    if (!memweir_color_count || !memweir_color_count()) {
        puts("not placed");
        return 0;
    }
    printf("colors %u\n", memweir_color_count());
    char *memory = memweir_color_alloc(SIZE, "2-3");
    if (!memory)
        return 1;
    memset(memory, 1, SIZE);
    printf("range: %d\n", inside(memory, 2, 3));
    memweir_color_free(memory, SIZE);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    puts(memweir_color_alloc(SIZE, "8") ? "beyond: given" : "beyond: refused");
    return 0;
}
