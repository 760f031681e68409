/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the scheduler does with the target's threads. */

#include "output.bpf.h"
#include "vm.bpf.h"
#include "waiters.bpf.h"

#include <bpf/bpf_tracing.h>

const volatile bool switch_has_state = true; /* the tracepoint's fourth argument, 5.18 */
const volatile bool throttled_by_queue = false; /* do not use task_struct.throttled, 6.18 */
const volatile __u32 registers_way = PROBE_REGISTERS_NONE;
const volatile __u32 stack_top_bytes =
	16384; /* from task_struct.stack to the end of the registers */

/* Set while running. */
bool follow = false;

/* The loading process looks for itself in a call that it knows; see kernel_check.c. */
char check_comm[PROBE_COMM] = {};
struct probe_check check = {};

/* Bits of task_struct.__state, the same since 4.14 (include/linux/sched.h). */
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_REPORT	     0x7f
#define TASK_REPORT_IDLE     0x80
#define TASK_REPORT_MAX	     0x100
#define TASK_IDLE	     0x402
#define TASK_RTLOCK_WAIT     0x1000
#define TASK_FROZEN	     0x8000

/* Threads of the kernel and of io_uring have no registers of user space. */
#define PF_IO_WORKER   0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD     0x00200000

/*
 * A typed program (tp_btf) reads a task or registers directly, an untyped one (raw_tp) through a
 * helper: the condition is a constant wherever this is used.
 */
#define KERNEL_READ(typed, task, field) ((typed) ? (task)->field : BPF_CORE_READ(task, field))

/* Two of these byte by byte, without the helper's call, made a switch 100 ns cheaper (of 470). */
static __always_inline void comm_read(char *to, struct task_struct *task, const bool typed)
{
	u32 i;

	if (!typed) {
		bpf_probe_read_kernel(to, PROBE_COMM, &task->comm);
		return;
	}
#pragma unroll
	for (i = 0; i < PROBE_COMM; i++)
		to[i] = task->comm[i];
}

/* The helper that gives the current task typed came with 5.11. */
static __always_inline void comm_read_current(char *to, const bool typed)
{
	if (typed && bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf))
		comm_read(to, (void *)bpf_get_current_task_btf(), true);
	else
		bpf_get_current_comm(to, PROBE_COMM);
}

static __always_inline s32 task_cpu(struct task_struct *task, const bool typed)
{
	struct task_struct___cpu *old = (void *)task;

	if (bpf_core_field_exists(task->thread_info.cpu))
		return KERNEL_READ(typed, task, thread_info.cpu);
	if (bpf_core_field_exists(old->cpu))
		return BPF_CORE_READ(old, cpu);
	return -1;
}

/* As the tracepoint's text has it: __trace_sched_switch_state() of include/trace/events/sched.h. */
static __always_inline u32 state_report(bool preempt, u32 state, u32 exit_state)
{
	u32 bits = (state | exit_state) & TASK_REPORT;

	if (preempt)
		return TASK_REPORT_MAX;
	if ((state & TASK_IDLE) == TASK_IDLE)
		return TASK_REPORT_IDLE;
	if (state & (TASK_RTLOCK_WAIT | TASK_FROZEN))
		return TASK_UNINTERRUPTIBLE;
	/* the highest bit alone */
	bits |= bits >> 1;
	bits |= bits >> 2;
	bits |= bits >> 4;
	return bits ^ (bits >> 1);
}

static __always_inline u32 state_now(struct task_struct *task, const bool typed)
{
	struct task_struct___state *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return KERNEL_READ(typed, task, __state);
	return BPF_CORE_READ(old, state);
}

/* `runnable`: it did not leave by itself. The queue's count alone would also be true of sleepers. */
static __always_inline u32 throttle_flags(struct task_struct *task, bool runnable, const bool typed)
{
	bool throttled;

	if (bpf_core_field_exists(task->throttled) && !throttled_by_queue)
		throttled = KERNEL_READ(typed, task, throttled);
	else if (bpf_core_field_exists(task->se.cfs_rq->throttle_count))
		throttled = runnable && BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
	else
		return 0;
	return PROBE_THROTTLE_KNOWN | (throttled ? PROBE_THROTTLED : 0);
}

static __always_inline u32 ran_read(struct task_struct *task, const bool typed)
{
	u64 ran_ns = KERNEL_READ(typed, task, se.sum_exec_runtime) -
		     KERNEL_READ(typed, task, se.prev_sum_exec_runtime);

	return ran_ns > 0xffffffff ? 0xffffffff : ran_ns;
}

