/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's side of the ring. Runs inside the VM without a libc: nothing here may call anything
 * but memcpy and memset.
 */

#include "ring.h"

#include <errno.h>
#include <string.h>

#define HEADER_BYTES ((uint32_t)sizeof(struct ring_subbuf))

/*
 * Bounds of the writer's loops. A failed CAS means that another thread got on, so that these are
 * reached only when the memory's other side is hostile; the event counts as discarded then.
 */
#define TAKE_TRIES  1000
#define STEAL_TRIES 4
#define STEAL_LOOKS 64 /* sub-buffer headers touched to find the oldest: each is a cache miss */

/* ---- Threads, credits, discarding -------------------------------------------------------- */

int ring_writer_claim(struct ring_writer *writer, struct ring *ring, uint32_t tid,
		      enum ring_role role, uint32_t number, uint64_t esdp)
{
	struct ring_control *control = ring->control;
	struct ring_thread *thread;
	uint32_t index;

	memset(writer, 0, sizeof(*writer));
	writer->ring = ring;
	writer->oldest_sequence = 1;
	if (!tid)
		return -EINVAL;
	/* relaxed: the counter only hands out indices; the look first keeps it from wrapping */
	if (atomic_load_explicit(&control->thread_count, memory_order_relaxed) >= ring->thread_max)
		return -ENOSPC;
	index = atomic_fetch_add_explicit(&control->thread_count, 1, memory_order_relaxed);
	if (index >= ring->thread_max)
		return -ENOSPC;

	thread = &ring->threads[index];
	thread->role = role;
	thread->number = number;
	thread->esdp = esdp;
	/* release: a reader that sees the tid sees the rest of the entry */
	atomic_store_explicit(&thread->tid, tid, memory_order_release);
	writer->thread = thread;
	writer->thread_index = index;
	return 0;
}

