/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holds and releases jobs without freezing them.
 *
 * Only tasks of the policy SCHED_EXT belong to this scheduler. Each job has a slot; a slot has a
 * dispatch queue, in which the job's runnable tasks wait in order. CPUs take tasks from the queues
 * of selected slots alone. User space writes a selection into shared memory, makes it the active
 * one by a store, and calls kick(), so that tasks of deselected jobs lose their CPUs and idle CPUs
 * look for tasks. Tasks that belong to no job run freely.
 *
 * A slot may have a budget: the lines that its job may draw from memory in each period. Counters of
 * the job's cgroup call charge() every few lines. Once the budget is used up, charge() takes the
 * CPUs from the job's tasks, which wait in their queue as if the slot was not selected, until
 * begin_period() makes idle CPUs look for them.
 */
#include "kernel.h"
#include "periods.h"

/* Slots; SLOTS in src/selection.rs. */
#define MAX_SLOTS 4096
/* Bytes of a text of struct shared. */
#define TEXT 256
/* Groups that a job's own groups may lie below each other. */
#define MAX_DEPTH 16
#define NO_SLOT (-1)
/* Length of a period in nanoseconds; PERIOD in src/budgets.rs. */
#define PERIOD_NS 1000000
/* Periods for which a job is held at most for what it has used beyond its budgets. */
#define MAX_DEBT 100
/* Attempts to charge a budget that other CPUs charge at the same time. */
#define CHARGE_ATTEMPTS 16

/* `Selection` in src/selection.rs. */
struct selection {
	u32 count;
	/* The selected slots, of which the first `count` are valid. */
	u16 slots[MAX_SLOTS];
	u8 is_selected[MAX_SLOTS];
};

/* `Shared` in src/selection.rs. */
struct shared {
	/* Index of the active selection; beyond the last, nothing is selected. */
	u32 active;
	/* Kind of the end, once the kernel has ended the scheduler; 0 until then. */
	u32 exit_kind;
	char exit_reason[TEXT];
	char exit_message[TEXT];
	struct selection selections[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct shared);
} shared SEC(".maps");

/* The slot of each job, by the id of its cgroup. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SLOTS);
	__type(key, u64);
	__type(value, u32);
} jobs SEC(".maps");

/* For each CPU 1 + the slot of the task that it runs, 0 if that has none. Sized by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} running_slots SEC(".maps");

/* `Account` in src/budgets.rs. */
struct budget {
	/* Lines that the job may use in a period; 0 if there is no limit. */
	u32 limit;
	/* The most that it has used in a period, debt included. */
	u32 most;
	/* Number of a period in the upper half, the lines that count in it in the lower. */
	u64 used;
	/* Lines that were counted. */
	u64 lines;
	/* Periods in which the budget was used up. */
	u64 exhausted;
};

/* The budget of each slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_SLOTS);
	__type(key, u32);
	__type(value, struct budget);
} budgets SEC(".maps");

struct period_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct period_timer);
} period_timer SEC(".maps");

/* 1 if a task was held by its budget since the last period began. */
u32 any_exhausted;

/* Position in the selection at which the next search for a task begins. Races only cost order. */
u32 cursor;

char _license[] SEC("license") = "GPL";

static __always_inline struct shared *shared_memory(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&shared, &zero);
}

static __always_inline struct selection *active_selection(void)
{
	struct shared *memory = shared_memory();
	u32 active;

	if (!memory)
		return NULL;
	active = READ_ONCE(memory->active);
	if (active == 0)
		return &memory->selections[0];
	if (active == 1)
		return &memory->selections[1];
	return NULL;
}

static __always_inline bool is_selected(s32 slot)
{
	struct selection *selection = active_selection();
	u32 index = slot;

	return selection && index < MAX_SLOTS && READ_ONCE(selection->is_selected[index]);
}

/* The slot of the job whose group is `group`. */
static __always_inline s32 slot_of_group(struct cgroup *group)
{
	u64 id = group->kn->id;
	u32 *slot = bpf_map_lookup_elem(&jobs, &id);

	return slot ? (s32)*slot : NO_SLOT;
}

/* A job may have made groups below its own. */
static __always_inline s32 slot_of_ancestor(struct cgroup *group)
{
	s32 level = group->level, slot = NO_SLOT;
	struct bpf_iter_num it;
	int *up;

	bpf_iter_num_new(&it, 1, MAX_DEPTH);
	while (slot == NO_SLOT && (up = bpf_iter_num_next(&it)) && *up < level) {
		struct cgroup *ancestor = bpf_cgroup_ancestor(group, level - *up);

		if (!ancestor)
			break;
		slot = slot_of_group(ancestor);
		bpf_cgroup_release(ancestor);
	}
	bpf_iter_num_destroy(&it);
	return slot;
}

static __always_inline s32 slot_of(struct task_struct *p)
{
	struct css_set *set = p->cgroups;
	struct cgroup *group;
	s32 slot;

	if (!set)
		return NO_SLOT;
	group = set->dfl_cgrp;
	if (!group)
		return NO_SLOT;
	slot = slot_of_group(group);
	if (slot == NO_SLOT)
		slot = slot_of_ancestor(group);
	return slot;
}

