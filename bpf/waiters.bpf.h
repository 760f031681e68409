/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef BEAMWEAVE_WAITERS_BPF_H
#define BEAMWEAVE_WAITERS_BPF_H

/*
 * Threads of the target that wait for a CPU, by CPU: while there are some, it matters who has it. Changed
 * without a lock: by the CPU itself at a switch, by others when they wake or migrate a thread that is
 * not in its queue yet. Of two threads that are entered at the same moment one may be left out. None
 * stays for long after its time: it is taken out when it comes on or leaves here, and all when the
 * CPU has nothing to do.
 */

#include "output.bpf.h"

#define CPUS_MAX    1024 /* on those beyond it nobody is seen to wait */
#define WAITERS_MAX 8

struct waiters {
	union {
		u32 tids[WAITERS_MAX];
		u64 pairs[WAITERS_MAX / 2];
	};
	u64 padding[4]; /* to a cache line */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct waiters);
} waiting SEC(".maps");

static __always_inline void waiters_clear(struct waiters *waiters)
{
	u32 i;

#pragma unroll
	for (i = 0; i < WAITERS_MAX / 2; i++)
		waiters->pairs[i] = 0;
}

static __always_inline bool waiters_some(const struct waiters *waiters)
{
	return waiters->pairs[0] | waiters->pairs[1] | waiters->pairs[2] | waiters->pairs[3];
}

static __always_inline void waiters_remove(struct waiters *waiters, u32 tid)
{
	u32 i;

#pragma unroll
	for (i = 0; i < WAITERS_MAX; i++)
		if (waiters->tids[i] == tid)
			waiters->tids[i] = 0;
}

static __always_inline void waiters_add(struct waiters *waiters, u32 tid)
{
	u32 i;

	waiters_remove(waiters, tid);
#pragma unroll
	for (i = 0; i < WAITERS_MAX; i++) {
		if (!waiters->tids[i]) {
			waiters->tids[i] = tid;
			return;
		}
	}
}

static __always_inline void waiter_enter(u32 tid, s32 cpu)
{
	struct waiters *waiters = bpf_map_lookup_elem(&waiting, &cpu);

	if (waiters)
		waiters_add(waiters, tid);
}

static __always_inline void waiter_leave(u32 tid, s32 cpu)
{
	struct waiters *waiters = bpf_map_lookup_elem(&waiting, &cpu);

	if (waiters)
		waiters_remove(waiters, tid);
}

/* Who waits for this CPU after the switch. True: somebody did while `prev` was on. */
static __always_inline bool switch_waiters(u32 flags, u32 prev_tid, bool prev_waits, u32 next_tid)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct waiters *waiters = bpf_map_lookup_elem(&waiting, &cpu);

	if (!waiters || !(flags || waiters_some(waiters)))
		return false;
	if (!next_tid) {
		waiters_clear(waiters);
		return true;
	}
	waiters_remove(waiters, next_tid);
	if (prev_waits)
		waiters_add(waiters, prev_tid);
	else
		waiters_remove(waiters, prev_tid);
	return true;
}

#endif
