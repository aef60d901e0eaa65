// SPDX-License-Identifier: GPL-2.0
/*
 * Does an instruction whose store faults begin again with the flags that it had? Exit status 0 if
 * so. QEMU 7.2 without KVM gives `setg` other flags after `test`, on any kernel, so that a program
 * may take another way whenever a page that it can read is not yet its own to write; in 10.0 it is
 * mended.
 */
#include "color.h"

static char *page;

static void let_write(int number)
{
	(void)number;
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		_exit(2);
}

int main(void)
{
	int wrong = 0;

	page = map_memory(PAGE);
	if (signal(SIGSEGV, let_write) == SIG_ERR)
		die("signal");
	for (int i = -500; i < 500; i++) {
		*(volatile char *)page = 7;
		if (mprotect(page, PAGE, PROT_READ))
			die("mprotect");
		asm volatile("test %0, %0; setg (%1)" : : "r"(i), "r"(page) : "memory", "cc");
		wrong += *(volatile char *)page != (i > 0);
	}
	printf("setg was wrong %d times in 1000\n", wrong);
	return wrong != 0;
}
