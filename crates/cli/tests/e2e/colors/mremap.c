// Moves several mappings by one call (Linux 6.17), and prints what they hold afterwards.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { LENGTH = 4 << 20, FIXED = MREMAP_MAYMOVE | MREMAP_FIXED };

static char *fresh(void)
{
    return mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void)
{
    char *from = fresh(), *to = fresh();
    memset(from, 'a', LENGTH);
    mprotect(from + LENGTH / 4, LENGTH / 4, PROT_READ);
    if (mremap(from, LENGTH, LENGTH, FIXED, to) == MAP_FAILED) {
        printf("not moved: %s\n", strerror(errno));
        to = from;
    }
    memset(to + LENGTH / 2, 'b', LENGTH / 2);
    printf("%c %c %c\n", to[0], to[LENGTH / 4], to[LENGTH - 1]);
    return 0;
}
