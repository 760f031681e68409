/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PERFETTO_SCHED_H
#define BEAMWEAVE_PERFETTO_SCHED_H

/*
 * The kernel's scheduling as ftrace events, one stream a CPU: from these the viewer itself makes what
 * runs on each CPU and the states of each thread.
 */

#include "perfetto_packet.h"
#include "trace.h"

struct sched_cpu;
struct sched_task;

struct perfetto_sched {
	struct packets *packets;
	int64_t boot_offset_ns; /* ftrace events are stamped with CLOCK_BOOTTIME */
	struct sched_cpu *cpus; /* by number */
	uint32_t cpu_count;
	struct sched_task *tasks; /* by tid */
	int32_t target_tgid; /* 0 unknown */
	int error; /* the first one */
};

/* Write the tasks that exist at the start. */
void perfetto_sched_begin(struct perfetto_sched *sched, struct packets *packets,
			  struct trace *trace);
void perfetto_sched_free(struct perfetto_sched *sched);
/* Scheduler events; others are ignored. */
void perfetto_sched_event(struct perfetto_sched *sched, const struct event *event);
void perfetto_sched_loss(struct perfetto_sched *sched, const struct loss *loss);
/* Write out what is buffered. Returns 0 or the first error. */
int perfetto_sched_end(struct perfetto_sched *sched);

/* Is the name of a thread known? And its process: of an unknown one the target. */
bool perfetto_sched_knows(struct perfetto_sched *sched, int32_t tid);
int32_t perfetto_sched_tgid(struct perfetto_sched *sched, int32_t tid);

#endif
