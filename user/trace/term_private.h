/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TERM_PRIVATE_H
#define BEAMWEAVE_TERM_PRIVATE_H

/* What the two files that print terms share and nobody else sees. */

#include "names.h"
#include "text.h"

struct term {
	const uint8_t *at, *end;
	const struct names *names;
	struct text_builder text;
	uint32_t depth;
	bool arguments; /* the outermost list is no text, whatever stands in it */
	bool stopped; /* what follows cannot be read */
};

/* Nothing more can be read: the text says so. */
void term_stop(struct term *term);
/* Are there so many bytes? If not, it stops. */
bool term_has(struct term *term, uint64_t bytes);
/* Big-endian; the caller looked that it is there. */
uint64_t term_number(struct term *term, uint32_t bytes);

/* What follows a tag that holds no other terms. */
void term_big_add(struct term *term, uint32_t bytes);
void term_float_add(struct term *term);
void term_old_float_add(struct term *term);
void term_string_add(struct term *term);
/* Are these `count` bytes, each `stride` behind the one before, a text? And as such, in quotes. */
bool term_chars_printable(const uint8_t *data, uint64_t count, uint32_t stride);
void term_chars_add(struct term *term, const uint8_t *data, uint64_t count, uint32_t stride);
/* A binary of `bytes` bytes, of whose last byte only `last_bits` count; `end` closes it. */
void term_binary_add(struct term *term, uint64_t bytes, uint32_t last_bits, const char *end);

#endif
