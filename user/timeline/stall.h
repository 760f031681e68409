/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_STALL_H
#define BEAMWEAVE_STALL_H

/*
 * Stalls: a scheduler thread that had work did not get on with it.
 *
 * - Off the CPU: runnable (throttled, preempted, woken but kept waiting), stopped, blocked, or asleep in a
 *   system call or a lock while it was executing a process. A thread that sleeps in futex, poll or
 *   epoll with no process is idle. A stop counts for idle normal schedulers too: input waited.
 * - On the CPU, normal schedulers only: a collection, or one process running for LONG_RUN_NS or more of
 *   CPU time without a collection.
 *
 * A stall shorter than the minimum is made only as a part of a burst: times off the CPU with the same
 * cause and culprit on one thread, each no more than BURST_GAP_NS after the one before and at least
 * an eighth of the minimum long, that add up to the minimum. Each is a stall of its own, and each is
 * known to have kept a process waiting. Times off the CPU during a collection or a long run are parts of
 * that stall (stall_nest.h).
 */

#include "process.h"
#include "stall_nest.h"
#include "thread.h"

#define LONG_RUN_NS  10000000ULL
#define BURST_GAP_NS 10000000ULL
#define BURST_SHARE  8
#define BURST_MAX    16

/* Short times off the CPU of one thread that may become a burst. */
struct stall_burst {
	struct stall held[BURST_MAX];
	uint32_t count;
	bool made; /* it is one: what comes is given out at once */
	uint64_t total_ns, last_ns;
	enum stall_cause cause;
	int32_t by_tgid;
};

/* What a thread and a process had used when the run that it executes began. */
struct stall_mark {
	uint64_t running_ns, gc_ns;
};

struct stalls {
	const struct timeline_sink *sink;
	uint64_t min_ns;
	struct map bursts; /* tid -> struct stall_burst */
	struct map runs; /* tid -> struct stall_mark */
	struct stall_nests nests;
};

void stalls_free(struct stalls *stalls);
/* An interval of a thread has ended. */
int stall_thread(struct stalls *stalls, const struct thread *thread,
		 const struct thread_interval *interval);
/* A process comes on, or a collection of it begins, on a thread. Each returns 0 or -ENOMEM. */
int stall_run_begins(struct stalls *stalls, const struct threads *threads,
		     const struct process *process, const struct event *event);
int stall_gc_begins(struct stalls *stalls, int32_t tid);
/* The run, or the collection, has ended. */
int stall_run(struct stalls *stalls, const struct threads *threads, const struct process *process,
	      const struct run_interval *run);
int stall_gc(struct stalls *stalls, const struct thread *thread, const struct gc_interval *gc,
	     uint32_t mfa);
/* Give out what is still held back. */
void stalls_finish(struct stalls *stalls);

#endif
