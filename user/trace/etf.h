/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_ETF_H
#define BEAMWEAVE_ETF_H

/*
 * Walking the External Term Format of a file that nobody vouches for: nothing beyond `end` is read, no
 * length is trusted, nothing recurses. ei's decoders take no length.
 */

#include <stdbool.h>
#include <stdint.h>

struct etf {
	const uint8_t *at, *end;
};

/* UTF-8 of an atom: 255 characters of up to 4 bytes. */
#define ETF_ATOM_BYTES 1024

enum etf_tag {
	ETF_NEW_FLOAT = 70,
	ETF_BIT_BINARY = 77,
	ETF_NEW_PID = 88,
	ETF_NEW_PORT = 89,
	ETF_NEWER_REFERENCE = 90,
	ETF_SMALL_INTEGER = 97,
	ETF_INTEGER = 98,
	ETF_FLOAT = 99,
	ETF_ATOM = 100,
	ETF_REFERENCE = 101,
	ETF_PORT = 102,
	ETF_PID = 103,
	ETF_SMALL_TUPLE = 104,
	ETF_LARGE_TUPLE = 105,
	ETF_NIL = 106,
	ETF_STRING = 107,
	ETF_LIST = 108,
	ETF_BINARY = 109,
	ETF_SMALL_BIG = 110,
	ETF_LARGE_BIG = 111,
	ETF_NEW_FUN = 112,
	ETF_EXPORT = 113,
	ETF_NEW_REFERENCE = 114,
	ETF_SMALL_ATOM = 115,
	ETF_MAP = 116,
	ETF_FUN = 117,
	ETF_ATOM_UTF8 = 118,
	ETF_SMALL_ATOM_UTF8 = 119,
	ETF_V4_PORT = 120,
};

/* The tag of the term at hand, 0 at the end. */
uint8_t etf_tag(const struct etf *etf);
/* Pass over one term. False, and nothing moved, when it is not whole or not known. */
bool etf_skip(struct etf *etf);
/* Each takes a term of its kind and returns true, or moves nothing and returns false. */
bool etf_integer(struct etf *etf, int64_t *value);
bool etf_tuple(struct etf *etf, uint32_t *arity);
/* The number of elements of a list that is no string; its elements and its tail follow. */
bool etf_list(struct etf *etf, uint32_t *count);
/* UTF-8, not terminated. */
bool etf_atom(struct etf *etf, char text[ETF_ATOM_BYTES], uint32_t *bytes);
/* Is the term at hand the atom `name`, in ASCII? Moves nothing. */
bool etf_is(const struct etf *etf, const char *name);
/* Bits of a binary: whole bytes, then `tail` bits in one more. */
bool etf_binary(struct etf *etf, const uint8_t **data, uint32_t *bytes, uint32_t *tail);

/* A pid, port or reference. */
struct etf_id {
	const uint8_t *node; /* its node's atom and, behind it, the creation */
	uint32_t node_bytes;
	const uint8_t *creation;
	uint32_t creation_bytes;
	uint64_t number; /* of a reference its first word */
	uint32_t serial; /* of a pid */
};

bool etf_pid(struct etf *etf, struct etf_id *id);
bool etf_port(struct etf *etf, struct etf_id *id);
bool etf_reference(struct etf *etf, struct etf_id *id);
/* Do two stand for things of one node? */
bool etf_same_node(const struct etf_id *left, const struct etf_id *right);

#endif
