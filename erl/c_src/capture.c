/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <string.h>

#include "term.h"

/* External Term Format, erts/doc: the tags that are written here. */
enum etf {
	ETF_VERSION = 131,
	ETF_NEW_FLOAT = 70,
	ETF_BIT_BINARY = 77,
	ETF_SMALL_INTEGER = 97,
	ETF_INTEGER = 98,
	ETF_SMALL_TUPLE = 104,
	ETF_LARGE_TUPLE = 105,
	ETF_NIL = 106,
	ETF_LIST = 108,
	ETF_BINARY = 109,
	ETF_SMALL_BIG = 110,
	ETF_MAP = 116,
	ETF_ATOM = 118,
	ETF_SMALL_ATOM = 119,
};

/* A map up to this size is flat: its iterator allocates nothing (erl_map.h). */
#define MAP_FLAT 32

/* '$cut': what an element that found no room costs. */
#define CUT_BYTES 6

/* A tuple of a short atom and an integer: 2 + 2 + 5 + 11. */
#define TAGGED_BYTES 20

struct capture {
	ErlNifEnv *env;
	uint8_t *at;
	uint32_t room; /* bytes left after what is owed to elements that are still to come */
	uint32_t depth; /* at which it began */
	bool redact;
	bool cut;
};

static void put1(struct capture *c, uint8_t value)
{
	*c->at++ = value;
}

static void put_number(struct capture *c, uint64_t value, uint32_t bytes)
{
	while (bytes--)
		*c->at++ = (uint8_t)(value >> bytes * 8);
}

static void put_cut(struct capture *c)
{
	memcpy(c->at, "\x77\x04$cut", CUT_BYTES);
	c->at += CUT_BYTES;
	c->cut = true;
}

static void put_integer(struct capture *c, int64_t value)
{
	uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

	if (value >= 0 && value < 256) {
		put1(c, ETF_SMALL_INTEGER);
		put1(c, (uint8_t)value);
	} else if (value >= INT32_MIN && value <= INT32_MAX) {
		put1(c, ETF_INTEGER);
		put_number(c, (uint64_t)value, 4);
	} else {
		put1(c, ETF_SMALL_BIG);
		put1(c, 8);
		put1(c, value < 0);
		memcpy(c->at, &magnitude, 8);
		c->at += 8;
	}
}

static void put_unsigned(struct capture *c, uint64_t value)
{
	if (value <= INT64_MAX) {
		put_integer(c, (int64_t)value);
		return;
	}
	put1(c, ETF_SMALL_BIG);
	put1(c, 8);
	put1(c, 0);
	memcpy(c->at, &value, 8);
	c->at += 8;
}

/*
 * Every element has CUT_BYTES set aside before it is written. take() pays `bytes` with that and
 * with the room; when both do not reach, the element becomes '$cut'.
 */
static bool take(struct capture *c, uint32_t bytes)
{
	uint32_t more = bytes > CUT_BYTES ? bytes - CUT_BYTES : 0;

	if (more > c->room) {
		put_cut(c);
		return false;
	}
	c->room -= more;
	return true;
}

static void put_tag(struct capture *c, const char *tag, uint32_t bytes)
{
	put1(c, ETF_SMALL_ATOM);
	put1(c, (uint8_t)bytes);
	memcpy(c->at, tag, bytes);
	c->at += bytes;
}

static void put_tagged(struct capture *c, const char *tag, uint64_t value)
{
	if (!take(c, TAGGED_BYTES))
		return;
	put1(c, ETF_SMALL_TUPLE);
	put1(c, 2);
	put_tag(c, tag, (uint32_t)strlen(tag));
	put_unsigned(c, value);
}

static void put_cut_count(struct capture *c, uint64_t count)
{
	put_tagged(c, "$cut", count);
	c->cut = true;
}

static void put_atom(struct capture *c, ERL_NIF_TERM atom)
{
	uint8_t text[TERM_ATOM_BYTES];
	uint32_t bytes = term_atom(c->env, atom, text);

	if (!take(c, 3 + bytes))
		return;
	if (bytes < 256) {
		put_tag(c, (const char *)text, bytes);
		return;
	}
	put1(c, ETF_ATOM);
	put_number(c, bytes, 2);
	memcpy(c->at, text, bytes);
	c->at += bytes;
}

static void put_any_integer(struct capture *c, ERL_NIF_TERM term)
{
	ErlNifSInt64 value;
	ErlNifUInt64 large;

	if (enif_get_int64(c->env, term, &value)) {
		if (take(c, value >= INT32_MIN && value <= INT32_MAX ? 5 : 11))
			put_integer(c, value);
	} else if (enif_get_uint64(c->env, term, &large)) {
		if (take(c, 11))
			put_unsigned(c, large);
	} else {
		put_cut(c);
	}
}

