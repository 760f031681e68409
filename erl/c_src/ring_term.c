/* SPDX-License-Identifier: Apache-2.0 */
/* Runs inside the VM without a libc: nothing here may call anything but memcmp. */

#include "ring_term.h"

#include <string.h>

/* Tags of the External Term Format that begin a trace message. */
#define ETF_VERSION	    131
#define ETF_SMALL_INTEGER   97
#define ETF_INTEGER	    98
#define ETF_SMALL_BIG	    110
#define ETF_SMALL_TUPLE	    104
#define ETF_ATOM	    100 /* 25: Latin-1 */
#define ETF_SMALL_ATOM	    115
#define ETF_ATOM_UTF8	    118
#define ETF_SMALL_ATOM_UTF8 119
#define ETF_PID		    103
#define ETF_NEW_PID	    88
#define ETF_PORT	    102
#define ETF_NEW_PORT	    89
#define ETF_V4_PORT	    120

#define SMALL_BIG_HEAD	   3
#define US_NS		   1000
#define SECOND_US	   1000000ll
#define MEGASECOND_SECONDS 1000000ll

/* The frequent ones first. */
static const struct {
	const char *name;
	uint8_t bytes;
	uint8_t kind, port_kind; /* of a process, of a port */
} tags[] = {
#define TAG(name, kind) TAG_OF_PORT(name, kind, kind)
#define TAG_OF_PORT(name, kind, port_kind)                                                         \
	{                                                                                          \
		name, sizeof(name) - 1, RING_##kind, RING_##port_kind                              \
	}
	TAG("call", CALL),
	TAG("return_to", RETURN_TO),
	TAG("send", SEND),
	TAG("receive", RECEIVE),
	TAG_OF_PORT("in", IN, PORT_IN),
	TAG_OF_PORT("out", OUT, PORT_OUT),
	TAG("return_from", RETURN_FROM),
	TAG("gc_minor_start", GC_MINOR_START),
	TAG("gc_minor_end", GC_MINOR_END),
	TAG("gc_major_start", GC_MAJOR_START),
	TAG("gc_major_end", GC_MAJOR_END),
	TAG("spawn", SPAWN),
	TAG("spawned", SPAWNED),
	TAG("exit", EXIT),
	TAG("link", LINK),
	TAG("unlink", UNLINK),
	TAG("getting_linked", GETTING_LINKED),
	TAG("getting_unlinked", GETTING_UNLINKED),
	TAG("register", REGISTER),
	TAG("unregister", UNREGISTER),
	TAG("exception_from", EXCEPTION_FROM),
	TAG("send_to_non_existing_process", SEND_NOPROC),
	TAG("in_exiting", IN_EXITING),
	TAG("out_exiting", OUT_EXITING),
	TAG("out_exited", OUT_EXITED),
	TAG("gc_max_heap_size", GC_MAX_HEAP),
	TAG("open", PORT_OPEN),
	TAG("closed", PORT_CLOSED),
};

/* Where we are in the bytes; once something does not fit, at the end for good. */
struct cursor {
	const uint8_t *at, *end;
};

static uint64_t cursor_left(const struct cursor *cursor)
{
	return (uint64_t)(cursor->end - cursor->at);
}

static uint32_t cursor_byte(struct cursor *cursor)
{
	return cursor->at < cursor->end ? *cursor->at++ : 0;
}

static const uint8_t *cursor_skip(struct cursor *cursor, uint32_t bytes)
{
	const uint8_t *at = cursor->at;

	if (cursor_left(cursor) < bytes) {
		cursor->at = cursor->end;
		return NULL;
	}
	cursor->at += bytes;
	return at;
}

/* An atom's text, NULL when there stands none. */
static const uint8_t *cursor_atom(struct cursor *cursor, uint32_t *bytes)
{
	*bytes = 0;
	switch (cursor_byte(cursor)) {
	case ETF_SMALL_ATOM:
	case ETF_SMALL_ATOM_UTF8:
		*bytes = cursor_byte(cursor);
		break;
	case ETF_ATOM:
	case ETF_ATOM_UTF8:
		*bytes = cursor_byte(cursor) << 8;
		*bytes |= cursor_byte(cursor);
		break;
	default:
		return NULL;
	}
	return cursor_skip(cursor, *bytes);
}

static int text_is(const uint8_t *text, uint32_t bytes, const char *word)
{
	return text && bytes == strlen(word) && !memcmp(text, word, bytes);
}

enum head { HEAD_OTHER, HEAD_TRACE, HEAD_TRACE_TS, HEAD_SEQ_TRACE };

/* The tuple's head and first atom. */
static enum head cursor_head(struct cursor *cursor, const uint8_t *etf, uint64_t bytes)
{
	const uint8_t *text;
	uint32_t text_bytes;

	*cursor = (struct cursor){.at = etf, .end = etf + bytes};
	if (cursor_byte(cursor) != ETF_VERSION || cursor_byte(cursor) != ETF_SMALL_TUPLE ||
	    !cursor_byte(cursor))
		return HEAD_OTHER;
	text = cursor_atom(cursor, &text_bytes);
	if (text_is(text, text_bytes, "trace_ts"))
		return HEAD_TRACE_TS;
	if (text_is(text, text_bytes, "trace"))
		return HEAD_TRACE;
	return text_is(text, text_bytes, "seq_trace") ? HEAD_SEQ_TRACE : HEAD_OTHER;
}

