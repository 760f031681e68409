/* SPDX-License-Identifier: Apache-2.0 */
#include "term.h"

#include <errno.h>
#include <string.h>

#include "system.h"

/* How much of a term makes its fingerprint. */
#define SHAPE_NODES  24
#define SHAPE_TUPLE  8
#define SHAPE_BINARY 32
#define SHAPE_STACK  (SHAPE_NODES * SHAPE_TUPLE)

/* erl_nif.h of OTP 26 on; older ones take Latin-1 only. */
#define ENCODING_UTF8 ((ErlNifCharEncoding)2)

#define SUBTAG(word) (((word) >> 2) & 0xf)

/* enum term_form: how the bits of a boxed bitstring are reached. */
enum term_form { FORM_NONE = 0, FORM_HEAP, FORM_REFC, FORM_SUB };

/* By subtag of the header word, from erl_term.h; bitstrings from erl_binary.h and erl_bits.h. */
struct term_layout {
	uint32_t first_release, last_release;
	uint8_t type[16];
	uint8_t form[16];
};

static const struct term_layout layouts[] = {
	{25,
	 26,
	 {RING_T_TUPLE, RING_T_OTHER, RING_T_INTEGER, RING_T_INTEGER, RING_T_REF, RING_T_FUN,
	  RING_T_FLOAT, RING_T_OTHER, RING_T_BINARY, RING_T_BINARY, RING_T_BINARY, RING_T_OTHER,
	  RING_T_PID, RING_T_PORT, RING_T_REF, RING_T_MAP},
	 {[8] = FORM_REFC, [9] = FORM_HEAP, [10] = FORM_SUB}},
};

static const struct term_layout *layout; /* of this release */
static bool layout_known; /* and it was checked */
static bool atoms_utf8;

static uint64_t word_at(ERL_NIF_TERM boxed, uint32_t index)
{
	return ((const uint64_t *)(boxed - 2))[index];
}

int term_init(ErlNifEnv *env, uint32_t release)
{
	ERL_NIF_TERM atom = enif_make_atom(env, "call"), list = enif_make_list(env, 0);
	size_t i;

	if (enif_make_int(env, 5) != 0x5f || list != 0x3b || !TERM_ATOM(atom))
		return -EPROTO;
	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (release >= layouts[i].first_release && release <= layouts[i].last_release)
			layout = &layouts[i];
	}
	atoms_utf8 = release >= 26;
	return 0;
}

enum ring_type term_type(ErlNifEnv *env, ERL_NIF_TERM term)
{
	double number;

	if (TERM_CONS(term))
		return RING_T_LIST;
	if ((term & 3) == 3) {
		if (TERM_ATOM(term))
			return RING_T_ATOM;
		if (TERM_SMALL(term))
			return RING_T_INTEGER;
		if (TERM_PID(term))
			return RING_T_PID;
		if (TERM_PORT(term))
			return RING_T_PORT;
		return TERM_NIL(term) ? RING_T_NIL : RING_T_OTHER;
	}
	if ((term & 3) != 2)
		return RING_T_OTHER;
	if (layout_known)
		return (enum ring_type)layout->type[SUBTAG(word_at(term, 0))];
	if (enif_is_tuple(env, term))
		return RING_T_TUPLE;
	if (enif_is_map(env, term))
		return RING_T_MAP;
	if (enif_is_binary(env, term))
		return RING_T_BINARY;
	if (enif_is_pid(env, term))
		return RING_T_PID;
	if (enif_is_ref(env, term))
		return RING_T_REF;
	if (enif_is_fun(env, term))
		return RING_T_FUN;
	if (enif_is_port(env, term))
		return RING_T_PORT;
	if (enif_get_double(env, term, &number))
		return RING_T_FLOAT;
	return enif_is_number(env, term) ? RING_T_INTEGER : RING_T_OTHER;
}

static bool bits_whole(ERL_NIF_TERM term, enum term_form form, struct term_bits *bits)
{
	if (form == FORM_HEAP)
		bits->data = (const uint8_t *)(term - 2) + 16;
	else if (form == FORM_REFC)
		bits->data = (const uint8_t *)word_at(term, 4);
	else
		return false;
	return true;
}

static enum term_form form_of(ERL_NIF_TERM term)
{
	return (term & 3) == 2 ? (enum term_form)layout->form[SUBTAG(word_at(term, 0))] : FORM_NONE;
}

