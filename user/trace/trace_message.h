/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TRACE_MESSAGE_H
#define BEAMWEAVE_TRACE_MESSAGE_H

/*
 * Trace messages as erlang:trace/3 describes them, in External Term Format, to the events that the
 * tracer in the VM would have written of the same. Any bytes may stand in them.
 *
 * OTP builds all of them in one way, whatever the tag:
 *   {trace, Tracee, Tag, Message [, Extra] [, MatchSpecMessage] [, SchedulerId]}
 *   {trace_ts, the same ..., Timestamp}
 *   {seq_trace, Label, Info [, Timestamp]}
 */

#include "etf.h"
#include "names.h"
#include "record.h"

/* A message's own time. */
enum message_clock {
	MESSAGE_NO_TIME = 0,
	MESSAGE_MONOTONIC = 1, /* ns of erlang:monotonic_time(), strict or not */
	MESSAGE_SYSTEM = 2, /* ns of Erlang's system time, since 1970 */
};

struct message_time {
	enum message_clock clock;
	int64_t ns;
};

/* A message's bytes, behind the leading 131. */
struct message_bytes {
	const uint8_t *data;
	uint32_t bytes;
	uint32_t tail_bytes; /* as struct ring_term has it */
};

/*
 * What can be known without decoding it all: the kind and the time. Returns 0, or -EBADMSG: no trace
 * message.
 */
int message_peek(const struct message_bytes *bytes, uint32_t *kind, struct message_time *time);

/* Room for any record that a message becomes. */
union message_record {
	struct ring_record h;
	struct ring_call call;
	struct ring_return_to return_to;
	struct ring_value value;
	struct ring_send send;
	struct ring_receive receive;
	struct ring_run run;
	struct ring_gc gc;
	struct ring_spawn spawn;
	struct ring_peer peer;
	struct ring_name name;
	struct ring_port_open port_open;
	struct ring_other other;
};

/*
 * Decode a message into kind, process, flags, record and etf of `event`; the rest of it stays. The
 * event points to `record` and into the message. `vm` tells how pid words are made, NULL as OTP 25
 * does. Returns 0 or -EBADMSG.
 */
int message_decode(const struct message_bytes *bytes, struct names *names, const struct ring_vm *vm,
		   union message_record *record, struct event *event);

/* The pid word of number and serial: what names_process_put() reads. */
uint64_t message_pid_word(const struct ring_vm *vm, uint32_t number, uint32_t serial);

/* The shape of a term, as term_shape() of the tracer makes it. The term may be cut off. */
void message_shape(struct etf term, struct names *names, struct ring_shape *shape);

#endif
