/* SPDX-License-Identifier: Apache-2.0 */
#include "trc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTS_MAX    (1u << 20)
#define WINDOW_BYTES (TRC_MESSAGE_MAX + (1u << 16))
#define FRAME_HEAD   5u
#define OP_MESSAGE   0
#define OP_DROPPED   1
#define VERSION	     131

static uint32_t number_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Does a frame with a trace message begin here? As far as its first bytes tell. */
static bool message_begins(const uint8_t *data, size_t bytes)
{
	struct etf etf = {data + FRAME_HEAD + 1, data + bytes};
	uint32_t arity;

	return bytes > FRAME_HEAD + 1 && data[0] == OP_MESSAGE && data[FRAME_HEAD] == VERSION &&
	       etf_tag(&etf) == ETF_SMALL_TUPLE && etf_tuple(&etf, &arity) && arity >= 3 &&
	       arity <= 8 &&
	       (etf_is(&etf, "trace") || etf_is(&etf, "trace_ts") || etf_is(&etf, "seq_trace"));
}

bool trc_begins(const uint8_t *data, size_t bytes)
{
	if (bytes >= 2 * FRAME_HEAD && data[0] == OP_DROPPED)
		return message_begins(data + FRAME_HEAD, bytes - FRAME_HEAD);
	return message_begins(data, bytes);
}

/* ---- Parts ---- */

static int part_add(struct trc *trc, const struct trc_part *part)
{
	if (trc->count == trc->capacity) {
		size_t capacity = trc->capacity ? trc->capacity * 2 : 16;
		struct trc_part *parts;

		if (capacity > PARTS_MAX)
			return -E2BIG;
		parts = realloc(trc->parts, capacity * sizeof(*parts));
		if (!parts)
			return -ENOMEM;
		trc->parts = parts;
		trc->capacity = capacity;
	}
	trc->parts[trc->count++] = *part;
	return 0;
}

int trc_add_file(struct trc *trc, int fd)
{
	struct trc_part part = {.fd = fd, .apart = true};
	struct stat status;
	int error = fstat(fd, &status) ? -errno : 0;

	part.bytes = error ? 0 : (uint64_t)status.st_size;
	if (!error)
		error = part_add(trc, &part);
	if (error)
		close(fd);
	return error;
}

int trc_add_chunk(struct trc *trc, uint32_t chunk, uint64_t offset, uint64_t received_ns)
{
	struct trc_part part = {
		.fd = -1, .chunk = chunk, .offset = offset, .received_ns = received_ns};

	part.bytes = trc->file->chunks[chunk].header.bytes - sizeof(struct chunk_trc);
	return part.bytes ? part_add(trc, &part) : 0;
}

