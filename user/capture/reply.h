/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_REPLY_H
#define BEAMWEAVE_REPLY_H

/* Terms that come from a node. ei decodes without knowing where they end, so they are checked first. */

#include <ei.h>

/*
 * Is there one whole term at `index` that ends within `bytes`, nested at most 64 deep? After that
 * ei's functions stay inside. Returns the index behind it, or -EINVAL.
 */
int64_t term_check(const char *data, size_t bytes, size_t index);

/* A checked term as Erlang text, cut to fit. */
void term_text(const char *data, int index, char *text, size_t bytes);
/* A checked binary, string, atom or anything else as text, cut to fit. Moves the index on. */
void term_words(const char *data, int *index, char *text, size_t bytes);

#endif
