/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holds and releases jobs without freezing them.
 *
 * Only tasks of the policy SCHED_EXT belong to this scheduler. Each job has a slot; a slot has a
 * dispatch queue, in which the job's runnable tasks wait in order. CPUs take tasks from the queues
 * of selected slots alone. User space writes a selection into shared memory, makes it the active one
 * by a store, and calls kick(), so that tasks of deselected jobs lose their CPUs and idle CPUs look
 * for tasks. Tasks that belong to no job run freely.
 */
#include "kernel.h"

/* Slots; SLOTS in src/selection.rs. */
#define MAX_SLOTS 4096
/* Bytes of a text of struct shared. */
#define TEXT 256
/* Groups that a job's own groups may lie below each other. */
#define MAX_DEPTH 16
#define NO_SLOT (-1)

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

static __always_inline bool may_run(s32 slot)
{
	return slot == NO_SLOT || is_selected(slot);
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

		FORGET(at);
		if (at < MAX_SLOTS && move_to_local(READ_ONCE(selection->slots[at]))) {
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
	/* Deselected after it left its queue. A task that exits is let do so. */
	if (!may_run(slot) && !(p->flags & PF_EXITING))
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
}

SEC("struct_ops/stopping")
void stopping(u64 *ctx)
{
	note_running(NO_SLOT);
}

/* Another class takes the CPU: what waits in its local queue goes back to the queues of the slots. */
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
