/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_message.h"

#include <errno.h>
#include <string.h>

#include "trace_message_private.h"

/* Where a timestamp begins, from the end: {Time, Unique} of two 64-bit numbers at most. */
#define TIME_BYTES_MAX 24

static const struct {
	const char *name;
	uint8_t kind;
	bool extra;
} tags[] = {
	{"call", RING_CALL, false},
	{"return_to", RING_RETURN_TO, false},
	{"return_from", RING_RETURN_FROM, true},
	{"exception_from", RING_EXCEPTION_FROM, true},
	{"send", RING_SEND, true},
	{"send_to_non_existing_process", RING_SEND_NOPROC, true},
	{"receive", RING_RECEIVE, false},
	{"in", RING_IN, false},
	{"out", RING_OUT, false},
	{"in_exiting", RING_IN_EXITING, false},
	{"out_exiting", RING_OUT_EXITING, false},
	{"out_exited", RING_OUT_EXITED, false},
	{"gc_minor_start", RING_GC_MINOR_START, false},
	{"gc_minor_end", RING_GC_MINOR_END, false},
	{"gc_major_start", RING_GC_MAJOR_START, false},
	{"gc_major_end", RING_GC_MAJOR_END, false},
	{"gc_max_heap_size", RING_GC_MAX_HEAP, false},
	{"spawn", RING_SPAWN, true},
	{"spawned", RING_SPAWNED, true},
	{"exit", RING_EXIT, false},
	{"link", RING_LINK, false},
	{"unlink", RING_UNLINK, false},
	{"getting_linked", RING_GETTING_LINKED, false},
	{"getting_unlinked", RING_GETTING_UNLINKED, false},
	{"register", RING_REGISTER, false},
	{"unregister", RING_UNREGISTER, false},
	{"open", RING_PORT_OPEN, true},
	{"closed", RING_PORT_CLOSED, false},
};

/* ---- The parts of a message ---- */

/* {MegaSeconds, Seconds, MicroSeconds}, {Time, Unique} or Time, and nothing behind it. */
static bool time_read(struct etf etf, struct message_time *time)
{
	int64_t number[3];
	uint32_t arity = 1;
	bool tuple = etf_tuple(&etf, &arity);

	if (tuple && arity != 2 && arity != 3)
		return false;
	for (uint32_t i = 0; i < arity; i++) {
		if (!etf_integer(&etf, &number[i]))
			return false;
	}
	if (etf.at != etf.end)
		return false;
	time->clock = arity == 3 ? MESSAGE_SYSTEM : MESSAGE_MONOTONIC;
	time->ns = number[0];
	if (arity < 3)
		return true;
	/* The VM's numbers are far below these. */
	if (number[0] < 0 || number[0] > 9000 || number[1] < 0 || number[1] > 1000000 ||
	    number[2] < 0 || number[2] > 1000000)
		return false;
	time->ns = (number[0] * 1000000 + number[1]) * 1000000000 + number[2] * 1000;
	return true;
}

/* The timestamp is the last thing in a message: the longest that stands at its end. */
static bool time_find(const struct message_bytes *bytes, struct message_time *time)
{
	uint32_t room = bytes->tail_bytes ? bytes->tail_bytes : bytes->bytes;
	const uint8_t *end = bytes->data + bytes->bytes;

	for (uint32_t back = room < TIME_BYTES_MAX ? room : TIME_BYTES_MAX; back; back--) {
		if (time_read((struct etf){end - back, end}, time))
			return true;
	}
	return false;
}

static void kind_find(struct message_parts *parts)
{
	const struct etf *tag = &parts->elements[2].etf;
	uint8_t tracee = etf_tag(&parts->elements[1].etf);
	bool port = tracee == ETF_PORT || tracee == ETF_NEW_PORT || tracee == ETF_V4_PORT;

	parts->kind = RING_UNKNOWN;
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		if (!etf_is(tag, tags[i].name))
			continue;
		parts->kind = tags[i].kind;
		parts->extra = tags[i].extra;
		break;
	}
	if (port && parts->kind == RING_IN)
		parts->kind = RING_PORT_IN;
	else if (port && parts->kind == RING_OUT)
		parts->kind = RING_PORT_OUT;
}

int message_split(const struct message_bytes *bytes, struct message_parts *parts)
{
	struct etf etf = {bytes->data, bytes->data + bytes->bytes};
	bool trace, timed, seq;
	uint32_t arity;

	memset(parts, 0, sizeof(*parts));
	if (bytes->tail_bytes > bytes->bytes)
		return -EBADMSG;
	etf.end -= bytes->tail_bytes;
	if (!etf_tuple(&etf, &arity) || arity < 3 || arity > MESSAGE_ELEMENTS_MAX)
		return -EBADMSG;
	trace = etf_is(&etf, "trace");
	timed = etf_is(&etf, "trace_ts");
	seq = etf_is(&etf, "seq_trace");
	if (!trace && !timed && !seq)
		return -EBADMSG;
	while (parts->count < arity && !parts->cut) {
		struct message_element *element = &parts->elements[parts->count];

		element->etf = etf;
		element->whole = etf_skip(&etf);
		if (element->whole)
			element->etf.end = etf.at;
		else
			parts->cut = true;
		parts->count++;
	}
	if (parts->count < 3 || (!seq && (!parts->elements[1].whole || !parts->elements[2].whole)))
		return -EBADMSG;
	if (timed || (seq && arity == 4)) {
		if (parts->cut) {
			/* What was at hand when it was cut may have been the timestamp itself. */
			time_find(bytes, &parts->time);
		} else if (time_read(parts->elements[arity - 1].etf, &parts->time)) {
			parts->count--;
		} else if (timed) {
			return -EBADMSG;
		}
	}
	if (seq)
		parts->kind = RING_UNKNOWN;
	else
		kind_find(parts);
	return 0;
}

int message_peek(const struct message_bytes *bytes, uint32_t *kind, struct message_time *time)
{
	struct message_parts parts;
	int error = message_split(bytes, &parts);

	if (error)
		return error;
	*kind = parts.kind;
	*time = parts.time;
	return 0;
}
