/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RING_TERM_H
#define BEAMWEAVE_RING_TERM_H

/*
 * A glance at a trace message in External Term Format: what kind of event it is, and when the VM says
 * that it was. Everything else is the reader's work. Any bytes may come; none beyond the end is read,
 * and the cost does not grow with the message.
 */

#include <stdint.h>

#include "ring.h"

/* Is this {trace, ...}, {trace_ts, ...} or {seq_trace, ...}, with its leading 131? */
int ring_term_is_trace(const uint8_t *etf, uint64_t bytes);

/* The kind of a trace message; RING_UNKNOWN when it has none that we know. */
enum ring_kind ring_term_kind(const uint8_t *etf, uint64_t bytes);

enum ring_term_clock {
	RING_TERM_NO_CLOCK = 0, /* no timestamp, or none that can be told */
	RING_TERM_MONOTONIC = 1, /* erlang:monotonic_time(nanosecond) */
	RING_TERM_SYSTEM = 2, /* erlang:system_time(nanosecond), in whole microseconds */
};

/* The timestamp that stands last in a {trace_ts, ...}. */
enum ring_term_clock ring_term_time(const uint8_t *etf, uint64_t bytes, int64_t *time_ns);

#endif
