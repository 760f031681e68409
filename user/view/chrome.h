/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CHROME_H
#define BEAMWEAVE_CHROME_H

/*
 * The recording in the Trace Event Format, a JSON object, for chrome://tracing-style viewers and
 * speedscope. Times are CLOCK_MONOTONIC in microseconds with three decimals, so whole nanoseconds.
 *
 * All ids are numbers. A "process" of the format is a group of rows here, a "thread" is a row:
 * CPUs, threads of the VM (their states), schedulers (what they executed), Erlang processes (a row of
 * runs, a row of calls and collections), Erlang ports, sockets, stalls, loss. Intervals are complete
 * events (X); a message is an instant at either end, a flow from send to fetch and an asynchronous
 * slice for the time that it waited.
 */

#include <stdint.h>
#include <stdio.h>

#include "trace.h"

/* Viewers take a file of this size slowly, or not at all. */
#define CHROME_LARGE_BYTES 100000000u

/*
 * Read `trace` from its start and write what lies at least in part between from_ns and to_ns (0,
 * UINT64_MAX: all) to `out`. Memory grows with the Erlang processes that are seen. Returns 0 or -errno:
 * -ENOMEM, what reading gave, -EPIPE and the like of `out`.
 */
int chrome_write(struct trace *trace, FILE *out, uint64_t from_ns, uint64_t to_ns);

#endif