void ring_discard(struct ring_writer *writer, uint64_t now_ns, enum ring_kind kind)
{
	struct ring_thread *thread = writer->thread;
	_Atomic uint64_t *discarded;

	if (!thread) {
		/* relaxed: a statistic */
		atomic_fetch_add_explicit(&writer->ring->control->unclaimed_discarded, 1,
					  memory_order_relaxed);
		return;
	}
	discarded = &thread->discarded[(uint32_t)kind < RING_KINDS ? kind : RING_UNKNOWN];
	/* relaxed: one writer; a reader takes exact counts after the end */
	if (!atomic_load_explicit(&thread->loss_first_ns, memory_order_relaxed))
		atomic_store_explicit(&thread->loss_first_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&thread->loss_last_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(discarded, atomic_load_explicit(discarded, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static void session_stop(struct ring_control *control)
{
	uint32_t none = RING_END_NONE;

	/* relaxed: published by the release below */
	atomic_compare_exchange_strong_explicit(&control->end_reason, &none, RING_END_EVENTS,
						memory_order_relaxed, memory_order_relaxed);
	/* release: whoever sees the stop sees its reason */
	atomic_store_explicit(&control->run, RING_STOPPED, memory_order_release);
}

/* Draw a block of credits. 0: there are none left, and the session is stopped. */
static int credits_draw(struct ring_writer *writer)
{
	struct ring_control *control = writer->ring->control;
	/* relaxed, here and below: credits order nothing, each goes to one thread */
	int64_t left = atomic_load_explicit(&control->credits, memory_order_relaxed);
	uint64_t block = atomic_load_explicit(&control->credit_block, memory_order_relaxed);

	if (left == INT64_MAX) {
		writer->credits = 1ull << 62;
		return 1;
	}
	if (left > 0) {
		/* The fewer are left the smaller the blocks: little is held back unused. */
		if (block > (uint64_t)left / 16)
			block = (uint64_t)left / 16;
		if (!block)
			block = 1;
		/*
		 * A subtraction, not a CAS: it cannot fail. Threads that come too late push the
		 * value below 0, by a block each, since they look before they draw.
		 */
		left = atomic_fetch_sub_explicit(&control->credits, (int64_t)block,
						 memory_order_relaxed);
	}
	if (left <= 0) {
		session_stop(control);
		return 0;
	}
	writer->credits = block < (uint64_t)left ? block : (uint64_t)left;
	return 1;
}

/* ---- Sub-buffers ------------------------------------------------------------------------- */

/* Take one off the free stack. Returns its index or RING_NO_INDEX. */
static uint32_t subbuf_take_free(struct ring *ring, uint64_t writing)
{
	_Atomic uint64_t *free_top = &ring->control->free_top;

	for (int try = 0; try < TAKE_TRIES; try++) {
		/* acquire: pairs with the release of the push; `next` is from that push or a later one */
		uint64_t top = atomic_load_explicit(free_top, memory_order_acquire);
		uint32_t index = (uint32_t)top - 1, next;
		struct ring_meta *meta;
		uint64_t word, rest;

		if (index >= ring->subbuf_count)
			break;
		meta = &ring->meta[index];
		/* relaxed: stale when the index is off the stack by now, and then the CAS fails */
		next = atomic_load_explicit(&meta->next, memory_order_relaxed);
		if (next > ring->subbuf_count)
			break;
		/*
		 * Read before the CAS: as long as the tag stands, the index is on the stack and
		 * this is its state. A repairer that finds us between the CAS and the claim below
		 * changes the word, and so takes the sub-buffer from us.
		 */
		word = atomic_load_explicit(&meta->state, memory_order_relaxed);
		RING_TEST_POINT("take");
		rest = ((top >> 32) + 1) << 32 | next;
		/* acq_rel: the next one to take sees all pushes that we have seen */
		if (!atomic_compare_exchange_strong_explicit(
			    free_top, &top, rest, memory_order_acq_rel, memory_order_relaxed))
			continue;
		RING_TEST_POINT("taken");
		if (RING_STATE_OF(word) != RING_FREE)
			continue;
		/* acquire: the reader's copying, before its release of FREE, is over */
		if (atomic_compare_exchange_strong_explicit(&meta->state, &word, writing,
							    memory_order_acquire,
							    memory_order_relaxed))
			return index;
	}
	return RING_NO_INDEX;
}

/* acquire: a reader that had it, and gave it back as full, is done with it. */
static int subbuf_take_word(struct ring_meta *meta, uint64_t word, uint64_t writing)
{
	RING_TEST_POINT("overwrite");
	return atomic_compare_exchange_strong_explicit(&meta->state, &word, writing,
						       memory_order_acquire, memory_order_relaxed);
}

/*
 * Overwrite mode: this thread's own oldest full sub-buffer. A thread goes round its sub-buffers in
 * the same order again and again, so that the next one is mostly found a few states further on.
 */
static uint32_t subbuf_take_own(struct ring_writer *writer, uint64_t writing)
{
	struct ring *ring = writer->ring;
	uint32_t found = RING_NO_INDEX, sequence = 0;
	uint64_t found_word = 0;

	for (uint32_t n = 0, i = writer->cursor; n < ring->subbuf_count; n++, i++) {
		uint64_t word;

		if (i >= ring->subbuf_count)
			i = 0;
		/* relaxed: the CAS decides, and orders */
		word = atomic_load_explicit(&ring->meta[i].state, memory_order_relaxed);
		if (RING_STATE_OF(word) != RING_FULL ||
		    RING_STATE_THREAD(word) != writer->thread_index)
			continue;
		if (found == RING_NO_INDEX || RING_STATE_SEQUENCE(word) < sequence) {
			found = i;
			found_word = word;
			sequence = RING_STATE_SEQUENCE(word);
		}
		if (sequence == (uint32_t)writer->oldest_sequence)
			break;
	}
	if (found == RING_NO_INDEX || !subbuf_take_word(&ring->meta[found], found_word, writing))
		return RING_NO_INDEX;
	writer->oldest_sequence = (uint64_t)sequence + 1;
	writer->cursor = found + 1;
	return found;
}

/* Overwrite mode, for a thread that has none: the oldest full sub-buffer of another thread. */
static uint32_t subbuf_take_other(struct ring_writer *writer, uint64_t writing)
{
	struct ring *ring = writer->ring;
	uint32_t found = RING_NO_INDEX, looks = 0;
	uint64_t found_word = 0, oldest_ns = 0;

	for (uint32_t i = 0; i < ring->subbuf_count && looks < STEAL_LOOKS; i++) {
		struct ring_subbuf *subbuf =
			(void *)(ring->pool + (uint64_t)i * ring->subbuf_bytes);
		/* acquire: the header of a full sub-buffer is complete */
		uint64_t word = atomic_load_explicit(&ring->meta[i].state, memory_order_acquire);
		uint64_t base_ns;

		if (RING_STATE_OF(word) != RING_FULL)
			continue;
		/* A thread's later one is younger: not worth a look at its header. */
		if (found != RING_NO_INDEX &&
		    RING_STATE_THREAD(word) == RING_STATE_THREAD(found_word) &&
		    RING_STATE_SEQUENCE(word) > RING_STATE_SEQUENCE(found_word))
			continue;
		/* relaxed: a guess which is oldest; the CAS on the word decides */
		base_ns = __atomic_load_n(&subbuf->base_ns, __ATOMIC_RELAXED);
		looks++;
		if (found == RING_NO_INDEX || base_ns < oldest_ns) {
			found = i;
			found_word = word;
			oldest_ns = base_ns;
		}
	}
	if (found == RING_NO_INDEX || !subbuf_take_word(&ring->meta[found], found_word, writing))
		return RING_NO_INDEX;
	return found;
}

static uint32_t subbuf_take(struct ring_writer *writer, uint64_t writing)
{
	uint32_t index = subbuf_take_free(writer->ring, writing);

	if (writer->ring->mode != RING_OVERWRITE)
		return index;
	for (int try = 0; index == RING_NO_INDEX && try < STEAL_TRIES; try++) {
		index = subbuf_take_own(writer, writing);
		if (index == RING_NO_INDEX)
			index = subbuf_take_other(writer, writing);
	}
	return index;
}

static void subbuf_close(struct ring_writer *writer)
{
	if (!writer->subbuf)
		return;
	/* release: whoever takes it as full sees every record and the committed length */
	atomic_store_explicit(&writer->ring->meta[writer->index].state,
			      RING_STATE(RING_FULL, writer->thread_index, writer->sequence),
			      memory_order_release);
	RING_TEST_POINT("closed");
	writer->subbuf = NULL;
	writer->position = 0;
	writer->limit = 0;
}

/* Take a sub-buffer and write its header. Returns 0 or -ENOBUFS. */
static int subbuf_begin(struct ring_writer *writer, uint64_t now_ns)
{
	struct ring *ring = writer->ring;
	struct ring_thread *thread = writer->thread;
	uint64_t sequence = writer->sequence + 1;
	uint32_t index =
		subbuf_take(writer, RING_STATE(RING_WRITING, writer->thread_index, sequence));
	struct ring_subbuf *subbuf;

	if (index == RING_NO_INDEX)
		return -ENOBUFS;
	RING_TEST_POINT("claimed");
	subbuf = (void *)(ring->pool + (uint64_t)index * ring->subbuf_bytes);
	/*
	 * release: our state word is out before the first byte of the old content changes, so that a
	 * reader in the middle of a copy (overwrite mode) finds it when it looks again.
	 */
	atomic_thread_fence(memory_order_release);
	/* relaxed: all of this is published by the store of the sequence */
	atomic_store_explicit(&subbuf->committed, 0, memory_order_relaxed);
	atomic_store_explicit(&ring->meta[index].consumed, RING_CONSUMED(sequence, 0),
			      memory_order_relaxed);
	__atomic_store_n(&subbuf->base_ns, now_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&subbuf->thread, writer->thread_index, __ATOMIC_RELAXED);
	subbuf->reserved = 0;
	memset(subbuf->reserved2, 0, sizeof(subbuf->reserved2));
	subbuf->loss_first_ns =
		atomic_exchange_explicit(&thread->loss_first_ns, 0, memory_order_relaxed);
	subbuf->loss_last_ns =
		atomic_exchange_explicit(&thread->loss_last_ns, 0, memory_order_relaxed);
	for (int kind = 0; kind < RING_KINDS; kind++) {
		subbuf->recorded[kind] =
			atomic_load_explicit(&thread->recorded[kind], memory_order_relaxed);
		subbuf->discarded[kind] =
			atomic_load_explicit(&thread->discarded[kind], memory_order_relaxed);
	}
	/* release: a reader that finds our sequence does not see an earlier use's committed length */
	__atomic_store_n(&subbuf->sequence, sequence, __ATOMIC_RELEASE);
	/* release: the header may be read */
	atomic_store_explicit(&subbuf->committed, HEADER_BYTES, memory_order_release);
	/* relaxed: for people */
	atomic_store_explicit(&thread->sequence, sequence, memory_order_relaxed);

	writer->subbuf = (uint8_t *)subbuf;
	writer->position = HEADER_BYTES;
	writer->limit = ring->subbuf_bytes;
	writer->base_ns = now_ns;
	writer->sequence = sequence;
	writer->index = index;
	return 0;
}

void *ring_reserve_slow(struct ring_writer *writer, uint64_t now_ns, enum ring_kind kind,
			uint32_t bytes)
{
	if (!writer->thread || bytes > writer->ring->subbuf_bytes - HEADER_BYTES)
		goto discard;
	if (!writer->credits && !credits_draw(writer))
		return NULL;
	/* One base for a whole sub-buffer: any part of it is decoded with its header alone. */
	if (writer->limit - writer->position < bytes || now_ns - writer->base_ns > UINT32_MAX) {
		subbuf_close(writer);
		if (subbuf_begin(writer, now_ns))
			goto discard;
	}
	return writer->subbuf + writer->position;

discard:
	ring_discard(writer, now_ns, kind);
	return NULL;
}
