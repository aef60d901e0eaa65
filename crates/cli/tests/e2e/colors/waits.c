/*
 * One thread fills memory until pages are short; the other then gives some back.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE ((size_t)40 << 20)

static volatile size_t filled;

static char *map(void)
{
    return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *fill(void *unused)
{
    (void)unused;
    char *memory = map();
    for (; filled < SIZE; filled += 4096)
        memory[filled] = 1;
    return memory;
}

int main(void)
{
    char *held = map();
    memset(held, 1, SIZE);
    pthread_t thread;
    if (held == MAP_FAILED || pthread_create(&thread, NULL, fill, NULL))
        return 1;
    /* It stands still when nothing was filled for three seconds. */
    size_t seen = filled;
    for (int still = 0; filled < SIZE && still < 30; still++) {
        usleep(100000);
        if (filled != seen)
            still = 0;
        seen = filled;
    }
    int stood_still = filled < SIZE;
    /* Before anything else, which might need a page, too. */
    munmap(held, SIZE);
    printf("stood still: %d\n", stood_still);
    pthread_join(thread, NULL);
    printf("filled: %d\n", filled == SIZE);
    return 0;
}
