/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's types, helpers and kfuncs that the scheduler uses, and no others. CO-RE relocates
 * the fields to those of the running kernel, so a structure here names only what is read.
 */
#ifndef MEMWEIR_KERNEL_H
#define MEMWEIR_KERNEL_H

typedef signed int s32;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

#define SEC(name) __attribute__((section(name), used))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))
#define __always_inline inline __attribute__((always_inline))

/* Attributes of a map, as libbpf reads them from BTF. */
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name

/* A load that the compiler neither repeats nor merges. */
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))

/* Hides a value's range from the compiler, which then keeps the check that the verifier wants. */
#define FORGET(x) asm volatile("" : "+r"(x))

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2 };
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_F_TIMER_ABS = 1 << 0 };
enum { CLOCK_MONOTONIC = 1 };

/* Opaque; in the value of a map. */
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

/* Numbers of helpers are part of the kernel's interface. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, u64 nsecs, u64 flags) = (void *)171;
static u64 (*const bpf_get_attach_cookie)(void *ctx) = (void *)174;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sched_ext_entity {
	u32 flags;
	u64 slice;
};

/* Only pointers to it are passed on; the kernel's one is longer. */
struct cpumask {
	unsigned long bits[1];
};

struct task_struct {
	unsigned int flags;
	const struct cpumask *cpus_ptr;
	struct css_set *cgroups;
	struct sched_ext_entity scx;
};

enum scx_exit_kind { SCX_EXIT_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	const char *reason;
	char *msg;
};

#pragma clang attribute pop

/* Iterates over numbers; opaque. */
struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __weak __ksym;

extern struct cgroup *bpf_cgroup_ancestor(struct cgroup *group, int level) __ksym;
extern void bpf_cgroup_release(struct cgroup *group) __ksym;

/* The callbacks and settings that the scheduler fills in. libbpf matches them by their names. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*cpu_release)(s32 cpu, void *args);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

/* Flags of sched_ext_ops. */
enum {
	/* A task that would run on since no other can is handed to enqueue() instead. */
	SCX_OPS_ENQ_LAST = 1 << 1,
	/* Only tasks of the policy SCHED_EXT belong to the scheduler. */
	SCX_OPS_SWITCH_PARTIAL = 1 << 3,
};

/* Built-in dispatch queues: that of all CPUs, and that of the CPU at hand. */
#define SCX_DSQ_GLOBAL (1ULL << 63 | 1)
#define SCX_DSQ_LOCAL (1ULL << 63 | 2)

enum { SCX_ENQ_LAST_BIT = 41 };
enum { SCX_KICK_IDLE = 1 << 0, SCX_KICK_PREEMPT = 1 << 1 };
enum { SCX_TASK_QUEUED = 1 << 0 };
enum { PF_EXITING = 0x4 };

/* Nanoseconds. */
#define SCX_SLICE_DFL 20000000ULL

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				  bool *is_idle) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern u32 scx_bpf_nr_cpu_ids(void) __ksym;
extern u32 scx_bpf_reenqueue_local(void) __weak __ksym;

/* The same two steps under their names of 6.12, and of 6.13 and later. */
extern void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice,
			     u64 enq_flags) __weak __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice,
			       u64 enq_flags) __weak __ksym;
extern bool scx_bpf_consume(u64 dsq_id) __weak __ksym;
extern bool scx_bpf_dsq_move_to_local(u64 dsq_id) __weak __ksym;

static __always_inline void insert(struct task_struct *p, u64 dsq_id, u64 enq_flags)
{
	if (scx_bpf_dsq_insert)
		scx_bpf_dsq_insert(p, dsq_id, SCX_SLICE_DFL, enq_flags);
	else
		scx_bpf_dispatch(p, dsq_id, SCX_SLICE_DFL, enq_flags);
}

static __always_inline bool move_to_local(u64 dsq_id)
{
	if (scx_bpf_dsq_move_to_local)
		return scx_bpf_dsq_move_to_local(dsq_id);
	return scx_bpf_consume(dsq_id);
}

#endif
