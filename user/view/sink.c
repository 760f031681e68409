/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SINK_BYTES (8u << 20)
/* What poll() promises: of a pipe one whole page, of a terminal's driver 256 characters. */
#define PIPE_STEP     PIPE_BUF
#define TERMINAL_STEP 256
#define FILE_STEP     (1u << 20) /* a file is always ready */

int sink_open(struct sink *sink, int fd)
{
	struct stat status;

	memset(sink, 0, sizeof(*sink));
	sink->fd = fd;
	sink->step = isatty(fd) ? TERMINAL_STEP : PIPE_STEP;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode))
		sink->step = FILE_STEP;
	sink->data = malloc(SINK_BYTES);
	return sink->data ? 0 : -ENOMEM;
}

void sink_close(struct sink *sink)
{
	free(sink->data);
	sink->data = NULL;
}

void sink_put(struct sink *sink, const char *line, size_t bytes)
{
	if (SINK_BYTES - sink->used < bytes && sink->start) {
		sink->used -= sink->start;
		memmove(sink->data, sink->data + sink->start, sink->used);
		sink->start = 0;
	}
	if (SINK_BYTES - sink->used < bytes) {
		sink->lost++;
		return;
	}
	memcpy(sink->data + sink->used, line, bytes);
	sink->used += bytes;
	sink->lines++;
}

/* Returns 1 when some was written, 0 when the reader takes nothing now, or -errno. */
static int sink_step(struct sink *sink, int wait_ms)
{
	struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
	size_t bytes = sink->used - sink->start;
	ssize_t done;

	if (poll(&ready, 1, wait_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	if (ready.revents & POLLERR)
		return -EPIPE;
	if (!bytes || !(ready.revents & POLLOUT))
		return 0;
	done = write(sink->fd, sink->data + sink->start, bytes < sink->step ? bytes : sink->step);
	if (done < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	sink->start += (size_t)done;
	if (sink->start == sink->used) {
		sink->start = 0;
		sink->used = 0;
	}
	return 1;
}

int sink_flush(struct sink *sink)
{
	int done;

	while ((done = sink_step(sink, 0)) > 0)
		;
	return done;
}

int sink_finish(struct sink *sink, int patience_ms)
{
	int done = 1;

	while (sink->used && (done = sink_step(sink, patience_ms)) > 0)
		;
	for (size_t at = sink->start; at < sink->used; at++) {
		if (sink->data[at] != '\n')
			continue;
		sink->lost++;
		sink->lines--;
	}
	sink->start = 0;
	sink->used = 0;
	return done < 0 ? done : 0;
}
