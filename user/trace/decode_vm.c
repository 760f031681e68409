/* SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "terms.h"

/* Bytes of a kind's fixed part; what follows it is a capture. 0: not known to this version. */
static const uint16_t kind_bytes[RING_KINDS] = {
	[RING_UNKNOWN] = sizeof(struct ring_other),
	[RING_CALL] = sizeof(struct ring_call),
	[RING_RETURN_TO] = sizeof(struct ring_return_to),
	[RING_RETURN_FROM] = sizeof(struct ring_value),
	[RING_EXCEPTION_FROM] = sizeof(struct ring_value),
	[RING_SEND] = sizeof(struct ring_send),
	[RING_SEND_NOPROC] = sizeof(struct ring_send),
	[RING_RECEIVE] = sizeof(struct ring_receive),
	[RING_IN] = sizeof(struct ring_run),
	[RING_OUT] = sizeof(struct ring_run),
	[RING_IN_EXITING] = sizeof(struct ring_run),
	[RING_OUT_EXITING] = sizeof(struct ring_run),
	[RING_OUT_EXITED] = sizeof(struct ring_run),
	[RING_GC_MINOR_START] = sizeof(struct ring_gc),
	[RING_GC_MINOR_END] = sizeof(struct ring_gc),
	[RING_GC_MAJOR_START] = sizeof(struct ring_gc),
	[RING_GC_MAJOR_END] = sizeof(struct ring_gc),
	[RING_GC_MAX_HEAP] = sizeof(struct ring_gc),
	[RING_SPAWN] = sizeof(struct ring_spawn),
	[RING_SPAWNED] = sizeof(struct ring_spawn),
	[RING_EXIT] = sizeof(struct ring_value),
	[RING_LINK] = sizeof(struct ring_peer),
	[RING_UNLINK] = sizeof(struct ring_peer),
	[RING_GETTING_LINKED] = sizeof(struct ring_peer),
	[RING_GETTING_UNLINKED] = sizeof(struct ring_peer),
	[RING_REGISTER] = sizeof(struct ring_name),
	[RING_UNREGISTER] = sizeof(struct ring_name),
	[RING_PORT_OPEN] = sizeof(struct ring_port_open),
	[RING_PORT_CLOSED] = sizeof(struct ring_value),
	[RING_PORT_IN] = sizeof(struct ring_name),
	[RING_PORT_OUT] = sizeof(struct ring_name),
};

void vm_decoder_free(struct vm_decoder *decoder)
{
	free(decoder->pieces);
	free(decoder->buffer);
	decoder->pieces = NULL;
	decoder->buffer = NULL;
	decoder->count = 0;
}

int vm_decoder_add(struct vm_decoder *decoder, uint32_t chunk, const struct chunk_vm *head)
{
	if (decoder->count == decoder->capacity) {
		size_t capacity = decoder->capacity ? decoder->capacity * 2 : 64;
		struct vm_piece *pieces = realloc(decoder->pieces, capacity * sizeof(*pieces));

		if (!pieces)
			return -ENOMEM;
		decoder->pieces = pieces;
		decoder->capacity = capacity;
	}
	decoder->pieces[decoder->count].sequence = head->sequence;
	decoder->pieces[decoder->count].from = head->from;
	decoder->pieces[decoder->count].chunk = chunk;
	decoder->count++;
	return 0;
}

