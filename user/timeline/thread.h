/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_THREAD_H
#define BEAMWEAVE_THREAD_H

/*
 * What each thread of the target did, from the kernel's switches and wakings: intervals without gaps
 * from the thread's begin (or the recording's start) to its exit (or the recording's end).
 *
 * - Off the CPU by prev_state: 0 or 0x100 runnable, S and idle (0x80) sleeping, T and t stopped,
 *   everything else blocked. A waking makes it runnable.
 * - The waking of a thread that is seen running may belong to the sleep that it is just beginning:
 *   the waker traces before the sleeper's switch does. A sleep that ends without a waking and
 *   follows such a waking closely was none: it was runnable all along.
 * - A lost waking costs only the time from it to the next switch. Where a switch has no record, the
 *   time that the thread has run (probe_switch.ran_ns) tells when it came.
 * - Who had the CPU for which a runnable thread waits: wait.h.
 * - Over a loss of a CPU's records nothing is known of threads that were not seen running on
 *   another CPU. After it, the next event tells what the thread was in since the loss ended.
 */

#include "map.h"
#include "timeline.h"
#include "wait.h"

struct thread {
	struct thread_totals totals;
	struct thread_interval now; /* the interval that is not over; end_ns unset */
	uint64_t waking_ns; /* of a waking that found it running, 0 none */
	bool lost; /* unknown because of a loss */
	bool known; /* an event has told its state */
	/* What the VM shows of it. */
	bool vm_seen, vm_busy;
	uint64_t vm_process;
	uint64_t worked_ns; /* up to here working time is added up */
	uint64_t vm_base_ns; /* running time before the VM showed anything */
	struct wait wait; /* while it is runnable */
};

/* An interval has ended; `thread` as it is now, `interval` with the process known from either side. */
typedef void (*thread_ended_fn)(void *context, const struct thread *thread,
				const struct thread_interval *interval);

struct threads {
	struct map map; /* tid -> struct thread, the newest of each number */
	struct thread **all;
	size_t count, capacity;
	uint64_t start_ns, end_ns; /* everything is cut at these */
	uint64_t *lost_until_ns; /* by CPU */
	size_t lost_cpus;
	uint64_t lost_until_max_ns;
	struct waits waits;
	thread_ended_fn ended;
	void *context;
};

void threads_init(struct threads *threads, uint64_t start_ns, uint64_t end_ns,
		  thread_ended_fn ended, void *context);
void threads_free(struct threads *threads);

/* A thread that exists from `ts_ns` on in an unknown state; the one with this tid, if any. NULL: ENOMEM. */
struct thread *threads_get(struct threads *threads, int32_t tid, uint64_t ts_ns);
/* Role and number as the VM tells them. */
int threads_role(struct threads *threads, int32_t tid, uint32_t role, uint32_t number);
/* The name that a list of tasks gives. */
void threads_name(struct thread *thread, const char comm[16]);

/* The threads that a recording lists, with their states at its start and their roles. 0 or -ENOMEM. */
int threads_known(struct threads *threads, const struct trace *trace);

/* Each returns 0 or -ENOMEM. */
int threads_switch(struct threads *threads, const struct event *event);
int threads_waking(struct threads *threads, const struct event *event);
int threads_migrate(struct threads *threads, const struct event *event);
int threads_fork(struct threads *threads, const struct event *event);
int threads_exec(struct threads *threads, const struct event *event);
int threads_loss(struct threads *threads, const struct loss *loss);
/* The VM shows that a thread executes a process (0 none), or a port or a process (busy). */
int threads_vm(struct threads *threads, int32_t tid, uint64_t process, bool busy, uint64_t ts_ns);
/* How long a thread has run up to now; 0 for an unknown one. */
uint64_t threads_running_ns(const struct threads *threads, int32_t tid, uint64_t ts_ns);

/* Ends every interval at end_ns. */
void threads_finish(struct threads *threads);
/* The totals of all threads, sorted by tid; the caller frees them. NULL: ENOMEM. */
struct thread_totals *threads_totals(const struct threads *threads);

#endif
