/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SPEC_H
#define BEAMWEAVE_SPEC_H

/* Call specs as people type them. */

#include "config.h"

struct spec_error {
	size_t at; /* byte in the text that is wrong */
	const char *message;
};

/*
 * Mod, Mod:Fun, Mod:Fun/Arity; Elixir's Mod, Mod.fun, Mod.fun/arity; _ or * for any function or arity.
 * Atoms may be quoted. Returns 0 or -EINVAL with `error`.
 */
int spec_parse(const char *text, struct call_spec *spec, struct spec_error *error);

/* The lines that show where: the text and a caret below the wrong character. */
void spec_error_lines(const char *text, const struct spec_error *error, char *lines, size_t bytes);

#endif