static __always_inline u32 this_period(void)
{
	return bpf_ktime_get_ns() / PERIOD_NS;
}

/* Returns true if a job's budget is used up, and has begin_period() wake the CPU that asks. */
static __always_inline bool is_exhausted(s32 slot)
{
	u32 index = slot;
	struct budget *budget = bpf_map_lookup_elem(&budgets, &index);
	u32 limit;

	if (!budget)
		return false;
	limit = READ_ONCE(budget->limit);
	if (!limit || used_in(READ_ONCE(budget->used), limit, this_period()) < limit)
		return false;
	WRITE_ONCE(any_exhausted, 1);
	return true;
}

static __always_inline bool may_run(s32 slot)
{
	return slot == NO_SLOT || (is_selected(slot) && !is_exhausted(slot));
}

static __always_inline void note_running(s32 slot)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 *running = bpf_map_lookup_elem(&running_slots, &cpu);

	/*
	 * An exchange is a full barrier: either kick() sees this slot, or the caller sees the
	 * selection that was made before kick() was called.
	 */
	if (running)
		__sync_lock_test_and_set(running, (u32)(slot + 1));
}

SEC("struct_ops/select_cpu")
s32 select_cpu(u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	s32 prev_cpu = (s32)ctx[1], cpu;
	u64 wake_flags = ctx[2];
	bool is_idle = false;

	if (!may_run(slot_of(p)))
		return prev_cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (is_idle)
		insert(p, SCX_DSQ_LOCAL, 0);
	return cpu;
}

