/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SINK_H
#define BEAMWEAVE_SINK_H

/* Lines to a descriptor that is never waited for: what its reader does not take in time is lost. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_EAGER (1u << 20) /* bytes that are better written before more come */

struct sink {
	int fd; /* borrowed, left in the mode in which it is */
	size_t step; /* bytes that a ready descriptor takes without blocking */
	char *data;
	size_t start, used;
	uint64_t lines, lost; /* taken, and given up */
};

/* 0 or -ENOMEM. */
int sink_open(struct sink *sink, int fd);
void sink_close(struct sink *sink);
/* Take a line, its end included, or count it as lost when the buffer is full. */
void sink_put(struct sink *sink, const char *line, size_t bytes);
/* Write what can be written now. Returns 0 or -errno: -EPIPE when nobody reads any more. */
int sink_flush(struct sink *sink);
/* Write the rest; a reader that takes nothing for `patience_ms` loses it, and it is counted. */
int sink_finish(struct sink *sink, int patience_ms);

#endif
