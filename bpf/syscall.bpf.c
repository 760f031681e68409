/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Every system call of the target's threads, one record at its end. A call that is still open when the
 * recording ends, and one that never returns (exit, a killed thread's), has none.
 */

#include "output.bpf.h"

struct open_call {
	u64 enter_ns;
	u64 args[6];
	s32 number;
	u32 reserved;
};

/* By tid in the initial pid namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct open_call);
} open_calls SEC(".maps");

SEC("raw_tp/sys_enter")
int syscall_enter(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	u64 id = bpf_get_current_pid_tgid();
	struct open_call call = {};
	u32 tid = (u32)id;

	if (!target_has(id >> 32))
		return 0;
	call.enter_ns = bpf_ktime_get_ns();
	call.number = (s32)ctx[1];
#if defined(__TARGET_ARCH_x86)
	call.args[0] = BPF_CORE_READ(regs, di);
	call.args[1] = BPF_CORE_READ(regs, si);
	call.args[2] = BPF_CORE_READ(regs, dx);
	call.args[3] = BPF_CORE_READ(regs, r10);
	call.args[4] = BPF_CORE_READ(regs, r8);
	call.args[5] = BPF_CORE_READ(regs, r9);
#else
	bpf_core_read(call.args, sizeof(call.args), &regs->regs);
	call.args[0] = BPF_CORE_READ(regs, orig_x0);
#endif
	if (bpf_map_update_elem(&open_calls, &tid, &call, BPF_ANY))
		record_lose(call.enter_ns, PROBE_SYSCALL);
	return 0;
}

SEC("raw_tp/sys_exit")
int syscall_exit(u64 *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	struct probe_syscall *record;
	struct open_call *call;
	u32 tid = (u32)id;

	if (!target_has(id >> 32))
		return 0;
	/* none: it was entered before the recording began */
	call = bpf_map_lookup_elem(&open_calls, &tid);
	if (!call)
		return 0;
	record = record_reserve(bpf_ktime_get_ns(), PROBE_SYSCALL, sizeof(*record));
	if (record) {
		record->enter_ns = call->enter_ns;
		record->tid = tid;
		record->number = call->number;
		record->result = (s64)ctx[1];
		__builtin_memcpy(record->args, call->args, sizeof(record->args));
		record_commit(record);
	}
	bpf_map_delete_elem(&open_calls, &tid);
	return 0;
}

/* The call in which a thread ends never returns. */
SEC("raw_tp/sched_process_exit")
int syscall_thread_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tid = BPF_CORE_READ(task, pid);

	bpf_map_delete_elem(&open_calls, &tid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
