/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of all test programs of the guests: checks that print one line each, counters of the
 * kernel, random numbers.
 */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096UL

static int check_failures;

/* Prints PASS or FAIL and the message, which should hold figures; the harness looks for FAIL. */
static inline void __attribute__((format(printf, 2, 3), unused))
check(bool ok, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("%s ", ok ? "PASS" : "FAIL");
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
	va_end(args);
	if (!ok)
		check_failures++;
}

/* For what must work before anything can be tested. */
static inline void __attribute__((noreturn, unused)) die(const char *what)
{
	printf("FAIL %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

/* A counter of /proc/vmstat; -1 where the kernel does not have it. */
static inline long __attribute__((unused)) vmstat(const char *name)
{
	FILE *file = fopen("/proc/vmstat", "r");
	char key[80];
	long value, found = -1;

	if (!file)
		die("/proc/vmstat");
	while (fscanf(file, "%79s %ld", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	fclose(file);
	return found;
}

/* The first number in a file; -1 where there is none. */
static inline long __attribute__((unused)) number_in(const char *path)
{
	FILE *file = fopen(path, "r");
	long value = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &value) != 1)
		value = -1;
	fclose(file);
	return value;
}

/* Writes a string to a file of the kernel; false if it was refused. */
static inline bool __attribute__((unused)) put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t wrote = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return wrote == (ssize_t)strlen(text);
}

/* xorshift64: each thread seeds its own. */
static inline uint64_t __attribute__((unused)) next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The program's last line and exit status. */
static inline int __attribute__((unused)) check_result(void)
{
	printf("RESULT %d failures\n", check_failures);
	return check_failures != 0;
}

#endif