SEC("struct_ops/enqueue")
void enqueue(u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	u64 enq_flags = ctx[1];
	s32 slot = slot_of(p), cpu;

	insert(p, slot == NO_SLOT ? SCX_DSQ_GLOBAL : (u64)slot, enq_flags);
	if (!may_run(slot))
		return;
	/* The CPU has looked for a task already, and found none. */
	if (enq_flags & (1ULL << SCX_ENQ_LAST_BIT)) {
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
		return;
	}
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Takes a task from the queue of a selected slot, each time beginning behind the last one. */
static __always_inline bool take_selected(void)
{
	struct selection *selection = active_selection();
	u32 count, begin;
	struct bpf_iter_num it;
	bool taken = false;
	int *step;

	if (!selection)
		return false;
	count = READ_ONCE(selection->count);
	if (!count || count > MAX_SLOTS)
		return false;
	begin = READ_ONCE(cursor);
	bpf_iter_num_new(&it, 0, count);
	while ((step = bpf_iter_num_next(&it))) {
		u32 at = (begin + (u32)*step) % count;
		u16 slot;

		FORGET(at);
		if (at >= MAX_SLOTS)
			break;
		slot = READ_ONCE(selection->slots[at]);
		if (!is_exhausted(slot) && move_to_local(slot)) {
			WRITE_ONCE(cursor, at + 1);
			taken = true;
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	return taken;
}

SEC("struct_ops/dispatch")
void dispatch(u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];

	if (take_selected())
		return;
	/* The task that was there before runs on. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && may_run(slot_of(prev)))
		prev->scx.slice = SCX_SLICE_DFL;
}

SEC("struct_ops/running")
void running(u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	s32 slot = slot_of(p);

	note_running(slot);
	/* Held since it left its queue. A task that exits is let do so. */
	if (!may_run(slot) && !(p->flags & PF_EXITING))
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
}

SEC("struct_ops/stopping")
void stopping(u64 *ctx)
{
	note_running(NO_SLOT);
}

/* Another class takes the CPU: tasks in its local queue go back to the queues of the slots. */
SEC("struct_ops/cpu_release")
void cpu_release(u64 *ctx)
{
	if (scx_bpf_reenqueue_local)
		scx_bpf_reenqueue_local();
}

/* Without these two, the kernel ends a scheduler when a CPU comes or goes. */
SEC("struct_ops/cpu_online")
void cpu_online(u64 *ctx)
{
}

SEC("struct_ops/cpu_offline")
void cpu_offline(u64 *ctx)
{
}

SEC("struct_ops.s/init")
s32 init(u64 *ctx)
{
	struct bpf_iter_num it;
	s32 error = 0;
	int *slot;

	bpf_iter_num_new(&it, 0, MAX_SLOTS);
	while ((slot = bpf_iter_num_next(&it))) {
		error = scx_bpf_create_dsq(*slot, -1);
		if (error)
			break;
	}
	bpf_iter_num_destroy(&it);
	return error;
}

SEC("struct_ops/exit")
void on_exit(u64 *ctx)
{
	struct scx_exit_info *info = (struct scx_exit_info *)ctx[0];
	struct shared *memory = shared_memory();

	if (!memory)
		return;
	bpf_probe_read_kernel_str(memory->exit_reason, TEXT, info->reason);
	bpf_probe_read_kernel_str(memory->exit_message, TEXT, info->msg);
	WRITE_ONCE(memory->exit_kind, info->kind);
}

/* Makes CPUs follow the active selection. */
SEC("syscall")
s32 kick(void *ctx)
{
	struct bpf_iter_num it;
	int *each;

	bpf_iter_num_new(&it, 0, scx_bpf_nr_cpu_ids());
	while ((each = bpf_iter_num_next(&it))) {
		u32 cpu = *each;
		u32 *running = bpf_map_lookup_elem(&running_slots, &cpu);
		u32 slot = running ? READ_ONCE(*running) : 0;

		if (slot && !is_selected((s32)slot - 1))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		else
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	bpf_iter_num_destroy(&it);
	return 0;
}

/* Adds lines to what a job has used in this period, and returns what that was before. */
static __always_inline u32 add_lines(struct budget *budget, u32 limit, u32 lines)
{
	u32 period = this_period();
	int attempt;

	for (attempt = 0; attempt < CHARGE_ATTEMPTS; attempt++) {
		u64 before = READ_ONCE(budget->used);
		u32 start = (before >> 32) + elapsed_since(before, period);
		u32 used = used_in(before, limit, period);
		u64 sum = (u64)used + lines, most = (u64)limit * MAX_DEBT;

		if (sum > most)
			sum = most;
		if (sum > 0xffffffff)
			sum = 0xffffffff;
		if (__sync_val_compare_and_swap(&budget->used, before, (u64)start << 32 | sum) !=
		    before)
			continue;
		/* A race costs a figure of the report. */
		if (sum > READ_ONCE(budget->most))
			WRITE_ONCE(budget->most, sum);
		return used;
	}
	return 0;
}

static __always_inline void preempt_slot(u32 cpu, u32 slot)
{
	u32 *running = bpf_map_lookup_elem(&running_slots, &cpu);

	if (running && READ_ONCE(*running) == slot + 1)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * A counter of a job's cgroup has counted some lines more; the cookie holds how many, and below
 * them the slot. Runs in an NMI where the counter is the processor's.
 */
SEC("perf_event")
int charge(void *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	u32 slot = (u32)cookie, lines = cookie >> 32, limit, used;
	struct budget *budget = bpf_map_lookup_elem(&budgets, &slot);
	struct bpf_iter_num it;
	int *cpu;

	if (!budget)
		return 0;
	__sync_fetch_and_add(&budget->lines, lines);
	limit = READ_ONCE(budget->limit);
	if (!limit)
		return 0;
	used = add_lines(budget, limit, lines);
	if ((u64)used + lines < limit)
		return 0;
	/* The kick of the CPU that has used up the budget is on its way. */
	if (used >= limit) {
		preempt_slot(bpf_get_smp_processor_id(), slot);
		return 0;
	}
	__sync_fetch_and_add(&budget->exhausted, 1);
	/*
	 * The exchange in add_lines() was a full barrier: a CPU whose slot is not seen here has
	 * seen the budget in running().
	 */
	bpf_iter_num_new(&it, 0, scx_bpf_nr_cpu_ids());
	while ((cpu = bpf_iter_num_next(&it)))
		preempt_slot(*cpu, slot);
	bpf_iter_num_destroy(&it);
	return 0;
}

/* Idle CPUs look for tasks of jobs that were held by their budgets. */
static int begin_period(void *map, u32 *key, struct period_timer *each)
{
	struct bpf_iter_num it;
	int *cpu;

	if (__sync_lock_test_and_set(&any_exhausted, 0)) {
		bpf_iter_num_new(&it, 0, scx_bpf_nr_cpu_ids());
		while ((cpu = bpf_iter_num_next(&it)))
			scx_bpf_kick_cpu(*cpu, SCX_KICK_IDLE);
		bpf_iter_num_destroy(&it);
	}
	bpf_timer_start(&each->timer, (bpf_ktime_get_ns() / PERIOD_NS + 1) * PERIOD_NS,
			BPF_F_TIMER_ABS);
	return 0;
}

/* Starts the timer of the periods, before the first job has a budget. */
SEC("syscall")
s32 start_periods(void *ctx)
{
	u32 zero = 0;
	struct period_timer *each = bpf_map_lookup_elem(&period_timer, &zero);
	s32 error;

	if (!each)
		return -1;
	error = bpf_timer_init(&each->timer, &period_timer, CLOCK_MONOTONIC);
	if (!error)
		error = bpf_timer_set_callback(&each->timer, begin_period);
	if (!error)
		error = bpf_timer_start(&each->timer, 0, 0);
	return error;
}

SEC(".struct_ops.link")
struct sched_ext_ops scheduler = {
	.select_cpu = (void *)select_cpu,
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.running = (void *)running,
	.stopping = (void *)stopping,
	.cpu_release = (void *)cpu_release,
	.cpu_online = (void *)cpu_online,
	.cpu_offline = (void *)cpu_offline,
	.init = (void *)init,
	.exit = (void *)on_exit,
	.flags = SCX_OPS_SWITCH_PARTIAL | SCX_OPS_ENQ_LAST,
	/* The longest that the kernel allows a runnable task to wait. */
	.timeout_ms = 30000,
	.name = "memweir",
};
