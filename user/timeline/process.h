/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PROCESS_H
#define BEAMWEAVE_PROCESS_H

/*
 * When each Erlang process ran. Run intervals of one process alternate with what lies between them
 * and never overlap, although the raw events do not always pair up:
 *
 * - a second `in` ends the first run; a second `out` (dirty I/O) ends nothing;
 * - an `in` of another process on the same thread ends a run whose `out` was lost;
 * - a loss of run events ends the run on that thread where the loss begins;
 * - after `exit` a run ends with the exiting kinds, or, where those are not traced, at the exit.
 *
 * Between runs a process is runnable or waiting. No event tells which, so:
 *
 * 1. a message that was sent to it and not fetched makes it runnable from the `out`;
 * 2. else the first message sent to it (or its spawn) makes it runnable from then on;
 * 3. else it was preempted, and so runnable all along, when it had run PREEMPTED_RUN_NS or more and
 *    its scheduler executed other work without a pause until it ran again, and no timeout follows;
 * 4. else it waited (for a timer, a signal, or a message that was not traced).
 */

#include "map.h"
#include "timeline.h"

/* A shorter run has not used up its reductions. */
#define PREEMPTED_RUN_NS 200000
/* From one process's `out` to the next one's `in` on a scheduler that has work. */
#define SCHEDULER_PAUSE_NS 50000
/* How soon after its `in` a process that a timer woke says so; a later one may be of `after 0`. */
#define TIMEOUT_SOON_NS 20000

enum process_phase {
	PROCESS_UNSEEN = 0, /* no event has told whether it runs */
	PROCESS_ON = 1,
	PROCESS_OFF = 2,
	PROCESS_GONE = 3,
};

struct call_stack;
struct mailbox;

struct process {
	struct process_totals totals;
	bool port;
	enum process_phase phase;
	uint64_t since_ns; /* of the phase */
	uint64_t woken_ns; /* OFF: runnable since, 0 unknown */
	struct run_interval run; /* ON: the run; OFF: the one before */
	uint32_t run_ring;
	uint64_t guessed_ns; /* ON: runnable time before the run by rule 3 */
	uint64_t queued; /* messages sent to it and not fetched */
	uint64_t last_sent_ns, last_fetched_ns; /* messages to it */
	struct call_stack *calls; /* call.c */
	struct mailbox *mailbox; /* message.c */
	/* gc.c: the collection in progress */
	struct gc_interval gc;
	bool gc_running;
};

/* A thread of the VM as its run events show it. */
struct vm_thread {
	int32_t tid;
	struct process *process,
		*port; /* what it executes; a port may run inside a process's run */
	uint64_t last_out_ns; /* it has executed nothing since */
	uint64_t busy_since_ns; /* it has executed something since, but for short pauses */
};

struct processes {
	struct map map; /* word -> struct process */
	struct process **all;
	size_t count, capacity;
	struct map rings; /* ring -> struct vm_thread */
	/* A run has ended. */
	void (*ended)(void *context, struct process *process, const struct run_interval *run);
	void *context;
	struct process_totals *totals; /* made by processes_totals() */
	size_t totals_count;
};

void processes_free(struct processes *processes);

/* A pid word and a port word differ in their tag. */
static inline bool process_word_is_port(uint64_t word)
{
	return (word & 0xf) == 0x7;
}

/* The process of a word; made when it is new. NULL: ENOMEM. */
struct process *process_get(struct processes *processes, uint64_t word, uint64_t ts_ns);
struct vm_thread *process_ring(struct processes *processes, uint32_t ring, int32_t tid);

/* It is executed by a thread from now on; mfa RING_NO_INDEX unknown. */
void process_in(struct processes *processes, struct process *process, struct vm_thread *thread,
		const struct event *event, uint32_t mfa);
/* Not any more. */
void process_out(struct processes *processes, struct process *process, struct vm_thread *thread,
		 const struct event *event, uint32_t mfa);
/* A message was sent to it; one from a port may be the answer to a call, which waits in no queue. */
void process_sent(struct process *process, uint64_t ts_ns, bool by_port);
/* A timeout of its `receive` has fired: where it just came on, it had waited for that. */
void process_timed_out(struct process *process, uint64_t ts_ns);
/* `child` is a new process, ready to run; an old one of the same word is over. NULL: ENOMEM. */
struct process *process_spawn(struct processes *processes, uint64_t child, uint64_t parent,
			      uint32_t initial, uint64_t ts_ns);
void process_exit(struct processes *processes, struct process *process, uint64_t ts_ns);
/* Its word is given out again: a run that goes on ends. */
void process_retire(struct processes *processes, struct process *process, uint64_t ts_ns);
/* Records of a VM thread's ring are missing from here on. */
void process_loss(struct processes *processes, const struct loss *loss);

/* Are events of one of these ring kinds missing, or may they be: the loss names no kind at all? */
bool loss_may_hold(const struct loss *loss, const uint8_t *kinds, size_t count);

/* Ends every run. */
void processes_finish(struct processes *processes, uint64_t end_ns);
/* The totals of the processes (no ports), sorted by word, after the end. Returns 0 or -ENOMEM. */
int processes_totals(struct processes *processes);

#endif