static bool bits_read(ERL_NIF_TERM term, struct term_bits *bits)
{
	enum term_form form = form_of(term);
	const uint8_t *flags;
	ERL_NIF_TERM whole;

	memset(bits, 0, sizeof(*bits));
	if (form == FORM_NONE)
		return false;
	bits->bytes = word_at(term, 1);
	if (form != FORM_SUB)
		return bits_whole(term, form, bits);
	flags = (const uint8_t *)(term - 2) + 24;
	whole = word_at(term, 4);
	if (!bits_whole(whole, form_of(whole), bits))
		return false;
	bits->data += word_at(term, 2);
	bits->tail = flags[0];
	bits->offset = flags[1];
	return true;
}

bool term_bits(ERL_NIF_TERM term, struct term_bits *bits)
{
	return layout_known && bits_read(term, bits);
}

uint32_t term_bits_copy(const struct term_bits *bits, uint8_t *into, uint32_t bytes)
{
	uint32_t i, shift = bits->offset;

	if (bytes > bits->bytes)
		bytes = (uint32_t)bits->bytes;
	if (!shift) {
		memcpy(into, bits->data, bytes);
		return bytes;
	}
	for (i = 0; i < bytes; i++)
		into[i] = (uint8_t)(bits->data[i] << shift | bits->data[i + 1] >> (8 - shift));
	return bytes;
}

/* The header word of a boxed term, read through the kernel: the layout is not trusted yet. */
static int example_header(ERL_NIF_TERM term, uint64_t *header)
{
	return (term & 3) == 2 ? system_peek(term - 2, header, sizeof(*header)) : -EPROTO;
}

static int example_check(ErlNifEnv *env, const ERL_NIF_TERM *example)
{
	uint32_t want, tail, i;
	struct term_bits bits;
	ErlNifBinary content;
	uint8_t found[256];
	uint64_t header;

	if (!enif_get_uint(env, example[0], &want) || example_header(example[1], &header))
		return -EPROTO;
	if (layout->type[SUBTAG(header)] != want)
		return -EPROTO;
	if (want != RING_T_BINARY)
		return 0;
	if (!enif_inspect_binary(env, example[2], &content) ||
	    !enif_get_uint(env, example[3], &tail))
		return -EPROTO;
	if (!bits_read(example[1], &bits) || bits.bytes != content.size || bits.tail != tail ||
	    bits.offset > 7 || content.size > sizeof(found))
		return -EPROTO;
	for (i = 0; i < sizeof(found); i += 64) {
		if (i < bits.bytes && system_peek((uint64_t)bits.data + i, found, 1))
			return -EPROTO;
	}
	term_bits_copy(&bits, found, sizeof(found));
	return memcmp(found, content.data, content.size) ? -EPROTO : 0;
}

int term_check(ErlNifEnv *env, ERL_NIF_TERM examples)
{
	const ERL_NIF_TERM *example;
	ERL_NIF_TERM head;
	int arity, rc;

	if (!layout)
		return -ENOSYS;
	while (enif_get_list_cell(env, examples, &head, &examples)) {
		if (!enif_get_tuple(env, head, &arity, &example) || arity != 4)
			return -EINVAL;
		rc = example_check(env, example);
		if (rc)
			return rc;
	}
	layout_known = true;
	return 0;
}

static uint32_t latin1_to_utf8(const uint8_t *from, uint32_t bytes, uint8_t *into)
{
	uint32_t i, at = 0;

	for (i = 0; i < bytes; i++) {
		if (from[i] < 0x80) {
			into[at++] = from[i];
		} else {
			into[at++] = (uint8_t)(0xc0 | from[i] >> 6);
			into[at++] = (uint8_t)(0x80 | (from[i] & 0x3f));
		}
	}
	return at;
}

static uint8_t unescape(uint8_t letter)
{
	switch (letter) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	case 'b':
		return '\b';
	case 'v':
		return '\v';
	case 'f':
		return '\f';
	default:
		return letter;
	}
}

