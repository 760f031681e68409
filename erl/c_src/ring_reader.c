/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's side of the ring: draining. Runs in the reading process, with a libc. Everything in
 * the mapping may be changed by the other side at any time: values are read once, bounded, and
 * copied before they are passed on.
 */

#include "ring_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES ((uint32_t)sizeof(struct ring_subbuf))

static struct ring_subbuf *subbuf_at(const struct ring *ring, uint32_t index)
{
	return (struct ring_subbuf *)(ring->pool + (uint64_t)index * ring->subbuf_bytes);
}

/* Does the sub-buffer hold the use that its state word names? Before its begin is complete: no. */
static int subbuf_matches(const struct ring *ring, uint32_t index, uint64_t word)
{
	const struct ring_subbuf *subbuf = subbuf_at(ring, index);
	/* acquire: the committed length and `consumed` that are read later are of this use too */
	uint64_t sequence = __atomic_load_n(&subbuf->sequence, __ATOMIC_ACQUIRE);

	return (uint32_t)sequence == RING_STATE_SEQUENCE(word) &&
	       __atomic_load_n(&subbuf->thread, __ATOMIC_RELAXED) == RING_STATE_THREAD(word);
}

static uint32_t subbuf_committed(const struct ring *ring, uint32_t index)
{
	/* acquire: the bytes up to this length are there */
	uint64_t committed =
		atomic_load_explicit(&subbuf_at(ring, index)->committed, memory_order_acquire);

	return committed > ring->subbuf_bytes ? ring->subbuf_bytes : (uint32_t)committed & ~7u;
}

static uint32_t consumed_bytes(uint32_t consumed, uint64_t word)
{
	uint32_t bytes = RING_CONSUMED_BYTES(consumed);

	return consumed == RING_CONSUMED(RING_STATE_SEQUENCE(word), bytes) ? bytes : 0;
}

void stack_push(struct ring *ring, uint32_t index)
{
	_Atomic uint64_t *free_top = &ring->control->free_top;
	/* relaxed: the CAS compares it */
	uint64_t top = atomic_load_explicit(free_top, memory_order_relaxed);

	for (int try = 0; try < RING_PUSH_TRIES; try++) {
		uint32_t next = (uint32_t)top;

		/* relaxed: published by the CAS */
		atomic_store_explicit(&ring->meta[index].next, next > ring->subbuf_count ? 0 : next,
				      memory_order_relaxed);
		RING_TEST_POINT("push");
		/* release: a writer that takes the index sees its `next` and its state */
		if (atomic_compare_exchange_weak_explicit(
			    free_top, &top, ((top >> 32) + 1) << 32 | (index + 1),
			    memory_order_release, memory_order_relaxed))
			return;
	}
}

/*
 * Free first, then push: what is on the stack is free. A death in between leaves one that is free
 * but not on the stack, which the successor finds (stack_repair()).
 */
static void subbuf_free(struct ring *ring, uint32_t index, uint64_t reading)
{
	uint64_t word =
		RING_STATE(RING_FREE, RING_STATE_THREAD(reading), RING_STATE_SEQUENCE(reading));

	RING_TEST_POINT("free");
	/* release: our copying is over before a writer can take it */
	if (!atomic_compare_exchange_strong_explicit(&ring->meta[index].state, &reading, word,
						     memory_order_release, memory_order_relaxed))
		return;
	RING_TEST_POINT("freed");
	stack_push(ring, index);
	RING_TEST_POINT("pushed");
}

/* ---- What there is to read --------------------------------------------------------------- */

