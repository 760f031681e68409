/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RING_H
#define BEAMWEAVE_RING_H

/*
 * The ring: one shared-memory file (a session) between the threads of an Erlang VM, which write,
 * and one reader in another process. ring_layout.h has its layout, ring_record.h the records in it.
 *
 * All threads draw equal sub-buffers from one pool. A thread fills one sub-buffer at a time and
 * publishes each record by one release store of the committed length. A full sub-buffer goes to
 * the reader, which returns it to a free stack: the most recently freed is taken first, so that
 * what is written stays in the cache.
 *
 * A writer takes no lock, allocates nothing, makes no system call. Both sides treat what the other
 * wrote as hostile.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ring_layout.h"

/* Tests hook a function here to force the races; a build without RING_TEST has none of it. */
#ifdef RING_TEST
extern void (*ring_test_hook)(const char *point);
#define RING_TEST_POINT(name)                                                                      \
	do {                                                                                       \
		if (ring_test_hook)                                                                \
			ring_test_hook(name);                                                      \
	} while (0)
#else
#define RING_TEST_POINT(name) ((void)0)
#endif

/* ---- Set-up, both sides ------------------------------------------------------------------ */

/* Sizes of a session; zeros become the defaults. */
struct ring_config {
	enum ring_mode mode;
	uint64_t pool_bytes; /* 64 MiB */
	uint32_t subbuf_bytes; /* 32 KiB, a power of two, 4 KiB to 64 KiB */
	uint32_t thread_max; /* 256 */
	uint32_t mfa_slots; /* 65536 */
	uint32_t atom_slots; /* 131072 */
	uint64_t dict_bytes; /* 16 MiB */
};

/* One side's view: pointers and bounds worked out from a header that was checked once. */
struct ring {
	uint8_t *map;
	uint64_t bytes;
	enum ring_mode mode;
	uint32_t subbuf_bytes, subbuf_count, thread_max, mfa_mask, atom_mask;
	uint64_t dict_bytes;
	struct ring_header *header; /* for vm, vm_valid and target_pid only */
	struct ring_control *control;
	struct ring_thread *threads;
	struct ring_meta *meta;
	struct ring_mfa_slot *mfas;
	struct ring_atom_slot *atoms;
	uint8_t *dict;
	uint8_t *pool;
};

/* Bytes of a session file with this configuration. 0: the sizes are out of range. */
uint64_t ring_file_bytes(const struct ring_config *config);

/*
 * Make a session in zeroed memory of that size. It has no limits, and no lease either: nothing is
 * recorded before control->lease_until_ns is set. Returns 0 or -EINVAL.
 */
int ring_create(struct ring *ring, void *map, uint64_t map_bytes, const struct ring_config *config,
		uint64_t now_ns);

/* Check the header of an existing session. Returns 0, -EINVAL (no session), -EPROTO (version). */
int ring_open(struct ring *ring, void *map, uint64_t map_bytes);

/* ---- Writer ------------------------------------------------------------------------------ */

/* A thread's place in a ring. Private to the thread; lives as long as the thread may write. */
struct ring_writer {
	uint8_t *subbuf; /* the sub-buffer being filled, NULL none */
	uint32_t position; /* next byte in it; 0 when none */
	uint32_t limit; /* subbuf_bytes, 0 when none: nothing fits */
	uint64_t base_ns;
	uint64_t credits; /* left of the block drawn */
	struct ring_thread *thread;
	struct ring *ring;
	uint32_t thread_index;
	uint32_t index; /* of subbuf */
	uint64_t sequence; /* of the newest sub-buffer begun */
	/* overwrite mode: the oldest full one that is still ours, and where to look for it first */
	uint64_t oldest_sequence;
	uint32_t cursor;
	uint32_t reserved; /* bytes of the record in progress: what ring_commit() may add at most */
};