static void put_float(struct capture *c, ERL_NIF_TERM term)
{
	double value = 0;
	uint64_t word;

	if (!take(c, 9))
		return;
	enif_get_double(c->env, term, &value);
	memcpy(&word, &value, sizeof(word));
	put1(c, ETF_NEW_FLOAT);
	put_number(c, word, 8);
}

static void put_bytes(struct capture *c, const struct term_bits *bits, uint32_t bytes)
{
	put1(c, ETF_BINARY);
	put_number(c, bytes, 4);
	c->at += term_bits_copy(bits, c->at, bytes);
}

/* {'$cut', Binary, Size}: as many bytes as the room allows. */
static void put_binary_cut(struct capture *c, const struct term_bits *bits)
{
	uint32_t bytes = 2 + CUT_BYTES + 5 + 11;

	if (c->room + CUT_BYTES <= bytes) {
		put_cut(c);
		return;
	}
	bytes = c->room + CUT_BYTES - bytes;
	if (bytes > bits->bytes)
		bytes = (uint32_t)bits->bytes;
	take(c, 2 + CUT_BYTES + 5 + 11 + bytes);
	put1(c, ETF_SMALL_TUPLE);
	put1(c, 3);
	put_cut(c);
	put_bytes(c, bits, bytes);
	put_unsigned(c, bits->bytes);
}

static void put_binary(struct capture *c, ERL_NIF_TERM term)
{
	struct term_bits bits;
	uint8_t last[2] = {0};
	struct term_bits rest;

	if (!term_bits(term, &bits)) {
		put_cut(c);
		return;
	}
	if (c->redact) {
		put_cut_count(c, bits.bytes);
		return;
	}
	if (bits.bytes + 8 > (uint64_t)c->room + CUT_BYTES) {
		put_binary_cut(c, &bits);
		return;
	}
	if (!bits.tail) {
		take(c, 5 + (uint32_t)bits.bytes);
		put_bytes(c, &bits, (uint32_t)bits.bytes);
		return;
	}
	take(c, 7 + (uint32_t)bits.bytes);
	put1(c, ETF_BIT_BINARY);
	put_number(c, bits.bytes + 1, 4);
	put1(c, (uint8_t)bits.tail);
	c->at += term_bits_copy(&bits, c->at, (uint32_t)bits.bytes);
	/* The bits after the whole bytes: they may lie across two bytes, or end within one. */
	last[0] = bits.data[bits.bytes];
	if (bits.offset + bits.tail > 8)
		last[1] = bits.data[bits.bytes + 1];
	rest = (struct term_bits){.data = last, .bytes = 1, .offset = bits.offset};
	term_bits_copy(&rest, c->at, 1);
	*c->at &= (uint8_t)(0xff << (8 - bits.tail));
	c->at++;
}

static void put_term(struct capture *c, ERL_NIF_TERM term, uint32_t depth);

static void put_tuple(struct capture *c, ERL_NIF_TERM term, uint32_t depth)
{
	const ERL_NIF_TERM *elements;
	uint64_t bytes;
	int arity, i;

	enif_get_tuple(c->env, term, &arity, &elements);
	bytes = 5 + (uint64_t)arity * CUT_BYTES;
	if (!depth || bytes > (uint64_t)c->room + CUT_BYTES) {
		put_cut_count(c, (uint64_t)arity);
		return;
	}
	take(c, (uint32_t)bytes);
	if (arity < 256) {
		put1(c, ETF_SMALL_TUPLE);
		put1(c, (uint8_t)arity);
	} else {
		put1(c, ETF_LARGE_TUPLE);
		put_number(c, (uint64_t)arity, 4);
	}
	for (i = 0; i < arity; i++) {
		/* A redacted tuple keeps its tag, which is what its shape shows as well. */
		if (c->redact && !i && TERM_ATOM(elements[0]))
			put_atom(c, elements[0]);
		else
			put_term(c, elements[i], depth - 1);
	}
}