static int by_thread(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;

	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

static int by_turn(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;

	if (left->turn != right->turn)
		return left->turn < right->turn ? -1 : 1;
	return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int state_readable(const struct ring *ring, uint64_t word)
{
	enum ring_state state = RING_STATE_OF(word);

	return (state == RING_WRITING || state == RING_FULL) &&
	       RING_STATE_THREAD(word) < ring->thread_max;
}

/*
 * Collect what is being written or full, each thread's in its order, one of each thread in turn.
 *
 * A thread's earlier sub-buffer must not come after a later one, and a scan is not an instant: it can
 * pass a state, which is then taken and filled, and find the thread's next one further on. So there
 * are two scans: the first says up to which sequence a thread had got, and all that it began before
 * is there when the second one looks, since only a reader (or overwriting) takes it away.
 */
static uint32_t candidates_collect(struct ring_reader *reader)
{
	struct ring *ring = reader->ring;
	uint32_t count = 0, waiting = 0, turn = 0;

	memset(reader->newest, 0, ring->thread_max * sizeof(*reader->newest));
	for (uint32_t i = 0; i < ring->subbuf_count; i++) {
		/* acquire: what its thread did before, the second scan sees */
		uint64_t word = atomic_load_explicit(&ring->meta[i].state, memory_order_acquire);
		uint64_t sequence = (uint64_t)RING_STATE_SEQUENCE(word) + 1;

		if (RING_STATE_OF(word) == RING_FULL || RING_STATE_OF(word) == RING_READING)
			waiting++;
		if (state_readable(ring, word) &&
		    reader->newest[RING_STATE_THREAD(word)] < sequence)
			reader->newest[RING_STATE_THREAD(word)] = sequence;
	}
	reader->fill_permille = (uint32_t)((uint64_t)waiting * 1000 / ring->subbuf_count);
	RING_TEST_POINT("scanned");

	for (uint32_t i = 0; i < ring->subbuf_count; i++) {
		/* acquire: as above */
		uint64_t word = atomic_load_explicit(&ring->meta[i].state, memory_order_acquire);
		struct candidate *candidate = &reader->candidates[count];

		if (!state_readable(ring, word) ||
		    RING_STATE_SEQUENCE(word) >= reader->newest[RING_STATE_THREAD(word)])
			continue;
		candidate->index = i;
		candidate->thread = RING_STATE_THREAD(word);
		candidate->sequence = RING_STATE_SEQUENCE(word);
		candidate->rank = (candidate->thread + ring->thread_max - reader->first_thread) %
				  ring->thread_max;
		count++;
	}
	qsort(reader->candidates, count, sizeof(*reader->candidates), by_thread);
	for (uint32_t i = 0; i < count; i++) {
		turn = i && reader->candidates[i].thread == reader->candidates[i - 1].thread
			       ? turn + 1
			       : 0;
		reader->candidates[i].turn = turn;
	}
	qsort(reader->candidates, count, sizeof(*reader->candidates), by_turn);
	return count;
}

/* ---- Copying ----------------------------------------------------------------------------- */

/*
 * A copy out of a sub-buffer that may be overwritten meanwhile (the state word, looked at again
 * afterwards, tells). By whole words and unknown to ThreadSanitizer, since the race is meant.
 */
__attribute__((no_sanitize("thread"))) static void copy_racing(void *to, const void *from,
							       uint32_t bytes)
{
	typedef uint64_t __attribute__((may_alias)) word_t;
	word_t *target = to;
	const word_t *source = from;

	/* relaxed: a writer may change it meanwhile; the look at the state afterwards tells */
	for (uint32_t i = 0; i < bytes / 8; i++)
		target[i] = __atomic_load_n(&source[i], __ATOMIC_RELAXED);
}

/*
 * Copy what was committed after the first `from` bytes and fill in a fragment. Returns its bytes;
 * 0: nothing new, or nothing that makes sense.
 */
static uint32_t fragment_copy(struct ring_reader *reader, uint32_t index, uint64_t word,
			      uint32_t from, struct ring_fragment *fragment)
{
	struct ring *ring = reader->ring;
	struct ring_subbuf *subbuf = subbuf_at(ring, index);
	struct ring_subbuf *copy = (struct ring_subbuf *)reader->copy;
	uint32_t committed, racing = 0;

	if (!subbuf_matches(ring, index, word))
		return 0;
	committed = subbuf_committed(ring, index);
	if (committed < HEADER_BYTES || committed <= from || from % 8 ||
	    (from && from < HEADER_BYTES))
		return 0;

	if (ring->mode == RING_OVERWRITE && RING_STATE_OF(word) == RING_WRITING)
		racing = committed - from;
	else if (!from)
		racing = offsetof(struct ring_subbuf, recorded); /* the committed length itself */
	copy_racing(reader->copy, (const uint8_t *)subbuf + from, racing);
	memcpy(reader->copy + racing, (const uint8_t *)subbuf + from + racing,
	       committed - from - racing);
	fragment->thread = RING_STATE_THREAD(word);
	fragment->from = from;
	/* relaxed: behind the acquire of the state or of the committed length */
	fragment->sequence = __atomic_load_n(&subbuf->sequence, __ATOMIC_RELAXED);
	fragment->base_ns = __atomic_load_n(&subbuf->base_ns, __ATOMIC_RELAXED);
	fragment->data = reader->copy;
	fragment->bytes = committed - from;
	if (!from) {
		/* What is passed on agrees with itself, whatever the other side did meanwhile. */
		copy->sequence = fragment->sequence;
		copy->base_ns = fragment->base_ns;
		copy->thread = fragment->thread;
		atomic_store_explicit(&copy->committed, committed, memory_order_relaxed);
	}
	return fragment->bytes;
}

/* The part of a sub-buffer that is committed but not full yet. Returns bytes passed or -errno. */
static int64_t drain_writing(struct ring_reader *reader, uint32_t index, uint64_t word,
			     ring_fragment_fn fn, void *context)
{
	struct ring_meta *meta = &reader->ring->meta[index];
	struct ring_fragment fragment;
	uint32_t consumed, bytes;
	uint64_t now;
	int err;

	if (!subbuf_matches(reader->ring, index, word))
		return 0;
	/* relaxed: ours, or published by what made us the reader */
	consumed = atomic_load_explicit(&meta->consumed, memory_order_relaxed);
	bytes = fragment_copy(reader, index, word, consumed_bytes(consumed, word), &fragment);
	if (!bytes)
		return 0;
	RING_TEST_POINT("copied");
	/* acquire: the copy is complete before we look again; pairs with the fence of the claim */
	atomic_thread_fence(memory_order_acquire);
	now = atomic_load_explicit(&meta->state, memory_order_relaxed);
	if (now != word &&
	    now != RING_STATE(RING_FULL, RING_STATE_THREAD(word), RING_STATE_SEQUENCE(word)))
		return 0;
	err = fn(context, &fragment);
	if (err)
		return err;
	RING_TEST_POINT("passed");
	/*
	 * release: a successor that sees it knows that we have stored those bytes. Fails when the
	 * sub-buffer was overwritten meanwhile: the length is not the new use's.
	 */
	atomic_compare_exchange_strong_explicit(
		&meta->consumed, &consumed,
		RING_CONSUMED(RING_STATE_SEQUENCE(word), fragment.from + bytes),
		memory_order_release, memory_order_relaxed);
	RING_TEST_POINT("consumed");
	return bytes;
}

/* The rest of a full sub-buffer, which is then free. Returns bytes passed on or -errno. */
static int64_t drain_full(struct ring_reader *reader, uint32_t index, uint64_t word,
			  ring_fragment_fn fn, void *context)
{
	struct ring_meta *meta = &reader->ring->meta[index];
	uint64_t full = word, reading = RING_STATE(RING_READING, RING_STATE_THREAD(word),
						   RING_STATE_SEQUENCE(word));
	struct ring_fragment fragment;
	uint32_t consumed, bytes;
	int err;

	/* acquire: pairs with the release of the writer that closed it */
	if (!atomic_compare_exchange_strong_explicit(&meta->state, &full, reading,
						     memory_order_acquire, memory_order_relaxed))
		return 0;
	RING_TEST_POINT("reading");
	/* relaxed: as in drain_writing() */
	consumed = atomic_load_explicit(&meta->consumed, memory_order_relaxed);
	bytes = fragment_copy(reader, index, reading, consumed_bytes(consumed, reading), &fragment);
	if (bytes) {
		RING_TEST_POINT("copied");
		err = fn(context, &fragment);
		if (err) {
			/* release: as when the writer closed it */
			atomic_compare_exchange_strong_explicit(&meta->state, &reading, word,
								memory_order_release,
								memory_order_relaxed);
			return err;
		}
		RING_TEST_POINT("passed");
		/* release: as in drain_writing() */
		atomic_store_explicit(
			&meta->consumed,
			RING_CONSUMED(RING_STATE_SEQUENCE(word), fragment.from + bytes),
			memory_order_release);
		RING_TEST_POINT("consumed");
	}
	/* One without sense is freed too: it would come again for ever. */
	subbuf_free(reader->ring, index, reading);
	return bytes;
}

int64_t ring_drain(struct ring_reader *reader, uint64_t max_bytes, ring_fragment_fn fn,
		   void *context)
{
	struct ring *ring = reader->ring;
	uint32_t count = candidates_collect(reader);
	int64_t passed = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct candidate *candidate = &reader->candidates[i];
		int64_t bytes;
		uint64_t word;

		/* acquire: pairs with the epoch's increment by a successor */
		if (atomic_load_explicit(&ring->control->reader_epoch, memory_order_acquire) !=
		    reader->epoch)
			return -ESTALE;
		if (passed && (uint64_t)passed + ring->subbuf_bytes > max_bytes) {
			reader->first_thread = candidate->thread;
			break;
		}
		/* acquire: as in candidates_collect(); it may have become full since */
		word = atomic_load_explicit(&ring->meta[candidate->index].state,
					    memory_order_acquire);
		if (RING_STATE_THREAD(word) != candidate->thread ||
		    RING_STATE_SEQUENCE(word) != candidate->sequence)
			continue;
		if (RING_STATE_OF(word) == RING_FULL)
			bytes = drain_full(reader, candidate->index, word, fn, context);
		else if (RING_STATE_OF(word) == RING_WRITING)
			bytes = drain_writing(reader, candidate->index, word, fn, context);
		else
			continue;
		if (bytes < 0)
			return bytes;
		passed += bytes;
	}
	return passed;
}

uint32_t ring_fill_permille(const struct ring_reader *reader)
{
	return reader->fill_permille;
}