/*
 * Claim a thread's entry: set-up, once a thread. `tid` as the kernel knows it inside the VM's pid
 * namespace, not 0. Returns 0, -EINVAL, -ENOSPC (the table is full). After -ENOSPC the writer may be
 * used all the same: every reservation fails and counts in unclaimed_discarded.
 */
int ring_writer_claim(struct ring_writer *writer, struct ring *ring, uint32_t tid,
		      enum ring_role role, uint32_t number, uint64_t esdp);

/* Slow path of ring_reserve(): a new sub-buffer, new credits, or NULL and one discarded event. */
void *ring_reserve_slow(struct ring_writer *writer, uint64_t now_ns, enum ring_kind kind,
			uint32_t bytes);

/* May an event of this instant be written? One shared line, read only. */
static inline int ring_running(const struct ring *ring, uint64_t now_ns)
{
	const struct ring_control *control = ring->control;

	/* relaxed: a late view delays the end by one event; the credits bound what may be written */
	return atomic_load_explicit(&control->run, memory_order_relaxed) == RING_RUN &&
	       now_ns < atomic_load_explicit(&control->lease_until_ns, memory_order_relaxed) &&
	       now_ns < atomic_load_explicit(&control->stop_at_ns, memory_order_relaxed);
}

/*
 * Room for a record of at most `bytes` (a multiple of 8) with its header filled in, or NULL: the
 * event is counted as discarded. The record is invisible until ring_commit().
 */
static inline void *ring_reserve(struct ring_writer *writer, uint64_t now_ns, enum ring_kind kind,
				 uint32_t bytes, uint64_t process)
{
	uint64_t delta_ns = now_ns - writer->base_ns;
	struct ring_record *record;

	if (__builtin_expect(writer->limit - writer->position < bytes || delta_ns > UINT32_MAX ||
				     !writer->credits,
			     0)) {
		record = ring_reserve_slow(writer, now_ns, kind, bytes);
		if (!record)
			return NULL;
		delta_ns = now_ns - writer->base_ns;
	} else {
		record = (struct ring_record *)(writer->subbuf + writer->position);
	}
	record->delta_ns = (uint32_t)delta_ns;
	record->kind = (uint8_t)kind;
	record->flags = 0;
	record->bytes = (uint16_t)bytes;
	record->process = process;
	writer->reserved = bytes;
	return record;
}

/*
 * Publish the record that was reserved last; record->bytes may have been made smaller. A reservation
 * that is not published costs nothing: the next one takes its place.
 */
