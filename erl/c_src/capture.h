/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CAPTURE_H
#define BEAMWEAVE_CAPTURE_H

/*
 * Terms into a record as External Term Format, within a budget of bytes and of depth. The budget
 * is kept while reading: what is not written is not looked at. See struct ring_capture for the
 * tuples that stand for what a NIF cannot encode within bounds.
 */

#include <stdbool.h>
#include <stdint.h>

#include <erl_nif.h>

#define CAPTURE_BYTES_MIN 64
#define CAPTURE_BYTES_MAX 8192
#define CAPTURE_DEPTH_MAX 16

/*
 * Encode a term into at most `bytes` (CAPTURE_BYTES_MIN at least) with the leading version byte.
 * *cut: something was left out. Returns the bytes written.
 */
uint32_t capture_term(ErlNifEnv *env, ERL_NIF_TERM term, uint8_t *into, uint32_t bytes,
		      uint32_t depth, bool redact, bool *cut);

#endif
