/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TEXT_H
#define BEAMWEAVE_TEXT_H

/*
 * Texts built in a buffer of fixed size. What comes from a recording is made harmless on its way in:
 * control characters, what turns the direction of writing, and what is no UTF-8 become U+FFFD.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Always terminated by 0. Once something did not fit nothing more is added and `cut` is set. */
struct text_builder {
	char *data;
	size_t size, used;
	bool cut;
};

/* `size` is at least 4, so that text_finish() has room. */
void text_begin(struct text_builder *text, char *data, size_t size);
/* End with "..." when it was cut. Returns the length. */
size_t text_finish(struct text_builder *text);

/* Trusted text as it stands, whole or not at all. */
void text_add(struct text_builder *text, const char *more);
__attribute__((format(printf, 2, 3))) void text_format(struct text_builder *text,
						       const char *format, ...);
/* Foreign text, made harmless, up to where it is cut. */
void text_add_clean(struct text_builder *text, const char *data, size_t bytes);
/* Foreign text as the inside of a JSON string. */
void text_add_json(struct text_builder *text, const char *data, size_t bytes);

/* An atom as Erlang prints it, quoted where needed. */
void text_add_atom(struct text_builder *text, const char *data, size_t bytes);
/* "mod:fun/1", or "Mod.fun/1" for an Elixir module. */
void text_add_mfa(struct text_builder *text, const char *module, const char *function,
		  uint32_t arity);
/* The same of a text "mod:fun/1" whose module an Erlang node printed. */
void text_add_mfa_text(struct text_builder *text, const char *data, size_t bytes);

/* A harmless copy on the heap, NULL with ENOMEM. */
char *text_clean_copy(const char *data, size_t bytes);

#endif
