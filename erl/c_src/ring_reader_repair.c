/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's side of the ring: taking over, and putting right what a dead reader left. */

#include "ring_reader.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HANDOVER_WAITS	 2000
#define HANDOVER_WAIT_NS 1000000

/* ---- Repair ------------------------------------------------------------------------------ */

/* Full again is what a dead reader had in hand; `consumed` tells how much of it is stored already. */
static void states_repair(struct ring *ring)
{
	for (uint32_t i = 0; i < ring->subbuf_count; i++) {
		/* acquire: pairs with the dead reader's release of what it got done */
		uint64_t word = atomic_load_explicit(&ring->meta[i].state, memory_order_acquire);
		uint64_t mended;

		if (RING_STATE_OF(word) != RING_READING)
			continue;
		mended = RING_STATE(RING_FULL, RING_STATE_THREAD(word), RING_STATE_SEQUENCE(word));
		/* acq_rel: hands on what the dead reader and the writer before it did */
		atomic_compare_exchange_strong_explicit(&ring->meta[i].state, &word, mended,
							memory_order_acq_rel, memory_order_relaxed);
	}
}

/*
 * Mark what is on the free stack. A `next` changes only when its index is pushed, which only a reader
 * does, and that is us: writers may take from the top meanwhile, what we see is the stack of the
 * instant at which we read the top. Returns 0 or -EIO: it is no list that ends.
 */
static int stack_walk(struct ring *ring, uint8_t *on_stack)
{
	/* acquire: pairs with the release of the pushes */
	uint32_t next =
		(uint32_t)atomic_load_explicit(&ring->control->free_top, memory_order_acquire);

	memset(on_stack, 0, ring->subbuf_count);
	while (next) {
		uint32_t index = next - 1;

		if (index >= ring->subbuf_count || on_stack[index])
			return -EIO;
		on_stack[index] = 1;
		/* relaxed: published by the push, as the top was */
		next = atomic_load_explicit(&ring->meta[index].next, memory_order_relaxed);
	}
	return 0;
}

/*
 * Take the whole stack away: what is free is pushed again, from the states. Until then writers find
 * nothing, so that this is not done without need.
 */
static void stack_take(struct ring *ring, uint8_t *on_stack)
{
	_Atomic uint64_t *free_top = &ring->control->free_top;
	/* relaxed: the CAS compares it */
	uint64_t top = atomic_load_explicit(free_top, memory_order_relaxed);

	for (int try = 0; try < RING_PUSH_TRIES; try++) {
		/* acq_rel: as in the writer's take */
		if (atomic_compare_exchange_weak_explicit(free_top, &top, ((top >> 32) + 1) << 32,
							  memory_order_acq_rel,
							  memory_order_relaxed))
			break;
	}
	memset(on_stack, 0, ring->subbuf_count);
}

/*
 * Find what is free but not on the stack, by a reader that died between setting it free and pushing
 * it, and push it. It may also be that a writer has taken it off the stack and is about to claim it:
 * the word changes here, so that the writer's CAS fails and it takes another one.
 */
static void stack_repair(struct ring *ring, uint64_t epoch, uint8_t *on_stack)
{
	if (stack_walk(ring, on_stack))
		stack_take(ring, on_stack);
	RING_TEST_POINT("walked");
	for (uint32_t i = 0; i < ring->subbuf_count; i++) {
		/* acquire: read after the walk, and only readers push: it is not on the stack now */
		uint64_t word = atomic_load_explicit(&ring->meta[i].state, memory_order_acquire);

		if (on_stack[i] || RING_STATE_OF(word) != RING_FREE)
			continue;
		/* acq_rel: hands on the dead reader's release; the next writer acquires ours */
		if (atomic_compare_exchange_strong_explicit(
			    &ring->meta[i].state, &word,
			    RING_STATE(RING_FREE, RING_REPAIRED, epoch), memory_order_acq_rel,
			    memory_order_relaxed))
			stack_push(ring, i);
	}
}

/* ---- Taking over ------------------------------------------------------------------------- */