static inline void ring_commit(struct ring_writer *writer, struct ring_record *record)
{
	/* volatile: read once; a peer that is not trusted can change both at any time */
	uint32_t bytes = *(volatile uint16_t *)&record->bytes & ~7u;
	uint32_t kind = *(volatile uint8_t *)&record->kind;
	_Atomic uint64_t *recorded;

	if (__builtin_expect(bytes > writer->reserved, 0))
		bytes = writer->reserved;
	if (__builtin_expect(kind >= RING_KINDS, 0))
		kind = RING_UNKNOWN;
	recorded = &writer->thread->recorded[kind];
	writer->position += bytes;
	writer->reserved = 0;
	writer->credits--;
	RING_TEST_POINT("commit");
	/* relaxed: one writer; a reader takes exact counts after the end */
	atomic_store_explicit(recorded, atomic_load_explicit(recorded, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	/* release: the reader that sees this length sees the record's bytes */
	atomic_store_explicit(&((struct ring_subbuf *)writer->subbuf)->committed, writer->position,
			      memory_order_release);
}

/*
 * Credits: no more than control->credits records are written in all. Once a thread asks for one more
 * the session is RING_STOPPED with RING_END_EVENTS; reservations that fail for it are not counted
 * as discarded. Threads draw smaller blocks towards the end, so that control->credits <= 0 means
 * that (nearly) all are spent.
 */

/* Count an event that was not recorded for a reason of the caller's. */
void ring_discard(struct ring_writer *writer, uint64_t now_ns, enum ring_kind kind);

/*
 * Index of an MFA, RING_NO_INDEX when the table is full. *is_new: its text is not in the
 * dictionary yet; put it there, then call ring_mfa_seen(). Atoms as table indices + 1.
 */
uint32_t ring_mfa_index(struct ring *ring, uint32_t module, uint32_t function, uint32_t arity,
			int *is_new);
void ring_mfa_seen(struct ring *ring, uint32_t index);

/* The slot of an atom, NULL when the table is full. When !seen: put its text, then ring_atom_seen(). */
struct ring_atom_slot *ring_atom_slot(struct ring *ring, uint32_t atom);
void ring_atom_seen(struct ring_atom_slot *slot, uint64_t hash);

/* Append to the dictionary. Returns 0, -ENOSPC (counted), -EINVAL (too long). */
int ring_dict_put(struct ring *ring, enum ring_dict_type type, uint64_t key, const void *payload,
		  uint32_t bytes);
/* The same with the payload in two parts, so that a header and a text need no copy. */
int ring_dict_put2(struct ring *ring, enum ring_dict_type type, uint64_t key, const void *head,
		   uint32_t head_bytes, const void *tail, uint32_t tail_bytes);

/* The check word of an entry, never 0. */
uint32_t ring_dict_check(uint16_t type, uint16_t bytes, uint64_t key, const void *payload);

/* ---- Reader ------------------------------------------------------------------------------ */

/* A run of committed bytes, in the order in which its thread wrote it. */
struct ring_fragment {
	uint32_t thread;
	uint32_t from; /* offset in the sub-buffer; 0: `data` starts with a struct ring_subbuf */
	uint64_t sequence;
	uint64_t base_ns;
	const void *data; /* a private copy, valid during the call */
	uint32_t bytes;
};

/* Takes a fragment for good: 0, or -errno, and then it comes again at the next drain. */
typedef int (*ring_fragment_fn)(void *context, const struct ring_fragment *fragment);

struct ring_reader;

/*
 * Attach as the reader. Repairs what a dead reader left. NULL with errno (EBUSY: a live reader).
 * Planned hand-over: the successor stores its pid in control->next_reader_pid and calls this, which
 * then waits up to 2 s for the old reader to leave (it sees next_reader_pid, drains once more and
 * calls ring_reader_free()).
 */
struct ring_reader *ring_reader_new(struct ring *ring, uint32_t pid, uint64_t now_ns);
void ring_reader_free(struct ring_reader *reader);

/*
 * Pass on everything that is committed, at most `max_bytes` (but one fragment at least), in turn from
 * all threads, and give full sub-buffers back. Returns the bytes passed on, -errno of the callback,
 * or -ESTALE: another reader has taken over. Tolerates any content of the memory.
 *
 * A fragment is stored before it counts as consumed: after a reader's death its last one can come
 * again, to its successor, with the same thread, sequence and from.
 */
int64_t ring_drain(struct ring_reader *reader, uint64_t max_bytes, ring_fragment_fn fn,
		   void *context);

/* The share of the pool that is waiting to be read, in 1/1000, at the last drain. */
uint32_t ring_fill_permille(const struct ring_reader *reader);

/*
 * New dictionary bytes since the last call, whole entries: *data points into a private copy that is
 * valid until the next call, *offset is their place in the dictionary. Returns the bytes; call it
 * until it returns 0, and after ring_drain(): what a record names was there before the record. An
 * entry that was committed late comes alone, by its own offset. Every reader starts from 0.
 */
int64_t ring_dict_drain(struct ring_reader *reader, const void **data, uint64_t *offset);

/*
 * Walk entries in a copy of dictionary bytes that starts at a slot. Holes of dead writers are
 * skipped. `data` is 8-byte aligned; *position starts at 0. Returns 1 and the entry, 0 at the end.
 */
int ring_dict_next(const void *data, uint64_t bytes, uint64_t *position,
		   const struct ring_dict_entry **entry);

#endif