/* false: these registers are of 32-bit code, which has other system calls. */
static __always_inline bool registers_read(struct pt_regs *regs, const bool typed, s32 *number,
					   u64 *arg)
{
#if defined(__TARGET_ARCH_x86)
	/* __USER_CS */
	if (KERNEL_READ(typed, regs, cs) != 0x33)
		return false;
	*number = KERNEL_READ(typed, regs, orig_ax);
	*arg = KERNEL_READ(typed, regs, di);
#else
	/* PSR_MODE32_BIT */
	if (KERNEL_READ(typed, regs, pstate) & 0x10)
		return false;
	*number = KERNEL_READ(typed, regs, syscallno);
	*arg = KERNEL_READ(typed, regs, orig_x0);
#endif
	if (*number < 0) {
		*number = -1;
		*arg = 0;
	}
	return true;
}

/* The system call in which `task` is; false: cannot be told. Number -1: it is in none. */
static __always_inline bool syscall_read(struct task_struct *task, const bool typed, s32 *number,
					 u64 *arg)
{
	if (KERNEL_READ(typed, task, flags) & (PF_IO_WORKER | PF_USER_WORKER | PF_KTHREAD))
		return true;
	if (typed && registers_way == PROBE_REGISTERS_HELPER)
		return registers_read((void *)bpf_task_pt_regs(task), true, number, arg);
	if (registers_way == PROBE_REGISTERS_COMPUTED)
		return registers_read(KERNEL_READ(typed, task, stack) + stack_top_bytes -
					      bpf_core_type_size(struct pt_regs),
				      false, number, arg);
	return false;
}

static __always_inline int switch_record(bool preempt, struct task_struct *prev,
					 struct task_struct *next, u32 state, const bool typed)
{
	/* the task that leaves is still the current one */
	u64 id = bpf_get_current_pid_tgid();
	s32 next_tgid = KERNEL_READ(typed, next, tgid);
	u32 next_tid = KERNEL_READ(typed, next, pid), prev_state;
	struct probe_switch *record;
	u32 flags = 0;
	u64 ts_ns;

	if (target_has(id >> 32))
		flags |= PROBE_PREV_TARGET;
	if (target_has(next_tgid))
		flags |= PROBE_NEXT_TARGET;
	prev_state = state_report(preempt, state, KERNEL_READ(typed, prev, exit_state));
	if (!switch_waiters(flags, (u32)id,
			    flags & PROBE_PREV_TARGET && !(prev_state & ~TASK_REPORT_MAX),
			    next_tid) &&
	    !flags)
		return 0;
	ts_ns = bpf_ktime_get_ns();
	record = record_reserve(ts_ns, PROBE_SWITCH, sizeof(*record));
	if (!record)
		return 0;
	record->prev_tid = (u32)id;
	record->prev_tgid = id >> 32;
	record->next_tid = next_tid;
	record->next_tgid = next_tgid;
	record->prev_prio = KERNEL_READ(typed, prev, prio);
	record->next_prio = KERNEL_READ(typed, next, prio);
	record->prev_state = prev_state;
	record->syscall = -1;
	record->ran_ns = id ? ran_read(prev, typed) : 0;
	record->syscall_arg = 0;
	record->process = 0;
	comm_read(record->prev_comm, prev, typed);
	comm_read(record->next_comm, next, typed);
	if (flags & PROBE_PREV_TARGET) {
		flags |= throttle_flags(prev, !(prev_state & ~TASK_REPORT_MAX), typed);
		/* it blocks: S, D or idle */
		if (registers_way != PROBE_REGISTERS_NONE && (prev_state & 0x83) &&
		    syscall_read(prev, typed, &record->syscall, &record->syscall_arg))
			flags |= PROBE_SYSCALL_KNOWN;
		if (read_process)
			flags |= process_read((u32)id, &record->process);
	}
	record->flags = flags;
	record_commit(record);
	return 0;
}

static __always_inline int waking_record(struct task_struct *task, u32 kind, const bool typed)
{
	struct probe_waking *record;
	s32 cpu;
	u64 id;

	if (!target_has(KERNEL_READ(typed, task, tgid)))
		return 0;
	cpu = task_cpu(task, typed);
	/* where it will wait, unless it is migrated before it is queued */
	waiter_enter(KERNEL_READ(typed, task, pid), cpu);
	record = record_reserve(bpf_ktime_get_ns(), kind, sizeof(*record));
	if (!record)
		return 0;
	id = bpf_get_current_pid_tgid();
	record->tid = KERNEL_READ(typed, task, pid);
	record->waker_tid = (u32)id;
	record->waker_tgid = id >> 32;
	record->target_cpu = cpu;
	record->prio = KERNEL_READ(typed, task, prio);
	record->reserved = 0;
	comm_read_current(record->waker_comm, typed);
	comm_read(record->comm, task, typed);
	record_commit(record);
	return 0;
}

