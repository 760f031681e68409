/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_WAIT_H
#define BEAMWEAVE_WAIT_H

/*
 * Who had the CPU for which a thread waited, and for how long.
 *
 * While a thread of the target waits for a CPU, the kernel side records every switch on it. So each
 * switch tells who had it since the one before, or since the wait began. Where a task leaves that did not
 * come (an older kernel side, a switch without a record), the time between is told of nobody.
 */

#include <stdbool.h>

#include "timeline.h"

#define WAIT_CPUS_MAX 4096
#define WAIT_TASKS    8

struct wait_task {
	int32_t tid, tgid;
	char comm[PROBE_COMM]; /* the newest that was seen */
	uint64_t had_ns;
};

/* The wait of one thread. All zero: it does not wait. */
struct wait {
	struct wait *next, **link; /* the others that wait for the same CPU */
	int32_t tid, cpu;
	uint64_t told_ns; /* up to here it is known who had the CPU, or never will be */
	struct wait_task tasks[WAIT_TASKS];
	uint32_t count; /* different tasks; those for which there is no room count again each time */
	uint64_t idle_ns, other_ns; /* nobody; tasks for which there was no room */
};

struct wait_cpu {
	struct wait *first;
	struct wait_task on; /* since `last_ns` */
	uint64_t last_ns; /* of the newest switch; 0 none */
};

/* All zero: nobody waits. */
struct waits {
	struct wait_cpu *cpus;
	size_t count;
};

void waits_free(struct waits *waits);
/* A thread begins to wait; where the CPU is unknown, nothing is told of it. Returns 0 or -ENOMEM. */
int wait_begin(struct waits *waits, struct wait *wait, int32_t tid, int32_t cpu, uint64_t ts_ns);
/* It waits for another CPU from now on. One that does not wait is left alone. Returns 0 or -ENOMEM. */
int wait_move(struct waits *waits, struct wait *wait, int32_t cpu, uint64_t ts_ns);
/* It waits no more: fills in what the interval says of who had the CPU. */
void wait_end(struct waits *waits, struct wait *wait, uint64_t ts_ns,
	      struct thread_interval *interval);
/* Any switch on a CPU, before what it does to the two tasks. Returns 0 or -ENOMEM. */
int waits_switch(struct waits *waits, int32_t cpu, const struct probe_switch *record,
		 uint64_t ts_ns);
/* Records of a CPU are missing. */
void waits_lost(struct waits *waits, uint32_t cpu);

#endif
