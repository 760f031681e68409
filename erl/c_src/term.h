/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TERM_H
#define BEAMWEAVE_TERM_H

/*
 * Reading Erlang terms within bounds: nothing here allocates, follows more than a fixed number of
 * nodes, or changes a term. enif_inspect_binary() does all three (it copies an unaligned binary
 * and takes the room for appending from a writable one), so binaries are read where they lie, with
 * layouts that are checked once per load against terms with known contents.
 */

#include <stdbool.h>
#include <stdint.h>

#include <erl_nif.h>

#include "ring.h"

/* 255 characters of at most 4 bytes. */
#define TERM_ATOM_BYTES 1024

/* Immediate terms; term_init() has checked that this VM tags them so. */
#define TERM_ATOM(term)	 (((term)&0x3f) == 0x0b)
#define TERM_NIL(term)	 ((term) == 0x3b)
#define TERM_SMALL(term) (((term)&0xf) == 0xf)
#define TERM_PID(term)	 (((term)&0xf) == 0x3)
#define TERM_PORT(term)	 (((term)&0xf) == 0x7)
#define TERM_CONS(term)	 (((term)&3) == 1)
#define TERM_INDEX(atom) ((uint32_t)((atom) >> 6) + 1)

#define TERM_SMALL_VALUE(term) ((int64_t)(term) >> 4)

/* Bits of a binary or bitstring, read in place. */
struct term_bits {
	const uint8_t *data;
	uint64_t bytes; /* whole bytes */
	uint32_t offset; /* of the first bit in data[0] */
	uint32_t tail; /* bits after the whole bytes */
};

/* Check how this VM tags immediates and atoms. Returns 0 or -EPROTO. */
int term_init(ErlNifEnv *env, uint32_t release);

/*
 * Check the layout of boxed terms against a list of {Type, Term, Bytes, Tail}, where Type is the
 * number of an enum ring_type and Bytes and Tail are a bitstring's content. Without a good check,
 * and on releases without a layout, binaries are known by nothing but their type.
 */
int term_check(ErlNifEnv *env, ERL_NIF_TERM examples);

enum ring_type term_type(ErlNifEnv *env, ERL_NIF_TERM term);

/* Where a bitstring's bits are. Returns false when its layout is not known. */
bool term_bits(ERL_NIF_TERM term, struct term_bits *bits);

/* Copy up to `bytes` whole bytes of it. Returns how many. */
uint32_t term_bits_copy(const struct term_bits *bits, uint8_t *into, uint32_t bytes);

/* UTF-8 text of an atom, not terminated. Returns its length, 0 when it cannot be had. */
uint32_t term_atom(ErlNifEnv *env, ERL_NIF_TERM atom, uint8_t text[TERM_ATOM_BYTES]);

/* The hash of an atom's text that stands in the atom table. */
uint64_t term_hash_text(const uint8_t *text, uint32_t bytes);

/* An atom for a record; its text goes to the dictionary when it is the first time. */
uint32_t term_ring_atom(ErlNifEnv *env, struct ring *ring, ERL_NIF_TERM atom);

/* The shape of a message or value. */
void term_shape(ErlNifEnv *env, struct ring *ring, ERL_NIF_TERM term, struct ring_shape *shape);

/* The shape of {class, value} without such a tuple. */
void term_shape_pair(ErlNifEnv *env, struct ring *ring, ERL_NIF_TERM first, ERL_NIF_TERM second,
		     struct ring_shape *shape);

#endif
