/*
 * Answers the page faults of a part of its memory by itself.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 512

static int uffd;
static char *memory;

static void *answer(void *unused)
{
    (void)unused;
    char page[PAGE];
    for (int served = 0; served < PAGES; served++) {
        struct uffd_msg message;
        if (read(uffd, &message, sizeof(message)) != sizeof(message))
            return NULL;
        uint64_t at = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
        memset(page, (int)((at - (uintptr_t)memory) / PAGE % 251), PAGE);
        struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = PAGE};
        ioctl(uffd, UFFDIO_COPY, &copy);
    }
    return NULL;
}

int main(void)
{
    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api)) {
        puts("no userfaultfd");
        return 0;
    }
    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {
        .range = {.start = (uintptr_t)memory, .len = PAGES * PAGE},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    if (ioctl(uffd, UFFDIO_REGISTER, &range)) {
        puts("its own range was refused");
        return 1;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, answer, NULL);
    unsigned long sum = 0, expected = 0;
    for (int page = 0; page < PAGES; page++) {
        sum += (unsigned char)memory[page * PAGE + page];
        expected += page % 251;
    }
    pthread_join(thread, NULL);
    printf("served: %d\n", sum == expected);
    return 0;
}