/* Undo print_atom_name() of erl_printf_term.c: quotes, some bytes as \n or three octal digits. */
static uint32_t unquote(const uint8_t *from, uint32_t bytes, uint8_t *into)
{
	uint32_t i, at = 0;
	uint8_t octal;

	if (bytes < 2 || from[0] != '\'') {
		memcpy(into, from, bytes);
		return bytes;
	}
	for (i = 1; i < bytes && from[i] != '\''; i++) {
		if (from[i] != '\\' || i + 1 >= bytes) {
			into[at++] = from[i];
			continue;
		}
		i++;
		if (from[i] >= '0' && from[i] <= '3' && i + 2 < bytes) {
			octal = (uint8_t)((from[i] - '0') << 6 | (from[i + 1] - '0') << 3 |
					  (from[i + 2] - '0'));
			at += latin1_to_utf8(&octal, 1, into + at);
			i += 2;
		} else {
			into[at++] = unescape(from[i]);
		}
	}
	return at;
}

uint32_t term_atom(ErlNifEnv *env, ERL_NIF_TERM atom, uint8_t text[TERM_ATOM_BYTES])
{
	uint8_t raw[TERM_ATOM_BYTES];
	int bytes;

	if (atoms_utf8) {
		bytes = enif_get_atom(env, atom, (char *)raw, sizeof(raw), ENCODING_UTF8);
		if (bytes < 1)
			return 0;
		memcpy(text, raw, (uint32_t)bytes - 1);
		return (uint32_t)bytes - 1;
	}
	bytes = enif_get_atom(env, atom, (char *)raw, sizeof(raw), ERL_NIF_LATIN1);
	if (bytes >= 1)
		return latin1_to_utf8(raw, (uint32_t)bytes - 1, text);
	/* Characters beyond Latin-1: OTP 25 gives them only by printing. */
	bytes = enif_snprintf((char *)raw, sizeof(raw), "%T", atom);
	if (bytes < 1)
		return 0;
	return unquote(raw, (uint32_t)bytes < sizeof(raw) ? (uint32_t)bytes : sizeof(raw) - 1,
		       text);
}

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

uint64_t term_hash_text(const uint8_t *text, uint32_t bytes)
{
	return hash_bytes(0x62656d77, text, bytes);
}

/* The atom's slot with its text in the dictionary; NULL when the table is full. */
static struct ring_atom_slot *atom_slot(ErlNifEnv *env, struct ring *ring, ERL_NIF_TERM atom)
{
	struct ring_atom_slot *slot = ring_atom_slot(ring, TERM_INDEX(atom));
	uint8_t text[TERM_ATOM_BYTES];
	uint32_t bytes;

	/* acquire: a slot that is seen has its hash */
	if (!slot || atomic_load_explicit(&slot->seen, memory_order_acquire))
		return slot;
	bytes = term_atom(env, atom, text);
	ring_dict_put(ring, RING_DICT_ATOM, TERM_INDEX(atom), text, bytes);
	ring_atom_seen(slot, term_hash_text(text, bytes));
	return slot;
}

uint32_t term_ring_atom(ErlNifEnv *env, struct ring *ring, ERL_NIF_TERM atom)
{
	if (!TERM_ATOM(atom))
		return 0;
	atom_slot(env, ring, atom);
	return TERM_INDEX(atom);
}

static uint64_t atom_hash(ErlNifEnv *env, struct ring *ring, ERL_NIF_TERM atom)
{
	struct ring_atom_slot *slot = atom_slot(env, ring, atom);
	uint8_t text[TERM_ATOM_BYTES];

	if (slot)
		/* relaxed: written before `seen`, which was acquired */
		return atomic_load_explicit(&slot->hash, memory_order_relaxed);
	return term_hash_text(text, term_atom(env, atom, text));
}

/* Terms still to be looked at, the next one on top. */
struct shape_walk {
	ERL_NIF_TERM stack[SHAPE_STACK];
	uint32_t count;
};

static void walk_push(struct shape_walk *walk, ERL_NIF_TERM term)
{
	if (walk->count < SHAPE_STACK)
		walk->stack[walk->count++] = term;
}

static uint64_t shape_binary(uint64_t hash, ERL_NIF_TERM term)
{
	uint8_t data[SHAPE_BINARY];
	struct term_bits bits;

	if (!term_bits(term, &bits))
		return hash;
	hash = mix(hash, bits.bytes << 3 | bits.tail);
	return hash_bytes(hash, data, term_bits_copy(&bits, data, sizeof(data)));
}

