/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints of terms in External Term Format: what erl/c_src/term.c makes of the terms themselves. */
#include "trace_message.h"

#include <string.h>

#include "names_intern.h"

#define SHAPE_NODES  24
#define SHAPE_TUPLE  8
#define SHAPE_BINARY 32
#define SHAPE_STACK  (SHAPE_NODES * SHAPE_TUPLE)

/* Of erlang:phash2/1, OTP's erts/emulator/beam/utils.c. */
#define PHASH2_PID   0x1715609du
#define PHASH2_PORT  0xb54cda56u
#define PHASH2_REF   0x5384540fu
#define PHASH2_RANGE ((1u << 27) - 1)

/* A term still to be looked at, or what is left of a list or of a string. */
struct shape_rest {
	struct etf etf;
	uint32_t count; /* elements left of the list, or bytes of the string */
	enum { REST_TERM = 0, REST_LIST, REST_STRING } what;
};

struct shape_walk {
	struct shape_rest stack[SHAPE_STACK];
	uint32_t count;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static uint64_t hash_bytes(uint64_t hash, const uint8_t *data, uint32_t bytes)
{
	uint64_t word;
	uint32_t i;

	for (i = 0; i + 8 <= bytes; i += 8) {
		memcpy(&word, data + i, 8);
		hash = mix(hash, word);
	}
	for (word = 0; i < bytes; i++)
		word = word << 8 | data[i];
	return mix(mix(hash, word), bytes);
}

static uint64_t atom_hash(struct etf *etf)
{
	char text[ETF_ATOM_BYTES];
	uint32_t bytes = 0;

	etf_atom(etf, text, &bytes);
	return hash_bytes(0x62656d77, (const uint8_t *)text, bytes);
}

static uint32_t phash2(uint32_t first, uint32_t second, uint32_t constant)
{
	uint32_t a = constant + first, b = constant + second, c = 0;

	a = (a - b - c) ^ c >> 13;
	b = (b - c - a) ^ a << 8;
	c = (c - a - b) ^ b >> 13;
	a = (a - b - c) ^ c >> 12;
	b = (b - c - a) ^ a << 16;
	c = (c - a - b) ^ b >> 5;
	a = (a - b - c) ^ c >> 3;
	b = (b - c - a) ^ a << 10;
	c = (c - a - b) ^ b >> 15;
	return c & PHASH2_RANGE;
}

static void walk_push(struct shape_walk *walk, struct etf etf, uint32_t count, uint8_t what)
{
	if (walk->count == SHAPE_STACK)
		return;
	walk->stack[walk->count].etf = etf;
	walk->stack[walk->count].count = count;
	walk->stack[walk->count++].what = what;
}

static enum ring_type type_of(uint8_t tag)
{
	switch (tag) {
	case ETF_SMALL_INTEGER:
	case ETF_INTEGER:
	case ETF_SMALL_BIG:
	case ETF_LARGE_BIG:
		return RING_T_INTEGER;
	case ETF_NEW_FLOAT:
	case ETF_FLOAT:
		return RING_T_FLOAT;
	case ETF_ATOM:
	case ETF_SMALL_ATOM:
	case ETF_ATOM_UTF8:
	case ETF_SMALL_ATOM_UTF8:
		return RING_T_ATOM;
	case ETF_SMALL_TUPLE:
	case ETF_LARGE_TUPLE:
		return RING_T_TUPLE;
	case ETF_NIL:
		return RING_T_NIL;
	case ETF_STRING:
	case ETF_LIST:
		return RING_T_LIST;
	case ETF_BINARY:
	case ETF_BIT_BINARY:
		return RING_T_BINARY;
	case ETF_PID:
	case ETF_NEW_PID:
		return RING_T_PID;
	case ETF_PORT:
	case ETF_NEW_PORT:
	case ETF_V4_PORT:
		return RING_T_PORT;
	case ETF_REFERENCE:
	case ETF_NEW_REFERENCE:
	case ETF_NEWER_REFERENCE:
		return RING_T_REF;
	case ETF_NEW_FUN:
	case ETF_FUN:
	case ETF_EXPORT:
		return RING_T_FUN;
	case ETF_MAP:
		return RING_T_MAP;
	default:
		return RING_T_OTHER;
	}
}

static uint64_t shape_integer(uint64_t hash, struct etf *etf)
{
	uint64_t big = 0;
	int64_t small;

	if (etf_integer(etf, &small))
		return mix(hash, (uint64_t)small);
	/* Between INT64_MAX and UINT64_MAX; what is larger has no value there either. */
	if (etf_tag(etf) != ETF_SMALL_BIG || etf->end - etf->at < 11 || etf->at[1] != 8)
		return hash;
	for (uint32_t i = 8; i-- > 0;)
		big = big << 8 | etf->at[3 + i];
	if (!etf->at[2])
		return mix(hash, big);
	return big == 1ull << 63 ? mix(hash, big) : hash;
}

static uint64_t shape_tuple(struct shape_walk *walk, uint64_t hash, struct etf *etf)
{
	struct etf elements[SHAPE_TUPLE];
	uint32_t arity, count;

	if (!etf_tuple(etf, &arity))
		return hash;
	for (count = 0; count < arity && count < SHAPE_TUPLE; count++) {
		elements[count] = *etf;
		if (!etf_skip(etf)) {
			count++;
			break;
		}
	}
	while (count)
		walk_push(walk, elements[--count], 0, REST_TERM);
	return mix(hash, arity);
}

static void shape_list(struct shape_walk *walk, struct etf list, uint32_t count)
{
	struct etf rest = list;

	if (etf_skip(&rest))
		walk_push(walk, rest, count - 1, count > 1 ? REST_LIST : REST_TERM);
	walk_push(walk, list, 0, REST_TERM);
}

/* The cell of a list: its head is the next node, and what follows is one. */
static uint64_t shape_cell(struct shape_walk *walk, uint64_t hash, struct etf *etf)
{
	uint32_t count;

	if (etf_tag(etf) == ETF_STRING) {
		if (etf->end - etf->at < 3)
			return hash;
		count = (uint32_t)etf->at[1] << 8 | etf->at[2];
		etf->at += 3;
		if (count <= etf->end - etf->at)
			walk_push(walk, *etf, count, REST_STRING);
	} else if (etf_list(etf, &count)) {
		if (count)
			shape_list(walk, *etf, count);
	}
	return hash;
}

static uint64_t shape_binary(uint64_t hash, struct etf *etf)
{
	const uint8_t *data;
	uint32_t bytes, tail;

	if (!etf_binary(etf, &data, &bytes, &tail))
		return hash;
	hash = mix(hash, (uint64_t)bytes << 3 | tail);
	return hash_bytes(hash, data, bytes < SHAPE_BINARY ? bytes : SHAPE_BINARY);
}

static uint64_t shape_float(uint64_t hash, const struct etf *etf)
{
	uint64_t bits = 0;

	if (etf_tag(etf) != ETF_NEW_FLOAT || etf->end - etf->at < 9)
		return hash;
	for (uint32_t i = 1; i <= 8; i++)
		bits = bits << 8 | etf->at[i];
	return mix(hash, bits);
}

static uint64_t shape_map(uint64_t hash, const struct etf *etf)
{
	if (etf->end - etf->at < 5)
		return hash;
	return mix(hash, (uint64_t)etf->at[1] << 24 | (uint64_t)etf->at[2] << 16 |
				 (uint64_t)etf->at[3] << 8 | etf->at[4]);
}

static uint64_t shape_id(uint64_t hash, enum ring_type type, struct etf *etf)
{
	struct etf_id id;

	if (type == RING_T_PID && etf_pid(etf, &id))
		return mix(hash, phash2((uint32_t)id.number, 0, PHASH2_PID));
	if (type == RING_T_PORT && etf_port(etf, &id))
		return mix(hash,
			   phash2((uint32_t)id.number, (uint32_t)(id.number >> 32), PHASH2_PORT));
	if (type == RING_T_REF && etf_reference(etf, &id))
		return mix(hash, phash2((uint32_t)id.number, 0, PHASH2_REF));
	return hash;
}

static uint64_t shape_term(struct shape_walk *walk, uint64_t hash, struct etf etf)
{
	enum ring_type type = type_of(etf_tag(&etf));

	hash = mix(hash, type);
	switch (type) {
	case RING_T_ATOM:
		return mix(hash, atom_hash(&etf));
	case RING_T_INTEGER:
		return shape_integer(hash, &etf);
	case RING_T_TUPLE:
		return shape_tuple(walk, hash, &etf);
	case RING_T_LIST:
		return shape_cell(walk, hash, &etf);
	case RING_T_BINARY:
		return shape_binary(hash, &etf);
	case RING_T_FLOAT:
		return shape_float(hash, &etf);
	case RING_T_MAP:
		return shape_map(hash, &etf);
	case RING_T_PID:
	case RING_T_PORT:
	case RING_T_REF:
		return shape_id(hash, type, &etf);
	default:
		return hash;
	}
}

/* A string in the format is a list of numbers in the VM: each byte is a cell and a number. */
static uint64_t shape_string(uint64_t hash, struct shape_rest rest, uint32_t *nodes)
{
	while (rest.count && *nodes < SHAPE_NODES) {
		hash = mix(mix(hash, RING_T_INTEGER), *rest.etf.at++);
		++*nodes;
		if (--rest.count && *nodes < SHAPE_NODES) {
			hash = mix(hash, RING_T_LIST);
			++*nodes;
		} else if (!rest.count && *nodes < SHAPE_NODES) {
			hash = mix(hash, RING_T_NIL);
			++*nodes;
		}
	}
	return hash;
}

static uint64_t shape_walk_all(struct shape_walk *walk)
{
	uint64_t hash = 0;
	uint32_t nodes = 0;

	while (nodes < SHAPE_NODES && walk->count) {
		struct shape_rest rest = walk->stack[--walk->count];

		if (rest.what == REST_STRING) {
			hash = shape_string(hash, rest, &nodes);
			continue;
		}
		nodes++;
		if (rest.what == REST_LIST) {
			hash = mix(hash, RING_T_LIST);
			shape_list(walk, rest.etf, rest.count);
		} else {
			hash = shape_term(walk, hash, rest.etf);
		}
	}
	return hash;
}

static uint32_t shape_atom(struct etf *etf, struct names *names)
{
	char text[ETF_ATOM_BYTES];
	uint32_t bytes;

	return etf_atom(etf, text, &bytes) ? names_atom_intern(names, text, bytes) : 0;
}

void message_shape(struct etf term, struct names *names, struct ring_shape *shape)
{
	struct shape_walk walk;
	struct etf head = term;
	uint32_t arity;

	memset(shape, 0, sizeof(*shape));
	shape->type = (uint8_t)type_of(etf_tag(&term));
	if (shape->type == RING_T_ATOM)
		shape->atom[0] = shape_atom(&head, names);
	if (shape->type == RING_T_TUPLE && etf_tuple(&head, &arity)) {
		shape->arity = (uint16_t)(arity < UINT16_MAX ? arity : UINT16_MAX);
		if (arity > 0)
			shape->atom[0] = shape_atom(&head, names);
		if (arity > 1 && shape->atom[0])
			shape->atom[1] = shape_atom(&head, names);
	}
	walk.count = 0;
	walk_push(&walk, term, 0, REST_TERM);
	shape->fingerprint = shape_walk_all(&walk);
}