static int part_compare(const void *left, const void *right)
{
	const struct trc_part *a = left, *b = right;

	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

int trc_begin(struct trc *trc)
{
	uint64_t start = 0;

	trc->window = malloc(WINDOW_BYTES);
	trc->term = malloc(sizeof(*trc->term) + TRC_MESSAGE_MAX);
	if (!trc->window || !trc->term)
		return -ENOMEM;
	if (trc->count && trc->parts[0].fd < 0)
		qsort(trc->parts, trc->count, sizeof(*trc->parts), part_compare);
	for (size_t i = 0; i < trc->count; i++) {
		struct trc_part *part = &trc->parts[i], *before = part - 1;

		part->start = start;
		start += part->bytes;
		if (!i || (part->fd < 0 && before->offset + before->bytes != part->offset))
			part->apart = true;
	}
	trc_rewind(trc);
	return 0;
}

void trc_rewind(struct trc *trc)
{
	trc->next = 0;
	trc->next_at = 0;
	trc->window_start = 0;
	trc->segment_end = 0;
	trc->following = 0;
	trc->received = 0;
	trc->at = 0;
	trc->end = 0;
	trc->payload_chunk = UINT32_MAX;
	memset(&trc->faults, 0, sizeof(trc->faults));
}

void trc_free(struct trc *trc)
{
	for (size_t i = 0; i < trc->count; i++) {
		if (trc->parts[i].fd >= 0)
			close(trc->parts[i].fd);
	}
	free(trc->parts);
	free(trc->window);
	free(trc->payload);
	free(trc->term);
	memset(trc, 0, sizeof(*trc));
}

/* ---- The window ---- */

/* Returns the bytes that were read, 0 when the part has no more, or -errno. */
static ssize_t part_read(struct trc *trc, const struct trc_part *part, uint64_t from, uint8_t *into,
			 size_t bytes)
{
	const struct chunk *chunk;
	ssize_t done;

	if (bytes > part->bytes - from)
		bytes = part->bytes - from;
	if (part->fd >= 0) {
		do
			done = pread(part->fd, into, bytes, (off_t)from);
		while (done < 0 && errno == EINTR);
		return done < 0 ? -errno : done;
	}
	chunk = &trc->file->chunks[part->chunk];
	if (trc->payload_chunk != part->chunk) {
		if (chunk->header.bytes > trc->payload_bytes) {
			uint8_t *payload = realloc(trc->payload, chunk->header.bytes);

			if (!payload)
				return -ENOMEM;
			trc->payload = payload;
			trc->payload_bytes = chunk->header.bytes;
		}
		trc->payload_chunk = UINT32_MAX;
		if (file_read(trc->file, chunk, trc->payload))
			return 0;
		trc->payload_chunk = part->chunk;
	}
	memcpy(into, trc->payload + sizeof(struct chunk_trc) + from, bytes);
	return (ssize_t)bytes;
}

static uint64_t position(const struct trc *trc)
{
	return trc->window_start + trc->at;
}

/* What is left of what belongs together. */
static uint64_t segment_left(const struct trc *trc)
{
	return trc->segment_end - position(trc);
}

/*
 * Have `bytes` bytes, at most what is left of the segment, at trc->at. Returns 1, 0 when the file gives
 * less than it said, or -errno.
 */
static int window_want(struct trc *trc, size_t bytes)
{
	if (trc->end - trc->at >= bytes)
		return 1;
	memmove(trc->window, trc->window + trc->at, trc->end - trc->at);
	trc->window_start += trc->at;
	trc->end -= trc->at;
	trc->at = 0;
	while (trc->end < bytes) {
		const struct trc_part *part = &trc->parts[trc->next];
		uint64_t room = trc->segment_end - (trc->window_start + trc->end);
		ssize_t done;

		if (room > WINDOW_BYTES - trc->end)
			room = WINDOW_BYTES - trc->end;
		done = part_read(trc, part, trc->next_at, trc->window + trc->end, room);
		if (done < 0)
			return (int)done;
		if (!done && trc->next_at < part->bytes) {
			/* It became shorter: what it has no more counts as passed over. */
			trc->segment_end = trc->window_start + trc->end;
			return 0;
		}
		trc->end += (size_t)done;
		trc->next_at += (uint64_t)done;
		if (trc->next_at == part->bytes && trc->next + 1 < trc->count) {
			trc->next++;
			trc->next_at = 0;
		}
	}
	return 1;
}

/* Go on `bytes` bytes, at most what is left of the segment. */
static int window_pass(struct trc *trc, uint64_t bytes)
{
	while (bytes) {
		size_t step = bytes < WINDOW_BYTES ? bytes : WINDOW_BYTES;
		int found = window_want(trc, step);

		if (found <= 0)
			return found;
		trc->at += step;
		bytes -= step;
	}
	return 1;
}

/* To the next segment. Returns false at the end of all. */
static bool segment_next(struct trc *trc)
{
	size_t part = trc->following;

	if (part >= trc->count)
		return false;
	trc->next = part;
	trc->next_at = 0;
	trc->at = 0;
	trc->end = 0;
	trc->window_start = trc->parts[part].start;
	do
		trc->segment_end = trc->parts[part].start + trc->parts[part].bytes;
	while (++part < trc->count && !trc->parts[part].apart);
	trc->following = part;
	return true;
}

/* ---- Frames ---- */

static uint64_t received_find(struct trc *trc, uint64_t end)
{
	while (trc->received + 1 < trc->count &&
	       trc->parts[trc->received].start + trc->parts[trc->received].bytes < end)
		trc->received++;
	return trc->parts[trc->received].received_ns;
}

/* Pass over what is no frame. Returns TRC_DAMAGE or -errno. */
static int damage_pass(struct trc *trc)
{
	uint64_t left = segment_left(trc);
	int found;

	trc->faults.damaged++;
	if (!left)
		return TRC_DAMAGE;
	trc->at++;
	trc->faults.skipped_bytes++;
	while ((left = segment_left(trc))) {
		size_t look = left < TRC_BEGIN_BYTES ? left : TRC_BEGIN_BYTES;

		found = window_want(trc, look);
		if (found < 0)
			return found;
		if (!found)
			continue;
		if (message_begins(trc->window + trc->at, look) &&
		    FRAME_HEAD + (uint64_t)number_at(trc->window + trc->at + 1) <= left)
			break;
		trc->at++;
		trc->faults.skipped_bytes++;
	}
	return TRC_DAMAGE;
}

/* The segment ends within a frame. */
static int cut_take(struct trc *trc)
{
	trc->faults.truncated_bytes += segment_left(trc);
	trc->at = trc->end;
	trc->segment_end = position(trc);
	return TRC_DAMAGE;
}

/* The message of `size` bytes, from its 131 on, at hand to trc->term. Returns 1, 0, -errno. */
static int message_take(struct trc *trc, uint32_t size)
{
	struct ring_term *term = trc->term;
	uint8_t *data = (uint8_t *)(term + 1);
	uint32_t whole = size - 1;
	uint32_t head = whole < TRC_MESSAGE_MAX ? whole : TRC_MESSAGE_MAX - TRC_TAIL_BYTES;
	int found = window_want(trc, 1 + head);

	if (found <= 0)
		return found;
	memset(term, 0, sizeof(*term));
	memcpy(data, trc->window + trc->at + 1, head);
	trc->at += 1 + head;
	term->bytes = head;
	if (head < whole) {
		found = window_pass(trc, whole - head - TRC_TAIL_BYTES);
		if (found > 0)
			found = window_want(trc, TRC_TAIL_BYTES);
		if (found <= 0)
			return found;
		memcpy(data + head, trc->window + trc->at, TRC_TAIL_BYTES);
		trc->at += TRC_TAIL_BYTES;
		term->bytes += TRC_TAIL_BYTES;
		term->tail_bytes = TRC_TAIL_BYTES;
	}
	return 1;
}

/* Is it a message that can be decoded? */
static bool message_good(struct trc *trc)
{
	struct message_bytes bytes = {(const uint8_t *)(trc->term + 1), trc->term->bytes,
				      trc->term->tail_bytes};
	struct message_time time;
	uint32_t kind;

	if (message_peek(&bytes, &kind, &time))
		return false;
	trc->term->h.kind = (uint8_t)kind;
	trc->term->h.flags = RING_F_TERM | (bytes.tail_bytes ? RING_F_CUT : 0);
	return true;
}

int trc_next(struct trc *trc, struct trc_frame *frame)
{
	uint64_t left;
	uint32_t size;
	int found;

	memset(frame, 0, sizeof(*frame));
	do {
		left = segment_left(trc);
		if (!left && !segment_next(trc))
			return TRC_END;
		left = segment_left(trc);
	} while (!left);
	found = window_want(trc, left < TRC_BEGIN_BYTES ? left : TRC_BEGIN_BYTES);
	if (found < 0)
		return found;
	if (!found || left < FRAME_HEAD)
		return found && trc->window[trc->at] > OP_DROPPED ? damage_pass(trc)
								  : cut_take(trc);
	size = number_at(trc->window + trc->at + 1);
	if (trc->window[trc->at] == OP_DROPPED) {
		trc->at += FRAME_HEAD;
		frame->received_ns = received_find(trc, position(trc));
		frame->dropped = size;
		return TRC_DROPPED;
	}
	if (!message_begins(trc->window + trc->at, left < TRC_BEGIN_BYTES ? left : TRC_BEGIN_BYTES))
		return left < TRC_BEGIN_BYTES && trc->window[trc->at] == OP_MESSAGE &&
				       size > left - FRAME_HEAD
			       ? cut_take(trc)
			       : damage_pass(trc);
	if (size > left - FRAME_HEAD) {
		/* Cut off with the file, unless whole frames follow. */
		uint64_t skipped = trc->faults.skipped_bytes;

		found = damage_pass(trc);
		if (found < 0 || segment_left(trc))
			return found;
		trc->faults.damaged--;
		trc->faults.truncated_bytes += trc->faults.skipped_bytes - skipped;
		trc->faults.skipped_bytes = skipped;
		return TRC_DAMAGE;
	}
	trc->at += FRAME_HEAD;
	found = message_take(trc, size);
	if (found < 0)
		return found;
	if (!found)
		return cut_take(trc);
	if (!message_good(trc)) {
		trc->faults.damaged++;
		return TRC_DAMAGE;
	}
	frame->received_ns = received_find(trc, position(trc));
	return TRC_MESSAGE;
}