static uint64_t shape_number(ErlNifEnv *env, uint64_t hash, ERL_NIF_TERM term)
{
	ErlNifSInt64 small;
	ErlNifUInt64 big;

	if (TERM_SMALL(term))
		return mix(hash, (uint64_t)TERM_SMALL_VALUE(term));
	if (enif_get_int64(env, term, &small))
		return mix(hash, (uint64_t)small);
	return enif_get_uint64(env, term, &big) ? mix(hash, big) : hash;
}

static uint64_t shape_node(ErlNifEnv *env, struct ring *ring, struct shape_walk *walk,
			   uint64_t hash, ERL_NIF_TERM term, enum ring_type type)
{
	const ERL_NIF_TERM *elements;
	ERL_NIF_TERM head, tail;
	double number = 0;
	uint64_t word;
	size_t size;
	int arity;

	hash = mix(hash, type);
	switch (type) {
	case RING_T_ATOM:
		return mix(hash, atom_hash(env, ring, term));
	case RING_T_INTEGER:
		return shape_number(env, hash, term);
	case RING_T_TUPLE:
		enif_get_tuple(env, term, &arity, &elements);
		hash = mix(hash, (uint64_t)arity);
		for (arity = arity < SHAPE_TUPLE ? arity : SHAPE_TUPLE; arity; arity--)
			walk_push(walk, elements[arity - 1]);
		return hash;
	case RING_T_LIST:
		enif_get_list_cell(env, term, &head, &tail);
		walk_push(walk, tail);
		walk_push(walk, head);
		return hash;
	case RING_T_BINARY:
		return shape_binary(hash, term);
	case RING_T_FLOAT:
		enif_get_double(env, term, &number);
		memcpy(&word, &number, sizeof(word));
		return mix(hash, word);
	case RING_T_MAP:
		enif_get_map_size(env, term, &size);
		return mix(hash, size);
	case RING_T_PID:
	case RING_T_PORT:
	case RING_T_REF:
		/* phash2 of these reads their numbers only and is the same on every node. */
		return mix(hash, enif_hash(ERL_NIF_PHASH2, term, 0));
	default:
		return hash;
	}
}

static uint64_t shape_walk(ErlNifEnv *env, struct ring *ring, struct shape_walk *walk,
			   uint64_t hash)
{
	uint32_t nodes;
	ERL_NIF_TERM term;

	for (nodes = 0; nodes < SHAPE_NODES && walk->count; nodes++) {
		term = walk->stack[--walk->count];
		hash = shape_node(env, ring, walk, hash, term, term_type(env, term));
	}
	return hash;
}

void term_shape(ErlNifEnv *env, struct ring *ring, ERL_NIF_TERM term, struct ring_shape *shape)
{
	const ERL_NIF_TERM *elements;
	struct shape_walk walk;
	int arity;

	memset(shape, 0, sizeof(*shape));
	shape->type = (uint8_t)term_type(env, term);
	if (shape->type == RING_T_ATOM)
		shape->atom[0] = term_ring_atom(env, ring, term);
	if (shape->type == RING_T_TUPLE) {
		enif_get_tuple(env, term, &arity, &elements);
		shape->arity = (uint16_t)(arity < UINT16_MAX ? arity : UINT16_MAX);
		if (arity > 0)
			shape->atom[0] = term_ring_atom(env, ring, elements[0]);
		if (arity > 1 && shape->atom[0])
			shape->atom[1] = term_ring_atom(env, ring, elements[1]);
	}
	walk.count = 0;
	walk_push(&walk, term);
	shape->fingerprint = shape_walk(env, ring, &walk, 0);
}

void term_shape_pair(ErlNifEnv *env, struct ring *ring, ERL_NIF_TERM first, ERL_NIF_TERM second,
		     struct ring_shape *shape)
{
	struct shape_walk walk;

	memset(shape, 0, sizeof(*shape));
	shape->type = RING_T_TUPLE;
	shape->arity = 2;
	shape->atom[0] = term_ring_atom(env, ring, first);
	shape->atom[1] = shape->atom[0] ? term_ring_atom(env, ring, second) : 0;
	walk.count = 0;
	walk_push(&walk, second);
	walk_push(&walk, first);
	shape->fingerprint = shape_walk(env, ring, &walk, mix(mix(0, RING_T_TUPLE), 2));
}
