/*
 * Reads a file through io_uring into buffers that the kernel holds, and forks now and then. With an
 * argument it maps them behind libc's back, so that they are found when they are held already.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (256 * 4096)
#define ROUNDS 200

static int ring;
static void *map_ring(size_t size, off_t offset)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
}

int main(int argc, char **argv)
{
    (void)argv;
    struct io_uring_params params;
    memset(&params, 0, sizeof(params));
    ring = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (ring < 0) {
        puts("no io_uring");
        return 0;
    }
    char *sq = map_ring(params.sq_off.array + params.sq_entries * 4, IORING_OFF_SQ_RING);
    char *cq = map_ring(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
                        IORING_OFF_CQ_RING);
    struct io_uring_sqe *entry = map_ring(params.sq_entries * sizeof(*entry), IORING_OFF_SQES);
    int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
    char *buffer = argc > 1
        ? (char *)syscall(SYS_mmap, NULL, SIZE, both, own | MAP_POPULATE, -1, 0)
        : mmap(NULL, SIZE, both, own, -1, 0);
    if (argc == 1)
        memset(buffer, 1, SIZE);
    struct iovec vector = {.iov_base = buffer, .iov_len = SIZE};
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &vector, 1)) {
        puts("no registered buffers");
        return 0;
    }
    static char pattern[SIZE];
    int file = open("uring.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int right = 0;
    for (int round = 0; round < ROUNDS; round++) {
        memset(pattern, round, SIZE);
        pwrite(file, pattern, SIZE, 0);
        if (round % 20 == 10) {
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            waitpid(child, NULL, 0);
        }
        memset(entry, 0, sizeof(*entry));
        entry->opcode = IORING_OP_READ_FIXED;
        entry->fd = file;
        entry->addr = (uintptr_t)buffer;
        entry->len = SIZE;
        _Atomic unsigned *tail = (void *)(sq + params.sq_off.tail);
        unsigned *mask = (void *)(sq + params.sq_off.ring_mask);
        ((unsigned *)(sq + params.sq_off.array))[*tail & *mask] = 0;
        atomic_fetch_add(tail, 1);
        syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        atomic_fetch_add((_Atomic unsigned *)(cq + params.cq_off.head), 1);
        right += memcmp(buffer, pattern, SIZE) == 0;
        usleep(2000);
    }
    printf("right: %d\n", right == ROUNDS);
    return 0;
}