/* A zombie still answers to a signal: its state in /proc tells, where there is a /proc. */
static int process_alive(uint32_t pid)
{
	char path[64], line[512];
	const char *end;
	FILE *file;
	int alive = 1;

	if ((int32_t)pid <= 0 || (kill((pid_t)pid, 0) && errno == ESRCH))
		return 0;
	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return 1;
	if (fgets(line, sizeof(line), file)) {
		end = strrchr(line, ')');
		if (end && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X'))
			alive = 0;
	}
	fclose(file);
	return alive;
}

/* A reader that lives renews its lease; a pid alone may belong to somebody else by now. */
static int reader_alive(struct ring_control *control, uint32_t pid, uint64_t now_ns)
{
	/* relaxed: a statistic of the other process */
	return atomic_load_explicit(&control->lease_until_ns, memory_order_relaxed) > now_ns &&
	       process_alive(pid);
}

/* Become the reader. Returns 0 or -EBUSY. */
static int reader_claim(struct ring *ring, uint32_t pid, uint64_t now_ns)
{
	struct ring_control *control = ring->control;
	const struct timespec pause = {.tv_nsec = HANDOVER_WAIT_NS};

	for (int wait = 0; wait < HANDOVER_WAITS; wait++) {
		/* acquire: pairs with the release when the old reader left */
		uint32_t old = atomic_load_explicit(&control->reader_pid, memory_order_acquire);

		if (!old || old == pid ||
		    !reader_alive(control, old, now_ns + (uint64_t)wait * HANDOVER_WAIT_NS)) {
			/* acq_rel: of two successors one gets on, and sees what the old one did */
			if (atomic_compare_exchange_strong_explicit(&control->reader_pid, &old, pid,
								    memory_order_acq_rel,
								    memory_order_relaxed))
				return 0;
			/* It has left just now, or another successor was faster. */
			continue;
		}
		/* relaxed: our own store */
		if (atomic_load_explicit(&control->next_reader_pid, memory_order_relaxed) != pid)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

static void reader_delete(struct ring_reader *reader)
{
	if (!reader)
		return;
	free(reader->candidates);
	free(reader->newest);
	free(reader->copy);
	free(reader->dict_copy);
	free(reader);
}

struct ring_reader *ring_reader_new(struct ring *ring, uint32_t pid, uint64_t now_ns)
{
	struct ring_reader *reader = calloc(1, sizeof(*reader));
	uint8_t *on_stack = malloc(ring->subbuf_count);
	uint32_t next = pid;
	int err = -ENOMEM;

	if (!reader || !on_stack)
		goto cleanup;
	reader->ring = ring;
	reader->pid = pid;
	reader->candidates = calloc(ring->subbuf_count, sizeof(*reader->candidates));
	reader->newest = calloc(ring->thread_max, sizeof(*reader->newest));
	reader->copy = aligned_alloc(RING_CACHE_LINE, ring->subbuf_bytes);
	reader->dict_copy = aligned_alloc(RING_CACHE_LINE, RING_DICT_COPY_BYTES);
	if (!reader->candidates || !reader->newest || !reader->copy || !reader->dict_copy)
		goto cleanup;

	err = reader_claim(ring, pid, now_ns);
	if (err)
		goto cleanup;
	/* acq_rel: an old reader that was only thought dead finds it changed and stops */
	reader->epoch =
		atomic_fetch_add_explicit(&ring->control->reader_epoch, 1, memory_order_acq_rel) +
		1;
	states_repair(ring);
	RING_TEST_POINT("states_repaired");
	stack_repair(ring, reader->epoch, on_stack);
	/* relaxed: the waiting is over; fails when another one waits by now */
	atomic_compare_exchange_strong_explicit(&ring->control->next_reader_pid, &next, 0,
						memory_order_relaxed, memory_order_relaxed);

cleanup:
	free(on_stack);
	if (err) {
		reader_delete(reader);
		errno = -err;
		return NULL;
	}
	return reader;
}

void ring_reader_free(struct ring_reader *reader)
{
	uint32_t pid;

	if (!reader)
		return;
	pid = reader->pid;
	/* release: a successor that finds nobody finds all that we did */
	atomic_compare_exchange_strong_explicit(&reader->ring->control->reader_pid, &pid, 0,
						memory_order_release, memory_order_relaxed);
	reader_delete(reader);
}