int ring_term_is_trace(const uint8_t *etf, uint64_t bytes)
{
	struct cursor cursor;

	return cursor_head(&cursor, etf, bytes) != HEAD_OTHER;
}

/* Pass over who is traced. Returns whether that is a port, -1 when there stands something else. */
static int cursor_tracee(struct cursor *cursor)
{
	uint32_t bytes, tail, port = 0;

	switch (cursor_byte(cursor)) {
	case ETF_NEW_PID:
		tail = 12;
		break;
	case ETF_PID:
		tail = 9;
		break;
	case ETF_V4_PORT:
		tail = 12;
		port = 1;
		break;
	case ETF_NEW_PORT:
		tail = 8;
		port = 1;
		break;
	case ETF_PORT:
		tail = 5;
		port = 1;
		break;
	default:
		return -1;
	}
	if (!cursor_atom(cursor, &bytes) || !cursor_skip(cursor, tail))
		return -1;
	return (int)port;
}

enum ring_kind ring_term_kind(const uint8_t *etf, uint64_t bytes)
{
	struct cursor cursor;
	enum head head = cursor_head(&cursor, etf, bytes);
	const uint8_t *text;
	uint32_t text_bytes;
	int port;

	if (head != HEAD_TRACE && head != HEAD_TRACE_TS)
		return RING_UNKNOWN;
	port = cursor_tracee(&cursor);
	text = port < 0 ? NULL : cursor_atom(&cursor, &text_bytes);
	for (uint32_t i = 0; text && i < sizeof(tags) / sizeof(tags[0]); i++)
		if (tags[i].bytes == text_bytes && !memcmp(tags[i].name, text, text_bytes))
			return port ? tags[i].port_kind : tags[i].kind;
	return RING_UNKNOWN;
}

/* ---- The end of the message, read backwards ---------------------------------------------- */

static uint64_t big_endian(const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

/*
 * The integer that ends right before `*end`, which then moves to its start. `min` is where it may
 * begin at the earliest. What does not end in an integer may look as if it did: callers know from
 * the tuple around it.
 */
static int integer_before(const uint8_t *min, const uint8_t **end, int64_t *value)
{
	const uint8_t *at = *end;
	uint64_t room = (uint64_t)(at - min), bits = 0;

	for (uint32_t bytes = 8; bytes >= 4; bytes--) {
		const uint8_t *big = at - SMALL_BIG_HEAD - bytes;

		if (room < SMALL_BIG_HEAD + bytes || big[0] != ETF_SMALL_BIG || big[1] != bytes ||
		    big[2] > 1)
			continue;
		for (uint32_t i = bytes; i-- > 0;)
			bits = bits << 8 | big[SMALL_BIG_HEAD + i];
		if (bits > INT64_MAX)
			return 0;
		*value = big[2] ? -(int64_t)bits : (int64_t)bits;
		*end = big;
		return 1;
	}
	if (room >= 5 && at[-5] == ETF_INTEGER) {
		*value = (int32_t)big_endian(at - 4, 4);
		*end = at - 5;
		return 1;
	}
	if (room >= 2 && at[-2] == ETF_SMALL_INTEGER) {
		*value = at[-1];
		*end = at - 2;
		return 1;
	}
	return 0;
}

static int tuple_before(const uint8_t *min, const uint8_t *at, uint8_t arity)
{
	return at - min >= 2 && at[-2] == ETF_SMALL_TUPLE && at[-1] == arity;
}

/*
 * Integers of a tuple at the end. Each is tried in the sizes that it can have: only one way leads to
 * the tuple's head.
 */
static int tuple_integers(const uint8_t *min, const uint8_t *end, uint32_t count, uint8_t arity,
			  int64_t *values)
{
	static const uint8_t sizes[] = {5, 2, 11, 10, 9, 8, 7};

	if (!count)
		return tuple_before(min, end, arity);
	for (uint32_t i = 0; i < sizeof(sizes); i++) {
		const uint8_t *start = end;

		if (end - min < sizes[i])
			continue;
		if (integer_before(end - sizes[i], &start, &values[count - 1]) &&
		    start == end - sizes[i] && tuple_integers(min, start, count - 1, arity, values))
			return 1;
	}
	return 0;
}

enum ring_term_clock ring_term_time(const uint8_t *etf, uint64_t bytes, int64_t *time_ns)
{
	const uint8_t *end = etf + bytes;
	struct cursor cursor;
	int64_t values[3];

	*time_ns = 0;
	if (cursor_head(&cursor, etf, bytes) != HEAD_TRACE_TS)
		return RING_TERM_NO_CLOCK;
	if (tuple_integers(cursor.at, end, 2, 2, values)) {
		/* strict_monotonic_timestamp */
		*time_ns = values[0];
		return RING_TERM_MONOTONIC;
	}
	if (tuple_integers(cursor.at, end, 3, 3, values)) {
		if (values[0] < 0 || values[0] > 9000 || values[1] < 0 ||
		    values[1] >= MEGASECOND_SECONDS || values[2] < 0 || values[2] >= SECOND_US)
			return RING_TERM_NO_CLOCK;
		*time_ns = ((values[0] * MEGASECOND_SECONDS + values[1]) * SECOND_US + values[2]) *
			   US_NS;
		return RING_TERM_SYSTEM;
	}
	if (integer_before(cursor.at, &end, values)) {
		*time_ns = values[0];
		return RING_TERM_MONOTONIC;
	}
	return RING_TERM_NO_CLOCK;
}
