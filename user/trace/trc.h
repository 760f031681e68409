/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TRC_H
#define BEAMWEAVE_TRC_H

/*
 * The framing of OTP's trace ports, <<0, Size:32, Term:Size/binary>> and <<1, Dropped:32>>, from files
 * that dbg:trace_port(file, ...) made, or from CHUNK_TRC chunks. Nothing in it is trusted: a place that
 * is no frame is passed over up to the next one that holds a trace message.
 */

#include "file.h"
#include "trace_message.h"

/* Of a message more is left out in its middle: the last TRC_TAIL_BYTES hold its time. */
#define TRC_MESSAGE_MAX (1u << 20)
#define TRC_TAIL_BYTES	64u

struct trc_part {
	int fd; /* -1: a chunk */
	uint32_t chunk;
	uint64_t bytes; /* of the stream */
	uint64_t start; /* in all parts together */
	uint64_t offset; /* CHUNK_TRC: in its stream */
	uint64_t received_ns; /* 0 unknown */
	bool apart; /* no frame lies across its beginning */
};

struct trc_faults {
	uint64_t damaged; /* places that are no frame */
	uint64_t skipped_bytes;
	uint64_t truncated_bytes; /* of frames that end with their file */
};

struct trc {
	const struct file_reader *file;
	struct trc_part *parts;
	size_t count, capacity;

	/* where it is */
	size_t next; /* part to be read into the window */
	uint64_t next_at; /* and from where in it */
	uint64_t window_start; /* of the window's first byte, in all parts together */
	uint64_t segment_end; /* of what belongs together */
	size_t following; /* first part after that */
	size_t received; /* part that holds the end of the frame at hand */
	uint8_t *window;
	size_t at, end;
	uint8_t *payload; /* of the chunk at hand */
	size_t payload_bytes;
	uint32_t payload_chunk; /* UINT32_MAX: none */
	struct ring_term *term; /* the message at hand, as a record */
	struct trc_faults faults;
};

enum trc_what {
	TRC_END = 0,
	TRC_MESSAGE = 1, /* trc->term; received_ns */
	TRC_DROPPED = 2, /* `dropped` messages found no room in the port's queue */
	TRC_DAMAGE = 3, /* something is missing here */
};

struct trc_frame {
	uint64_t received_ns;
	uint32_t dropped;
};

/* Do these bytes begin as a file of a trace port does? Give it TRC_BEGIN_BYTES where there are so many. */
#define TRC_BEGIN_BYTES 32
bool trc_begins(const uint8_t *data, size_t bytes);

/* Take over the descriptor as the next part. 0 or -errno. */
int trc_add_file(struct trc *trc, int fd);
int trc_add_chunk(struct trc *trc, uint32_t chunk, uint64_t offset, uint64_t received_ns);
/* After the last part. 0 or -ENOMEM. */
int trc_begin(struct trc *trc);
void trc_rewind(struct trc *trc);
/* Returns enum trc_what or -errno. */
int trc_next(struct trc *trc, struct trc_frame *frame);
void trc_free(struct trc *trc);

/*
 * Add the file at `path`, or, when it belongs to a wrapped set, all files of the set in the order in
 * which they were written. `first` is a descriptor of the file itself, taken over. *note gets a line
 * for the user when there are more, to be freed. 0 or -errno.
 */
int trc_add_set(struct trc *trc, const char *path, int first, char **note);

#endif
