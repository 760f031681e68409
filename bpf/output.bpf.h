/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef BEAMWEAVE_OUTPUT_BPF_H
#define BEAMWEAVE_OUTPUT_BPF_H

/*
 * What every kernel program shares: who is watched, a ring per CPU, and the counts. The maps are made
 * once by user space, which lays them under the declarations of each object.
 */

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "probes.h"

#define TARGETS_MAX 16384

/* tgid in the initial pid namespace; the value is not used. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TARGETS_MAX);
	__type(key, u32);
	__type(value, u32);
} targets SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* By CPU. One that came on line after the start has no ring: its records count as discarded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct probe_counts);
} counts SEC(".maps");

static __always_inline bool target_has(u32 tgid)
{
	/* 0 is the idle task: no lookup for the commonest of all switches */
	return tgid && bpf_map_lookup_elem(&targets, &tgid);
}

static __always_inline struct probe_counts *counts_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

/* The counters are added to atomically: an interrupt may bring another program of the same kind. */
static __always_inline void record_discard(struct probe_counts *here, u64 ts_ns, u32 kind)
{
	__sync_fetch_and_add(&here->discarded[kind], 1);
	if (!here->loss_first_ns)
		here->loss_first_ns = ts_ns;
	here->loss_last_ns = ts_ns;
}

/* A record that could not even be begun. */
static __always_inline void record_lose(u64 ts_ns, u32 kind)
{
	struct probe_counts *here = counts_here();

	if (!here)
		return;
	__sync_fetch_and_add(&here->generated[kind], 1);
	record_discard(here, ts_ns, kind);
}

/* Room in this CPU's ring with the header filled in, or NULL: then it is counted. */
static __always_inline void *record_reserve(u64 ts_ns, u32 kind, const u32 bytes)
{
	struct probe_counts *here = counts_here();
	u32 cpu = bpf_get_smp_processor_id();
	struct probe_header *record = NULL;
	void *ring;

	if (!here)
		return NULL;
	__sync_fetch_and_add(&here->generated[kind], 1);
	ring = bpf_map_lookup_elem(&rings, &cpu);
	if (ring)
		record = bpf_ringbuf_reserve(ring, bytes, 0);
	if (!record) {
		record_discard(here, ts_ns, kind);
		return NULL;
	}
	record->ts_ns = ts_ns;
	record->kind = kind;
	record->bytes = bytes;
	record->cpu = cpu;
	record->reserved = 0;
	return record;
}

/* User space polls at its own pace: a wake-up here would cost more than the record. */
static __always_inline void record_commit(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

#endif