static __always_inline int task_record(struct task_struct *task, u32 kind, s32 parent_tid)
{
	struct probe_task *record;

	record = record_reserve(bpf_ktime_get_ns(), kind, sizeof(*record));
	if (!record)
		return 0;
	record->tid = BPF_CORE_READ(task, pid);
	record->tgid = BPF_CORE_READ(task, tgid);
	record->parent_tid = parent_tid;
	record->reserved = 0;
	comm_read(record->comm, task, false);
	record_commit(record);
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	u32 state = switch_has_state ? (u32)ctx[3] : state_now(prev, true);

	return switch_record(ctx[0], prev, (void *)ctx[2], state, true);
}

SEC("raw_tp/sched_switch")
int sched_switch_raw(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	u32 state = switch_has_state ? (u32)ctx[3] : state_now(prev, false);

	return switch_record((bool)ctx[0], prev, (void *)ctx[2], state, false);
}

SEC("tp_btf/sched_waking")
int sched_waking(u64 *ctx)
{
	return waking_record((void *)ctx[0], PROBE_WAKING, true);
}

SEC("raw_tp/sched_waking")
int sched_waking_raw(u64 *ctx)
{
	return waking_record((void *)ctx[0], PROBE_WAKING, false);
}

SEC("raw_tp/sched_wakeup_new")
int sched_wakeup_new(u64 *ctx)
{
	return waking_record((void *)ctx[0], PROBE_WAKEUP_NEW, false);
}

SEC("raw_tp/sched_migrate_task")
int sched_migrate_task(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct probe_migrate *record;
	s32 from_cpu;

	if (!target_has(BPF_CORE_READ(task, tgid)))
		return 0;
	from_cpu = task_cpu(task, false);
	waiter_leave(BPF_CORE_READ(task, pid), from_cpu);
	waiter_enter(BPF_CORE_READ(task, pid), ctx[1]);
	record = record_reserve(bpf_ktime_get_ns(), PROBE_MIGRATE, sizeof(*record));
	if (!record)
		return 0;
	record->tid = BPF_CORE_READ(task, pid);
	record->from_cpu = from_cpu;
	record->to_cpu = (s32)ctx[1];
	record->prio = BPF_CORE_READ(task, prio);
	record_commit(record);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int sched_process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 tgid = BPF_CORE_READ(parent, tgid);
	u32 child_tgid = BPF_CORE_READ(child, tgid);
	u32 one = 1;

	if (!target_has(tgid))
		return 0;
	if (child_tgid != tgid) {
		if (!follow)
			return 0;
		if (bpf_map_update_elem(&targets, &child_tgid, &one, BPF_ANY)) {
			record_lose(bpf_ktime_get_ns(), PROBE_FORK);
			return 0;
		}
	}
	return task_record(child, PROBE_FORK, BPF_CORE_READ(parent, pid));
}

SEC("raw_tp/sched_process_exec")
int sched_process_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	if (!target_has(BPF_CORE_READ(task, tgid)))
		return 0;
	return task_record(task, PROBE_EXEC, (s32)ctx[1]);
}

SEC("raw_tp/sched_process_exit")
int sched_process_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tid = BPF_CORE_READ(task, pid);

	if (!target_has(BPF_CORE_READ(task, tgid)))
		return 0;
	bpf_map_delete_elem(&threads, &tid);
	return task_record(task, PROBE_EXIT, BPF_CORE_READ(task, real_parent, tgid));
}

/* The leader is freed last, after every other thread's last switch, and before its number is reused. */
SEC("raw_tp/sched_process_free")
int sched_process_free(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = BPF_CORE_READ(task, tgid);

	if ((u32)BPF_CORE_READ(task, pid) == tgid)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

static __always_inline int switch_check(struct task_struct *prev, const bool typed)
{
	u64 id = bpf_get_current_pid_tgid();
	char comm[PROBE_COMM];
	s32 number = -1;
	u64 arg = 0;
	u32 i;

	bpf_get_current_comm(comm, sizeof(comm));
	for (i = 0; i < sizeof(comm); i++)
		if (comm[i] != check_comm[i])
			return 0;
	if (!(state_now(prev, typed) & 0x3) || !syscall_read(prev, typed, &number, &arg))
		return 0;
	check.number = number;
	check.arg = arg;
	check.tid = (u32)id;
	check.tgid = id >> 32;
	check.seen++;
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_check(u64 *ctx)
{
	return switch_check((void *)ctx[1], true);
}

SEC("raw_tp/sched_switch")
int sched_check_raw(u64 *ctx)
{
	return switch_check((void *)ctx[1], false);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
