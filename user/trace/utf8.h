/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_UTF8_H
#define BEAMWEAVE_UTF8_H

/* Characters of foreign text: whether they are any, and whether they may be shown. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Length of the character at the start of at least one byte, 0 when the bytes are no UTF-8 (RFC 3629:
 * no surrogates, no longer form than needed, nothing above U+10FFFF).
 */
size_t utf8_read(const char *data, size_t bytes, uint32_t *code);

/* C0 and C1 controls, separators of lines, and what reorders or hides text on a terminal. */
bool utf8_harmful(uint32_t code);

/* Put a '?' for every byte of what may not be shown. In place, the length stays. */
void utf8_clean(char *text);

#endif
