/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of budgets, which each period pays off. Numbers of periods have 32 bits, so that they
 * wrap every 49.7 days.
 */
#ifndef MEMWEIR_PERIODS_H
#define MEMWEIR_PERIODS_H

/* The most periods by which the clock of a CPU may be behind that of another. */
#define MAX_LATE 1000

/*
 * Returns the periods that have passed since `used` was written. A CPU whose clock is late counts
 * in the newer period. Any larger distance is time that has passed: an account may lie idle for
 * weeks, and a new one was written in period 0.
 */
static __always_inline u32 elapsed_since(u64 used, u32 period)
{
	u32 elapsed = period - (u32)(used >> 32);

	return elapsed >= (u32)-MAX_LATE ? 0 : elapsed;
}

/* Returns what counts of `used` in a period. Each period since then has paid `limit` of it. */
static __always_inline u32 used_in(u64 used, u32 limit, u32 period)
{
	u64 lines = (u32)used, paid = (u64)elapsed_since(used, period) * limit;

	return lines > paid ? lines - paid : 0;
}

#endif
