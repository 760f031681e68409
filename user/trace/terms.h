/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TERMS_H
#define BEAMWEAVE_TERMS_H

/*
 * A stream of events some of which are still trace messages (RING_F_TERM), as they arrived, to a
 * stream of events in the order of the times that the messages themselves carry.
 */

#include "merge.h"
#include "trace_message.h"
#include "reorder.h"

/* How the times of messages become those of events. */
struct terms_clock {
	const struct ring_dict_clock *samples; /* by clock_ns */
	size_t count;
	bool file; /* no clock but the messages' own: what arrives has no time */
	/* of a file: */
	bool based;
	int64_t base_ns; /* of the first monotonic time, which becomes TERMS_FIRST_NS */
	uint64_t last_ns;
};

/* What a file of messages without wall-clock time begins with, and how far they are apart without any. */
#define TERMS_FIRST_NS 1000000000ull
#define TERMS_STEP_NS  1000ull

/* How wrong a message's own time may be against the arrival before it is taken for nonsense. */
#define TERMS_AHEAD_NS 1000000000ull

/* The time of an event. Calls come in the order of arrival. */
uint64_t terms_time(struct terms_clock *clock, const struct message_time *time,
		    uint64_t arrived_ns);
void terms_clock_rewind(struct terms_clock *clock);

struct terms {
	merge_next_fn next; /* the source; `term` of an event with RING_F_TERM */
	void *context;
	struct names *names;
	const struct ring_vm *vm;
	struct terms_clock clock;
	struct reorder reorder;
	bool ended;
	union message_record record; /* of the event given */
};

/* The message in a record that was checked. */
struct message_bytes terms_message(const struct ring_term *term);
/* Turn an event that is still a message into what it says. 0 or -EBADMSG. */
int terms_decode(const struct terms *terms, union message_record *record, struct event *event);

void terms_free(struct terms *terms);
void terms_rewind(struct terms *terms);
int terms_next(void *context, struct event *event);

#endif
