// Moves several mappings by one call (Linux 6.17), and prints what they hold afterwards.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { LENGTH = 4 << 20, PAGE = 4096, FIXED = MREMAP_MAYMOVE | MREMAP_FIXED };

static char *fresh(void)
{
    return mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void move(char *from)
{
    char *to = fresh();
    if (mremap(from, LENGTH, LENGTH, FIXED, to) == MAP_FAILED) {
        printf("not moved: %s\n", strerror(errno));
        to = from;
    }
    memset(to + LENGTH / 2, 'b', LENGTH / 2);
    printf("%c %c %c\n", to[1], to[LENGTH / 4], to[LENGTH - 1]);
}

int main(void)
{
    char *from = fresh();
    memset(from, 'a', LENGTH);
    mprotect(from + LENGTH / 4, LENGTH / 4, PROT_READ);
    move(from);
    // Pages of files are not watched: the kernel moves the first, and what is around the hole.
    from = fresh();
    memset(from, 'c', LENGTH);
    int file = open("/proc/self/exe", O_RDONLY);
    mmap(from, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    mmap(from + LENGTH / 2 - PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    munmap(from + LENGTH / 2 - 2 * PAGE, PAGE);
    move(from);
    return 0;
}