static int piece_compare(const void *left, const void *right)
{
	const struct vm_piece *a = left, *b = right;

	if (a->sequence != b->sequence)
		return a->sequence < b->sequence ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

void vm_decoder_sort(struct vm_decoder *decoder)
{
	for (size_t i = 1; i < decoder->count; i++) {
		if (piece_compare(&decoder->pieces[i - 1], &decoder->pieces[i]) > 0) {
			qsort(decoder->pieces, decoder->count, sizeof(*decoder->pieces),
			      piece_compare);
			return;
		}
	}
}

void vm_decoder_rewind(struct vm_decoder *decoder)
{
	decoder->next = 0;
	decoder->at = 0;
	decoder->end = 0;
	decoder->sequence = 0;
	decoder->covered = 0;
	decoder->last_ns = 0;
	decoder->header_seen = false;
	decoder->gap = false;
	decoder->gap_open = false;
	memset(decoder->accounted, 0, sizeof(decoder->accounted));
	memset(decoder->before, 0, sizeof(decoder->before));
	memset(decoder->discarded, 0, sizeof(decoder->discarded));
	memset(decoder->discarded_before, 0, sizeof(decoder->discarded_before));
	memset(decoder->given, 0, sizeof(decoder->given));
	memset(&decoder->faults, 0, sizeof(decoder->faults));
}

/* ---- The account ---- */

static void gap_note(struct vm_decoder *decoder, bool whole)
{
	if (!decoder->gap) {
		decoder->gap = true;
		decoder->gap_whole = whole;
		decoder->gap_from_ns = decoder->last_ns ? decoder->last_ns : decoder->origin_ns;
	}
	decoder->gap_whole = decoder->gap_whole && whole;
	decoder->gap_open = true;
	decoder->gap_to_ns = 0;
}

static int loss_give(struct vm_decoder *decoder, struct loss *loss)
{
	if (!loss->count || !decoder->loss_fn)
		return 0;
	loss->ring = decoder->ring;
	if (loss->to_ns < loss->from_ns)
		loss->to_ns = loss->from_ns;
	return decoder->loss_fn(decoder->loss_context, loss);
}

static void loss_count(struct loss *loss, uint32_t kind, uint64_t now, uint64_t before)
{
	/* Counts that fall were damaged in memory: what they say is not used. */
	loss->counts[kind] = now > before ? now - before : 0;
	loss->count += loss->counts[kind];
}

/*
 * Counts as they were at `now_ns`, against what was decoded before. What is missing was lost between
 * the last record before the gap and the first one after it.
 */
static int account_recorded(struct vm_decoder *decoder, const uint64_t *recorded, uint64_t now_ns)
{
	struct loss loss = {.why = decoder->overwrite && (!decoder->gap || decoder->gap_whole) &&
						   !decoder->file->damage.damaged_chunks
					   ? "overwritten"
					   : "damaged"};

	for (uint32_t kind = 0; kind < RING_KINDS; kind++) {
		loss_count(&loss, kind, recorded[kind], decoder->accounted[kind]);
		decoder->accounted[kind] += loss.counts[kind];
	}
	loss.from_ns = decoder->gap ? decoder->gap_from_ns : decoder->last_ns;
	if (!loss.from_ns || loss.from_ns > now_ns)
		loss.from_ns = decoder->origin_ns < now_ns ? decoder->origin_ns : now_ns;
	loss.to_ns = decoder->gap && !decoder->gap_open ? decoder->gap_to_ns : now_ns;
	decoder->gap = false;
	decoder->gap_open = false;
	return loss_give(decoder, &loss);
}

static int account_discarded(struct vm_decoder *decoder, const uint64_t *discarded,
			     uint64_t first_ns, uint64_t last_ns, uint64_t now_ns)
{
	struct loss loss = {.why = "discarded"};

	for (uint32_t kind = 0; kind < RING_KINDS; kind++) {
		loss_count(&loss, kind, discarded[kind], decoder->discarded[kind]);
		decoder->discarded[kind] += loss.counts[kind];
	}
	/* After a gap, headers that told of earlier losses are missing too: the loss began there. */
	if (!first_ns || first_ns > now_ns ||
	    (decoder->gap && decoder->gap_from_ns < first_ns && decoder->header_seen))
		first_ns = decoder->gap ? decoder->gap_from_ns : decoder->last_ns;
	if (!first_ns || first_ns > now_ns)
		first_ns = decoder->origin_ns < now_ns ? decoder->origin_ns : now_ns;
	loss.from_ns = first_ns;
	loss.to_ns = last_ns && last_ns <= now_ns ? last_ns : now_ns;
	return loss_give(decoder, &loss);
}

/*
 * The first header of a thread that does not begin with its first sub-buffer: in discard mode an
 * earlier reader has the rest, and it is not ours to account for.
 */
static void account_begin(struct vm_decoder *decoder, const struct ring_subbuf *header)
{
	if (header->sequence <= 1 || decoder->overwrite || decoder->file->damage.damaged_chunks)
		return;
	for (uint32_t kind = 0; kind < RING_KINDS; kind++) {
		if (header->recorded[kind] > decoder->accounted[kind])
			decoder->before[kind] = header->recorded[kind] - decoder->accounted[kind];
		decoder->accounted[kind] += decoder->before[kind];
	}
	if (header->loss_first_ns >= decoder->origin_ns)
		return;
	memcpy(decoder->discarded_before, header->discarded, sizeof(decoder->discarded_before));
	memcpy(decoder->discarded, header->discarded, sizeof(decoder->discarded));
}

static int header_account(struct vm_decoder *decoder, const struct ring_subbuf *header)
{
	int error;

	if (!decoder->header_seen)
		account_begin(decoder, header);
	error = account_discarded(decoder, header->discarded, header->loss_first_ns,
				  header->loss_last_ns, decoder->base_ns);
	if (!error)
		error = account_recorded(decoder, header->recorded, decoder->base_ns);
	decoder->header_seen = true;
	return error;
}

int vm_decoder_close(struct vm_decoder *decoder, const struct ring_thread *last, uint64_t taken_ns)
{
	int error;

	error = account_discarded(decoder, (const uint64_t *)last->discarded, last->loss_first_ns,
				  last->loss_last_ns, taken_ns);
	if (!error)
		error = account_recorded(decoder, (const uint64_t *)last->recorded, taken_ns);
	return error;
}

/* ---- Pieces and records ---- */

/* Read a piece into the buffer. Returns 1 with its records at at..end, 0 when it gives nothing. */
static int piece_read(struct vm_decoder *decoder, const struct vm_piece *piece)
{
	const struct chunk *chunk = &decoder->file->chunks[piece->chunk];
	struct chunk_vm head;
	uint32_t start = sizeof(head), skip = 0;
	int error;

	if (chunk->header.bytes > decoder->buffer_bytes) {
		uint8_t *buffer = realloc(decoder->buffer, chunk->header.bytes);

		if (!buffer)
			return -ENOMEM;
		decoder->buffer = buffer;
		decoder->buffer_bytes = chunk->header.bytes;
	}
	if (chunk->header.bytes < sizeof(head) || file_read(decoder->file, chunk, decoder->buffer))
		goto damaged;
	memcpy(&head, decoder->buffer, sizeof(head));
	if (head.sequence != piece->sequence || head.from != piece->from ||
	    head.bytes > chunk->header.bytes - sizeof(head) || head.bytes % 8 || head.from % 8 ||
	    head.from > UINT32_MAX - head.bytes)
		goto damaged;
	if (head.from ? head.from < sizeof(struct ring_subbuf)
		      : head.bytes < sizeof(struct ring_subbuf))
		goto damaged;

	if (piece->sequence != decoder->sequence) {
		bool first = !decoder->sequence;

		/* In a first piece only the start of the sub-buffer can be missing. */
		if (!first && piece->sequence != decoder->sequence + 1)
			gap_note(decoder, true);
		decoder->sequence = piece->sequence;
		decoder->covered = 0;
		decoder->base_ns = head.base_ns;
		if (!first && head.from)
			gap_note(decoder, false);
		if (first && head.from > sizeof(struct ring_subbuf) &&
		    (decoder->overwrite || decoder->file->damage.damaged_chunks))
			gap_note(decoder, false);
	} else if (head.from + head.bytes <= decoder->covered) {
		return 0; /* stored twice by two readers, or by one that died in between */
	} else if (head.from < decoder->covered) {
		skip = decoder->covered - head.from;
	} else if (head.from > decoder->covered) {
		gap_note(decoder, false);
	}
	if (!head.from && !skip) {
		error = header_account(decoder,
				       (const struct ring_subbuf *)(decoder->buffer + start));
		if (error)
			return error;
		skip = sizeof(struct ring_subbuf);
	}
	decoder->covered = head.from + head.bytes;
	decoder->at = start + skip;
	decoder->end = start + head.bytes;
	return 1;
damaged:
	decoder->faults.damaged_records++;
	gap_note(decoder, false);
	return 0;
}

static bool kind_captures(uint8_t kind)
{
	switch (kind) {
	case RING_CALL:
	case RING_RETURN_FROM:
	case RING_EXCEPTION_FROM:
	case RING_SEND:
	case RING_SEND_NOPROC:
	case RING_RECEIVE:
	case RING_EXIT:
	case RING_PORT_CLOSED:
		return true;
	default:
		return false;
	}
}

static struct text capture_find(struct vm_decoder *decoder, const struct ring_record *record)
{
	struct text none = {"", 0};
	uint32_t fixed = kind_bytes[record->kind];
	struct ring_capture capture;

	if (!(record->flags & RING_F_CAPTURE) || !kind_captures(record->kind))
		return none;
	if (record->bytes - fixed < sizeof(capture)) {
		decoder->faults.damaged_records++;
		return none;
	}
	memcpy(&capture, (const uint8_t *)record + fixed, sizeof(capture));
	if (capture.bytes > record->bytes - fixed - sizeof(capture)) {
		decoder->faults.damaged_records++;
		return none;
	}
	return (struct text){(const char *)record + fixed + sizeof(capture), capture.bytes};
}

/* Is it a trace message that can be decoded? */
static bool term_good(const struct ring_record *record)
{
	const struct ring_term *term = (const struct ring_term *)record;
	struct message_bytes bytes;
	struct message_time time;
	uint32_t kind;

	if (record->bytes < sizeof(*term) || term->bytes > record->bytes - sizeof(*term))
		return false;
	bytes = terms_message(term);
	return !message_peek(&bytes, &kind, &time);
}

/* Take the record at `at`. Returns 1 when it is one to give. */
static int record_take(struct vm_decoder *decoder, struct event *event)
{
	const struct ring_record *record;

	record = (const struct ring_record *)(decoder->buffer + decoder->at);
	if (decoder->end - decoder->at < sizeof(*record) || record->bytes < sizeof(*record) ||
	    record->bytes % 8 || record->bytes > decoder->end - decoder->at) {
		/* Where the next record begins is not known: the rest of the piece is lost. */
		decoder->faults.damaged_records++;
		decoder->at = decoder->end;
		gap_note(decoder, false);
		return 0;
	}
	decoder->at += record->bytes;
	if (record->kind >= RING_KINDS ||
	    (record->flags & RING_F_TERM ? !term_good(record)
					 : record->bytes < kind_bytes[record->kind])) {
		decoder->faults.damaged_records++;
		gap_note(decoder, false);
		return 0;
	}
	event->ts_ns = decoder->base_ns + record->delta_ns;
	if (event->ts_ns < decoder->last_ns) {
		decoder->faults.clamped_records++;
		event->ts_ns = decoder->last_ns;
	}
	decoder->last_ns = event->ts_ns;
	if (decoder->gap_open) {
		decoder->gap_open = false;
		decoder->gap_to_ns = event->ts_ns;
	}
	decoder->accounted[record->kind]++;
	if (!kind_bytes[record->kind] && !(record->flags & RING_F_TERM)) {
		decoder->faults.unknown_records++;
		return 0;
	}
	decoder->given[record->kind]++;
	event->kind = record->kind;
	event->cpu = -1;
	event->ring = decoder->ring;
	event->tid = decoder->tid;
	event->process = record->process;
	event->flags = record->flags;
	event->raw = record;
	event->etf = record->flags & RING_F_TERM ? (struct text){"", 0}
						 : capture_find(decoder, record);
	return 1;
}

int vm_decoder_next(struct vm_decoder *decoder, struct event *event)
{
	for (;;) {
		int error;

		while (decoder->at < decoder->end) {
			if (record_take(decoder, event))
				return 1;
		}
		if (decoder->next == decoder->count)
			return 0;
		error = piece_read(decoder, &decoder->pieces[decoder->next++]);
		if (error < 0)
			return error;
	}
}
