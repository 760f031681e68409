/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CALL_H
#define BEAMWEAVE_CALL_H

/*
 * Calls and their ends, from `call` and `return_to` events that carry the depth of the process's stack:
 * no frame of ours on the stack, so tail calls stay tail calls.
 *
 * The VM pushes one return_to frame (F words) for a chain of calls: a call and the tail calls that
 * replace it. A chain begins at depth d0; its frame ends at depth L = d0 + F, and so deep is the
 * stack again when a tail call of the chain begins. Chains of a process nest as the stack does.
 *
 * - A call at depth d ends every chain with L > d: they are not on the stack any more. With the scan,
 *   which tells the depth of the nearest return_to frame below the call, also those above it.
 * - Where the top chain has L == d (and the scan agrees), it is a tail call in that chain, else it
 *   begins a chain with d0 = d.
 * - return_to at depth r ends every chain with d0 >= r - k; the one with d0 == r - k returned.
 * - What ended without an event of its own (an exception that was caught further down, where no frame
 *   is traced) is CALL_UNSEEN: its end is the event that shows it, an upper bound.
 * - With --capture return there are no return_to frames but those of return_trace, one for each call, tail
 *   calls too: return_from and exception_from name the end of each, and a tail call nests in its caller.
 * - Without depths (a trace port, an unknown VM) an end is certain only when return_from or exception_from
 *   names it and one call of that name is on the stack; return_to ends the top call, not certain, unless
 *   that end was named just before. Where nothing tells of ends, calls are CALL_LOST with no duration.
 *
 * A process's stack of chains holds CALL_LEVELS at most; calls further up are given out at once as
 * CALL_LOST with no duration.
 */

#include "process.h"

#define CALL_LEVELS 10000u
/* How far the tracer's scan looks, in words. */
#define CALL_SCAN_WORDS 64

struct calls {
	const struct timeline_sink *sink;
	struct trace *trace; /* for "erlang:hibernate/3"; NULL without */
	uint32_t frame_words; /* F; 0: depths mean nothing */
	uint32_t return_slack; /* k */
	bool returns; /* functions are traced with return_trace */
	bool endless; /* the whole recording has no event that tells of an end */
	uint64_t last_id;
	uint64_t lost_until_ns; /* of the losses that have begun, the latest end */
	uint8_t *hibernate; /* by MFA index: 0 not looked, 1 no, 2 it is erlang:hibernate/3 */
	uint32_t hibernate_count;
};

void calls_free(struct calls *calls);
/* RING_CALL. Returns 0 or -ENOMEM, and so the others. */
int call_event(struct calls *calls, struct process *process, const struct event *event);
/* RING_RETURN_TO. */
void call_return_to(struct calls *calls, struct process *process, const struct event *event);
/* RING_RETURN_FROM, RING_EXCEPTION_FROM. */
void call_value(struct calls *calls, struct process *process, const struct event *event);
/* RING_OUT: a process that hibernates has thrown its stack away. */
void call_out(struct calls *calls, struct process *process, const struct event *event);
/* VM records are missing in this time. */
void call_loss(struct calls *calls, const struct loss *loss);
/* The process exited (CALL_EXITED) or the recording is over (CALL_OPEN). */
void call_finish(struct calls *calls, struct process *process, uint64_t ts_ns, enum call_end how);

#endif
