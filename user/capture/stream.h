/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_STREAM_H
#define BEAMWEAVE_STREAM_H

/*
 * What comes of OTP's IP trace port: its bytes, as they are, and the dictionary that the node's side
 * tells when it is asked. One thread asks, another one moves both into a recording.
 */

#include <stdbool.h>
#include <stdint.h>

#include "door.h"
#include "file.h"
#include "rings.h"
#include "start.h"

struct stream;

/*
 * Connect to the port over loopback, in the network namespace of the calling thread, and see that it
 * is us whom it serves. Returns 0, -EBUSY (somebody else was there first), -errno with the fault.
 */
int stream_open(struct stream **stream, const struct start_port *port, uint64_t deadline_ns,
		struct fault *fault);
void stream_close(struct stream *stream);

/*
 * Ask the node's side once a second, until it has ended and told all, or answers no more. The door's
 * deadline moves along.
 */
void stream_serve(struct stream *stream, struct door *door);
/* Have the node's side end. */
void stream_stop(struct stream *stream);
/* Is nothing more to come, neither bytes nor entries? */
bool stream_over(struct stream *stream);

/* enum ring_tracer_state and enum ring_end_reason, as the node's side told them last. */
uint32_t stream_tracer(struct stream *stream);
uint32_t stream_end_reason(struct stream *stream);

/* Bytes wait to be moved when it is readable; -1 at its end. */
int stream_fd(const struct stream *stream);
/* Move what has come. Returns bytes or -errno of the writer. */
int64_t stream_drain(struct stream *stream, struct file_writer *writer, uint64_t max_bytes);
/* The same for the dictionary; lines for the user are shown too. */
int64_t stream_drain_names(struct stream *stream, struct file_writer *writer, rings_note_fn note,
			   void *context);
/* Messages that came, and that the port had no room for. */
void stream_counts(const struct stream *stream, struct rings_counts *counts);

#endif
