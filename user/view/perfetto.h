/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PERFETTO_H
#define BEAMWEAVE_PERFETTO_H

/* The whole recording as a Perfetto trace, for ui.perfetto.dev and its trace processor. */

#include <stdio.h>

#include "trace.h"

/*
 * Read `trace` from its start and write it to `out`, in one pass. Memory grows with the processes,
 * threads and sockets that are seen, not with the events. Returns 0 or -errno: -ENOMEM, what reading
 * the trace gave, -EPIPE and the like of `out`.
 */
int perfetto_write(struct trace *trace, FILE *out);

#endif
