/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SANITIZE_H
#define BEAMWEAVE_SANITIZE_H

/*
 * Text from a hostile file, made safe for a terminal and for JSON: valid UTF-8 without control
 * characters (C0, DEL, C1), without line and paragraph separators and without marks that reorder or
 * hide text. Each offending byte or character becomes one '?'.
 */

#include <stddef.h>

/*
 * Copy up to `bytes` of `in`, which need not be terminated, into `out`, cut at a whole character so
 * that it fits `size` with its final 0. Returns the length written.
 */
size_t sanitize_copy(char *out, size_t size, const char *in, size_t bytes);
/* The same as a new string, NULL when there is no memory. '\n' is kept when `lines`. */
char *sanitize_new(const char *in, size_t bytes, int lines);

/* Columns that sanitized text takes on a terminal. */
size_t sanitize_columns(const char *text);
/* The longest prefix that takes at most `columns`, in bytes; *used, when given: what it takes. */
size_t sanitize_prefix(const char *text, size_t columns, size_t *used);

#endif
