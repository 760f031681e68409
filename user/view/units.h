/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_UNITS_H
#define BEAMWEAVE_UNITS_H

/* Quantities as people read them. Each call fills the caller's buffer and returns it. */

#include <stdint.h>

#define UNITS_TEXT 32

/* "840 ns", "12.4 ms", "1.50 s", "2 min 05 s", "3 h 20 min". Three digits that count. */
char *units_duration(char buffer[static UNITS_TEXT], uint64_t ns);
/* "512 B", "3.1 MB": powers of 1000. */
char *units_bytes(char buffer[static UNITS_TEXT], uint64_t bytes);
/* "8,214" */
char *units_count(char buffer[static UNITS_TEXT], uint64_t count);

/* For arguments of printf; the buffer lives to the end of the enclosing block. */
#define UNITS_DURATION(ns) units_duration((char[UNITS_TEXT]){0}, (ns))
#define UNITS_BYTES(bytes) units_bytes((char[UNITS_TEXT]){0}, (bytes))
#define UNITS_COUNT(count) units_count((char[UNITS_TEXT]){0}, (count))

/*
 * Parse "1ms", "500us", "1.5s", "2m", "1h", "100ns"; a bare number is seconds. Exact, no floating
 * point. Returns 0 or -EINVAL, -ERANGE.
 */
int units_parse_duration(const char *text, uint64_t *ns);

#endif
