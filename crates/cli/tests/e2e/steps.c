/*
 * Counts the calls by which a program changes what is outside of it, and ends the program before
 * the STEP-th, or lets that one fail if FAULT is "shortage", and all that follow, too, if it is
 * "lasting-shortage": as on a full disk, or where there may be no further process. If it is
 * "interrupt", the program gets a SIGINT there. The number of calls so far is the size of the file
 * COUNT. Children that execute another program are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static atomic_long steps;
static long last;
static int fails, lasts, interrupts;
static pid_t self;
static int count = -1;

__attribute__((constructor)) static void begin(void)
{
	const char *step = getenv("STEP"), *fault = getenv("FAULT"), *file = getenv("COUNT");

	if (!step || !file)
		return;
	last = atol(step);
	lasts = fault && !strcmp(fault, "lasting-shortage");
	interrupts = fault && !strcmp(fault, "interrupt");
	fails = lasts || (fault && !strcmp(fault, "shortage"));
	count = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	self = getpid();
	unsetenv("LD_PRELOAD");
	unsetenv("STEP");
}

/* Returns 1 if this call is to fail. */
static int step(int can_fail)
{
	int saved = errno;
	long now;

	if (!self || getpid() != self)
		return 0;
	now = atomic_fetch_add(&steps, 1) + 1;
	syscall(SYS_ftruncate, count, now);
	errno = saved;
	if (now != last && !(lasts && now > last))
		return 0;
	if (fails) {
		errno = ENOSPC;
		return can_fail;
	}
	kill(self, interrupts ? SIGINT : SIGKILL);
	if (interrupts)
		return 0;
	for (;;)
		pause();
}

/*
 * Only files can be on a full disk. The kernel's own ones can fail, too, but not forever: a frozen
 * group that cannot be thawed holds its jobs, whatever the program does.
 */
static int is_file(int fd)
{
	struct stat status;
	struct statfs system;

	if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		return 0;
	return !lasts || fstatfs(fd, &system) ||
	       (system.f_type != CGROUP2_SUPER_MAGIC && system.f_type != CGROUP_SUPER_MAGIC);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define STEP(result, name, can_fail, parameters, arguments)                                        \
	result name parameters                                                                     \
	{                                                                                          \
		static __typeof__(&name) real;                                                     \
		if (!real)                                                                         \
			real = REAL(name);                                                         \
		return step(can_fail) ? -1 : real arguments;                                       \
	}

STEP(ssize_t, write, is_file(fd), (int fd, const void *from, size_t size), (fd, from, size))
STEP(ssize_t, pwrite64, is_file(fd), (int fd, const void *from, size_t size, off64_t at),
     (fd, from, size, at))
STEP(int, fsync, is_file(fd), (int fd), (fd))
STEP(int, fdatasync, is_file(fd), (int fd), (fd))
STEP(int, ftruncate64, is_file(fd), (int fd, off64_t size), (fd, size))
STEP(int, link, 1, (const char *from, const char *to), (from, to))
STEP(int, linkat, 1, (int a, const char *from, int b, const char *to, int flags),
     (a, from, b, to, flags))
STEP(int, rename, 1, (const char *from, const char *to), (from, to))
STEP(int, mkdir, 1, (const char *path, mode_t mode), (path, mode))
STEP(int, rmdir, 0, (const char *path), (path))
STEP(int, unlink, 0, (const char *path), (path))
STEP(int, unlinkat, 0, (int fd, const char *path, int flags), (fd, path, flags))
STEP(int, chmod, 0, (const char *path, mode_t mode), (path, mode))
STEP(int, fchmod, 0, (int fd, mode_t mode), (fd, mode))
STEP(int, fchown, 0, (int fd, uid_t user, gid_t group), (fd, user, group))
STEP(int, bind, 0, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size))
STEP(ssize_t, send, 0, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags))

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *attributes, char *const arguments[], char *const variables[])
{
	static __typeof__(&posix_spawnp) real;

	if (!real)
		real = REAL(posix_spawnp);
	return step(1) ? EAGAIN : real(pid, file, actions, attributes, arguments, variables);
}

int open64(const char *path, int flags, ...)
{
	static __typeof__(&open64) real;
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = va_arg(rest, mode_t);
	va_end(rest);
	if (!real)
		real = REAL(open64);
	/* A file that exists is opened on a full disk, too. */
	return (flags & O_CREAT) && step(access(path, F_OK)) ? -1 : real(path, flags, mode);
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	va_list rest;
	long a, b, c, d, e, f;

	va_start(rest, number);
	a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
	d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
	va_end(rest);
	if (!real)
		real = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_pidfd_send_signal)
		step(0);
	if ((number == SYS_clone3 || number == SYS_clone) && step(1)) {
		errno = EAGAIN;
		return -1;
	}
	return real(number, a, b, c, d, e, f);
}