/* A list that was cut has '$cut' as its tail. */
static void put_list(struct capture *c, ERL_NIF_TERM term, uint32_t depth)
{
	ERL_NIF_TERM head;
	uint32_t count = 0;
	uint8_t *size;

	/* The list of a call's arguments is no content. */
	if ((c->redact && depth != c->depth) || !depth) {
		put_cut(c);
		return;
	}
	/* Head, one element, tail. */
	if (!take(c, 5 + 2 * CUT_BYTES))
		return;
	put1(c, ETF_LIST);
	size = c->at;
	c->at += 4;
	while (enif_get_list_cell(c->env, term, &head, &term)) {
		put_term(c, head, depth - 1);
		count++;
		if (!TERM_CONS(term))
			break;
		if (c->room < CUT_BYTES) {
			put_cut(c);
			goto sized;
		}
		c->room -= CUT_BYTES;
	}
	put_term(c, term, depth - 1);
sized:
	size[0] = (uint8_t)(count >> 24);
	size[1] = (uint8_t)(count >> 16);
	size[2] = (uint8_t)(count >> 8);
	size[3] = (uint8_t)count;
}

/*
 * Keys must differ: from the first key on that does not stand whole, the rest is the pair
 * '$cut' => how many. A small integer takes less than the pair has set aside.
 */
static void put_pairs(struct capture *c, ERL_NIF_TERM term, uint32_t size, uint32_t depth)
{
	uint8_t *count_at = c->at - 4, *start;
	bool cut = c->cut;
	ERL_NIF_TERM key, value;
	ErlNifMapIterator iterator;
	uint32_t count = 0;

	enif_map_iterator_create(c->env, term, &iterator, ERL_NIF_MAP_ITERATOR_FIRST);
	while (enif_map_iterator_get_pair(c->env, &iterator, &key, &value)) {
		start = c->at;
		c->cut = false;
		put_term(c, key, depth - 1);
		if (c->cut) {
			c->at = start;
			put_cut(c);
			put_integer(c, size - count);
			count++;
			break;
		}
		put_term(c, value, depth - 1);
		cut |= c->cut;
		count++;
		enif_map_iterator_next(c->env, &iterator);
	}
	enif_map_iterator_destroy(c->env, &iterator);
	c->cut |= cut;
	count_at[3] = (uint8_t)count;
}

static void put_map(struct capture *c, ERL_NIF_TERM term, uint32_t depth)
{
	uint64_t bytes;
	size_t size = 0;

	enif_get_map_size(c->env, term, &size);
	bytes = 5 + (uint64_t)size * 2 * CUT_BYTES;
	if (c->redact || !depth || size > MAP_FLAT || bytes > (uint64_t)c->room + CUT_BYTES) {
		put_cut_count(c, size);
		return;
	}
	take(c, (uint32_t)bytes);
	put1(c, ETF_MAP);
	put_number(c, size, 4);
	if (size)
		put_pairs(c, term, (uint32_t)size, depth);
}

static void put_leaf(struct capture *c, ERL_NIF_TERM term, enum ring_type type)
{
	uint32_t room = c->room;
	const uint8_t *start = c->at;

	if (type == RING_T_NIL)
		put1(c, ETF_NIL);
	else if (type == RING_T_BINARY)
		put_binary(c, term);
	else if (c->redact)
		put_cut(c);
	else if (type == RING_T_ATOM)
		put_atom(c, term);
	else if (type == RING_T_INTEGER)
		put_any_integer(c, term);
	else if (type == RING_T_FLOAT)
		put_float(c, term);
	else if (type == RING_T_PID)
		put_tagged(c, "$pid", TERM_PID(term) ? term : 0);
	else if (type == RING_T_PORT)
		put_tagged(c, "$port", TERM_PORT(term) ? term : 0);
	else if (type == RING_T_REF)
		put_tagged(c, "$ref", enif_hash(ERL_NIF_PHASH2, term, 0));
	else if (type == RING_T_FUN)
		put_tagged(c, "$fun", 0);
	else
		put_cut(c);
	/* What was set aside or taken and not needed is for those that follow. */
	c->room = room + CUT_BYTES - (uint32_t)(c->at - start);
}

static void put_term(struct capture *c, ERL_NIF_TERM term, uint32_t depth)
{
	enum ring_type type = term_type(c->env, term);

	if (type == RING_T_TUPLE)
		put_tuple(c, term, depth);
	else if (type == RING_T_LIST)
		put_list(c, term, depth);
	else if (type == RING_T_MAP)
		put_map(c, term, depth);
	else
		put_leaf(c, term, type);
}

uint32_t capture_term(ErlNifEnv *env, ERL_NIF_TERM term, uint8_t *into, uint32_t bytes,
		      uint32_t depth, bool redact, bool *cut)
{
	struct capture c = {.env = env, .at = into, .depth = depth, .redact = redact};

	c.room = bytes - 1 - CUT_BYTES;
	put1(&c, ETF_VERSION);
	put_term(&c, term, depth);
	*cut = c.cut;
	return (uint32_t)(c.at - into);
}
