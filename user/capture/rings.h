/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RINGS_H
#define BEAMWEAVE_RINGS_H

/*
 * The reader's side of a session: its file, mapped so that a truncation by others cannot kill us, and
 * the way of its bytes into a recording. One session a process.
 */

#include <stdbool.h>
#include <stdint.h>

#include "file.h"
#include "place.h"
#include "ring.h"

#define RINGS_LEASE_NS 2000000000ull

struct rings {
	struct place place;
	struct ring ring;
	struct ring_reader *reader;
	void *map;
	uint64_t bytes;
	uint32_t threads_seen;
};

struct rings_limits {
	uint64_t max_events; /* 0: none */
};

/*
 * Create a session that the target's user can write to. Its pages are ours: allocated and touched
 * here. Returns 0, -ENOSPC, -errno.
 */
int rings_create(struct rings *rings, const struct target *target, uint32_t without,
		 const struct ring_config *config, const struct rings_limits *limits,
		 struct fault *fault);
/* A session that a VM made. */
int rings_open(struct rings *rings, const char *path, struct fault *fault);
/* Become its reader. Returns 0 or -errno (-EBUSY: another reads it). */
int rings_attach(struct rings *rings, struct fault *fault);
/* Unmap and remove the file. Harmless on a zeroed struct whose place is PLACE_NONE. */
void rings_close(struct rings *rings);

/* Was the file truncated? Then nothing more comes of it, and all that is read is 0. */
bool rings_broken(void);

/* Writers may go on for RINGS_LEASE_NS from now. */
void rings_lease(struct rings *rings, uint64_t now_ns);
/* Ask the VM's side to end: see rings_tracer() for when it has. */
void rings_stop(struct rings *rings);
/* enum ring_tracer_state, enum ring_end_reason as the VM's side left them. */
uint32_t rings_tracer(const struct rings *rings);
uint32_t rings_end_reason(const struct rings *rings);
/* The controller's last sign of life, CLOCK_MONOTONIC. */
uint64_t rings_heartbeat_ns(const struct rings *rings);

/* Move committed bytes into the recording. Returns bytes or -errno of the writer. */
int64_t rings_drain(struct rings *rings, struct file_writer *writer, uint64_t max_bytes);
/* Move new dictionary entries; lines for the user are shown too. Returns bytes or -errno. */
typedef void (*rings_note_fn)(void *context, const char *text);
int64_t rings_drain_names(struct rings *rings, struct file_writer *writer, rings_note_fn note,
			  void *context);
/* Append bytes of a dictionary that begin at `offset` of it, and show its lines. 0 or -errno. */
int rings_write_names(struct file_writer *writer, const void *data, uint64_t bytes, uint64_t offset,
		      rings_note_fn note, void *context);
/* How much of the pool waits to be read, in 1/1000. */
uint32_t rings_fill_permille(const struct rings *rings);

/* The VM as the tracer found it. False: not known yet. */
bool rings_vm(const struct rings *rings, struct ring_vm *vm);
/* Append CHUNK_THREADS with the counts of now. */
int rings_write_threads(struct rings *rings, struct file_writer *writer, uint64_t now_ns);

struct rings_counts {
	uint64_t recorded, discarded; /* all kinds and threads */
	uint64_t by_kind[RING_KINDS]; /* recorded */
	uint64_t names_done, names_total;
};
/* The counters as they are now. */
void rings_counts(const struct rings *rings, struct rings_counts *counts);

/* Threads that appeared since the last call. `tid` is in the VM's pid namespace. */
typedef void (*rings_thread_fn)(void *context, uint32_t tid, uint32_t role, uint32_t number,
				uint64_t esdp);
/* Calls `fn` once for each, when its entry is filled in. */
void rings_new_threads(struct rings *rings, rings_thread_fn fn, void *context);

#endif
