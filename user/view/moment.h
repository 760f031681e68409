/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_MOMENT_H
#define BEAMWEAVE_MOMENT_H

/* Moments of a recording as people read and type them: wall-clock time in the reader's time zone. */

#include <stdint.h>

#include "trace.h"

#define MOMENT_TEXT 48

/* "14:03:05.123456" */
char *moment_time(char buffer[static MOMENT_TEXT], const struct trace *trace, uint64_t ts_ns);
/* "14:03:05" */
char *moment_seconds(char buffer[static MOMENT_TEXT], const struct trace *trace, uint64_t ts_ns);
/* "2026-11-30 14:03:05" */
char *moment_date(char buffer[static MOMENT_TEXT], const struct trace *trace, uint64_t ts_ns);
/* "2026-11-30T14:03:05.123456+01:00", for machines. */
char *moment_iso(char buffer[static MOMENT_TEXT], const struct trace *trace, uint64_t ts_ns);

/* For arguments of printf; the buffer lives to the end of the enclosing block. */
#define MOMENT_TIME(trace, ts_ns)    moment_time((char[MOMENT_TEXT]){0}, (trace), (ts_ns))
#define MOMENT_SECONDS(trace, ts_ns) moment_seconds((char[MOMENT_TEXT]){0}, (trace), (ts_ns))

/*
 * What a person typed, as CLOCK_MONOTONIC of the recording: "14:03", "14:03:05" or "14:03:05.123" (the
 * day that lies nearest to the recording), "+1.5s" after its start, or "123456789ns" of its clock.
 * Returns 0 or -EINVAL.
 */
int moment_parse(const struct trace *trace, const char *text, uint64_t *ts_ns);

#endif
