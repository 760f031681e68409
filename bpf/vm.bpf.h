/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef BEAMWEAVE_VM_BPF_H
#define BEAMWEAVE_VM_BPF_H

/*
 * What a scheduler thread executes, read from the VM's memory. Only of the current task. Nothing read
 * is relied on before it looks like what it should be.
 */

#include "output.bpf.h"

/* Tags of immediate terms, of erts/emulator/beam/erl_term.h: the same on OTP 25 to 29. */
#define TERM_TAG      0xf
#define TERM_TAG_PID  0x3
#define TERM_TAG_PORT 0x7

const volatile bool read_process = false;

/* Set while running. */
struct probe_vm vm_offsets = {};

/* By tid in the initial pid namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct probe_thread);
} threads SEC(".maps");

static __always_inline bool vm_read(u64 *to, u64 address)
{
	return !bpf_probe_read_user(to, sizeof(*to), (void *)address);
}

/*
 * Counted atomically: on one CPU a program of another tracepoint may interrupt this one between the
 * read and the write of a counter.
 *
 * The Erlang process that this thread was executing. Only for the current task.
 */
static __always_inline u32 process_read(u32 tid, u64 *word)
{
	struct probe_thread *thread;
	struct probe_counts *here;
	u64 process = 0;

	if (!vm_offsets.on)
		return 0;
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread || !thread->esdp)
		return 0;
	if (!vm_read(&process, thread->esdp + vm_offsets.esdp_current_process))
		goto failed;
	if (!process)
		return PROBE_PROCESS_KNOWN;
	if (!vm_read(word, process + vm_offsets.process_id))
		goto failed;
	if ((*word & TERM_TAG) == TERM_TAG_PID)
		return PROBE_PROCESS_KNOWN;
	*word = 0;
	here = counts_here();
	if (here)
		__sync_fetch_and_add(&here->process_mismatch, 1);
	return 0;
failed:
	here = counts_here();
	if (here)
		__sync_fetch_and_add(&here->process_read_failed, 1);
	return 0;
}

/* The word of the port that this thread executes, and of its owner; 0 each: none, or unknown. */
static __always_inline void port_read(u32 tid, u64 *word, u64 *owner)
{
	struct probe_thread *thread;
	u64 port = 0;

	*word = 0;
	*owner = 0;
	if (!vm_offsets.on || !vm_offsets.esdp_current_port)
		return;
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread || !thread->esdp ||
	    !vm_read(&port, thread->esdp + vm_offsets.esdp_current_port) || !port)
		return;
	/* the identity comes first in a port as in a process (ErtsPTabElementCommon) */
	if (!vm_read(word, port) || (*word & TERM_TAG) != TERM_TAG_PORT) {
		*word = 0;
		return;
	}
	if (vm_offsets.port_connected && vm_read(owner, port + vm_offsets.port_connected) &&
	    (*owner & TERM_TAG) != TERM_TAG_PID)
		*owner = 0;
}

#endif
