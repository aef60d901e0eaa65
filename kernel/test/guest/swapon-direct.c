// SPDX-License-Identifier: GPL-2.0
/*
 * swapon(8) for direct read: swapon-direct DEVICE
 */
#include "check.h"
#include <sys/swap.h>

#define SWAP_FLAG_DIRECT_READ 0x80000

int main(int argc, char **argv)
{
	if (argc != 2)
		die("usage: swapon-direct DEVICE");
	if (swapon(argv[1], SWAP_FLAG_DIRECT_READ))
		die(argv[1]);
	return 0;
}
