/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RING_LAYOUT_H
#define BEAMWEAVE_RING_LAYOUT_H

/*
 * What stands where in a session file:
 *
 *   header | control | thread table | sub-buffer states | MFA table | atom table | dictionary | pool
 *
 * Offsets and sizes stand in the header. Both sides copy them out once, check them, and never read
 * them again; every index is bounded where it is used.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "ring_record.h"

#define RING_MAGIC	0x31474e4952574242ULL /* "BBWRING1" */
#define RING_VERSION	1
#define RING_CACHE_LINE 64

/* ---- Sub-buffers ------------------------------------------------------------------------ */

/* At the start of each sub-buffer: all that its decoding needs. */
struct ring_subbuf {
	_Atomic uint64_t committed; /* bytes from the start of this header that may be read */
	uint64_t sequence; /* in the thread, from 1, without gaps in discard mode */
	uint64_t base_ns; /* CLOCK_MONOTONIC */
	uint32_t thread; /* index in the thread table */
	uint32_t reserved;
	/* The discarding since the thread's previous sub-buffer; 0 when nothing was discarded. */
	uint64_t loss_first_ns, loss_last_ns;
	uint64_t reserved2[2];
	/* The thread's cumulative counts when this sub-buffer was begun. */
	uint64_t recorded[RING_KINDS];
	uint64_t discarded[RING_KINDS];
};

/*
 * The low byte of a state word; the thread stands above it, the low half of the sequence on top.
 * A free sub-buffer keeps those of its last use, so that no state word ever comes back: whoever
 * changes a state by CAS from the word that it read cannot mistake a later use for an earlier one.
 * What a successor put back on the free stack after a death has RING_REPAIRED as its thread and the
 * reader's epoch as its sequence.
 *
 *   FREE -> WRITING   writer, after it took the index off the free stack
 *   WRITING -> FULL   the same writer
 *   FULL -> READING   reader
 *   READING -> FREE   reader, before it puts the index on the free stack
 *   FULL -> WRITING   overwrite mode, a writer that found nothing free
 *   READING -> FULL   reader, when its callback failed, or its successor after its death
 */
enum ring_state { RING_FREE = 0, RING_WRITING = 1, RING_FULL = 2, RING_READING = 3 };

#define RING_STATE(state, thread, sequence)                                                        \
	((uint64_t)(state) | (uint64_t)(thread) << 8 | (uint64_t)(uint32_t)(sequence) << 32)

#define RING_STATE_OF(word)	  ((enum ring_state)((word)&0xff))
#define RING_STATE_THREAD(word)	  ((uint32_t)((word) >> 8) & 0xffffff)
#define RING_STATE_SEQUENCE(word) ((uint32_t)((word) >> 32))
#define RING_REPAIRED		  0x800000u

/*
 * `consumed` of a state: the bytes in the low 17 bits, the low 15 bits of the sequence above, so
 * that a reader's late store, for a sub-buffer that was overwritten meanwhile, finds another word.
 */
#define RING_CONSUMED(sequence, bytes) ((uint32_t)(sequence) << 17 | (uint32_t)(bytes))
#define RING_CONSUMED_BYTES(consumed)  ((consumed)&0x1ffff)

/* Beside the pool, so that the reader scans states without touching the sub-buffers. */
struct ring_meta {
	_Atomic uint64_t state;
	_Atomic uint32_t next; /* free stack: index + 1 of the next, 0 ends */
	_Atomic uint32_t consumed; /* RING_CONSUMED(): bytes that a reader has stored for good */
};

/* ---- Control and threads ---------------------------------------------------------------- */

enum ring_run_state { RING_RUN = 0, RING_PAUSED = 1, RING_STOPPED = 2 };

/* What the tracer's controller says of itself. */
enum ring_tracer_state {
	RING_TRACER_NONE = 0,
	RING_TRACER_ATTACHING = 1,
	RING_TRACER_ON = 2,
	RING_TRACER_ENDED = 3, /* flags and patterns are off, nothing more will be written */
};

enum ring_end_reason {
	RING_END_NONE = 0,
	RING_END_ASKED = 1, /* the reader set RING_STOPPED */
	RING_END_LEASE = 2,
	RING_END_TIME = 3,
	RING_END_EVENTS = 4, /* credits are spent */
	RING_END_FAILED = 5,
	RING_END_SHELL = 6, /* ended from the node */
};

struct ring_control {
	/* Line 0: written by the reader, read by every writer at every event. */
	_Alignas(RING_CACHE_LINE) _Atomic uint32_t run; /* enum ring_run_state */
	uint32_t reserved0;
	_Atomic uint64_t lease_until_ns;
	_Atomic uint64_t stop_at_ns; /* UINT64_MAX: no limit */

	/* Line 1: credits left to be drawn in blocks; INT64_MAX: no limit. */
	_Alignas(RING_CACHE_LINE) _Atomic int64_t credits;
	_Atomic uint64_t credit_block;

	/* Line 2: top of the free stack: tag << 32 | index + 1. */
	_Alignas(RING_CACHE_LINE) _Atomic uint64_t free_top;

	/* Line 3: allocation points, all only grow. */
	_Alignas(RING_CACHE_LINE) _Atomic uint32_t thread_count;
	uint32_t reserved3;
	_Atomic uint64_t dict_tail; /* bytes reserved in the dictionary, may exceed its size */
	_Atomic uint64_t dict_discarded; /* entries that found no room */
	_Atomic uint64_t unclaimed_discarded; /* events of threads that found no table entry */

	/* Line 4: tracer to reader. */
	_Alignas(RING_CACHE_LINE) _Atomic uint32_t tracer; /* enum ring_tracer_state */
	_Atomic uint32_t end_reason; /* enum ring_end_reason */
	_Atomic uint64_t heartbeat_ns;
	_Atomic uint64_t names_done; /* processes whose names stand in the dictionary */
	_Atomic uint64_t names_total;

	/* Line 5: readers. */
	_Alignas(RING_CACHE_LINE) _Atomic uint32_t reader_pid;
	_Atomic uint32_t next_reader_pid; /* a successor that waits; 0: none */
	_Atomic uint64_t reader_epoch;
};

enum ring_role {
	RING_ROLE_OTHER = 0,
	RING_ROLE_NORMAL = 1,
	RING_ROLE_DIRTY_CPU = 2,
	RING_ROLE_DIRTY_IO = 3
};

struct ring_thread {
	_Alignas(RING_CACHE_LINE) _Atomic uint32_t
		tid; /* in the VM's pid namespace; 0: not claimed */
	uint32_t role; /* enum ring_role */
	uint32_t number; /* scheduler number, 0 unknown */
	uint32_t reserved;
	uint64_t esdp; /* address of the scheduler's data in the VM, 0 unknown */
	_Atomic uint64_t sequence; /* of the newest sub-buffer begun */
	_Atomic uint64_t loss_first_ns, loss_last_ns; /* since the newest sub-buffer was begun */
	_Alignas(RING_CACHE_LINE) _Atomic uint64_t recorded[RING_KINDS];
	_Atomic uint64_t discarded[RING_KINDS];
};

/* ---- Dictionary ------------------------------------------------------------------------- */

/* Append-only values. Texts are UTF-8 without a final 0. */
enum ring_dict_type {
	RING_DICT_ATOM = 1, /* key: table index + 1; text */
	RING_DICT_MFA = 2, /* key: MFA index; struct ring_dict_mfa */
	RING_DICT_NAME = 3, /* key: pid word; time, then the registered name */
	RING_DICT_INITIAL = 4, /* key: pid word; time, then the initial call "mod:fun/1" */
	RING_DICT_PORT = 5, /* key: port word; struct ring_dict_port, then the driver's name */
	RING_DICT_OWN = 6, /* key: pid word of one of beamweave's own processes; empty */
	RING_DICT_NOTE = 7, /* key: 0; time, then a line for the user */
	RING_DICT_FLAGS = 8, /* key: 0; time, then the trace flags that are on, "call,return_to" */
	RING_DICT_PARENT = 9, /* key: pid word; the parent's pid word (uint64_t) */
	RING_DICT_CLOCK = 10, /* key: 0; struct ring_dict_clock */
};

#define RING_DICT_SLOT	      32 /* entries start at multiples of this */
#define RING_DICT_PAYLOAD_MAX 60000u

struct ring_dict_entry {
	_Atomic uint32_t check; /* ring_dict_check(); stored last, by release; 0: not committed */
	uint16_t type; /* enum ring_dict_type */
	uint16_t bytes; /* of the payload */
	uint64_t key;
	/* uint8_t payload[bytes] */
};

/* What an entry takes up in the dictionary. */
static inline uint64_t ring_dict_size(uint32_t payload_bytes)
{
	return (sizeof(struct ring_dict_entry) + payload_bytes + RING_DICT_SLOT - 1) &
	       ~(uint64_t)(RING_DICT_SLOT - 1);
}

struct ring_dict_mfa {
	uint32_t module, function; /* atoms: index + 1 */
	uint32_t arity;
	uint32_t reserved;
};

struct ring_dict_port {
	uint64_t time_ns;
	uint64_t owner; /* pid word, 0 none */
	uint16_t family; /* AF_INET, AF_INET6, 0 */
	uint16_t local_port, remote_port; /* host order */
	uint16_t reserved;
	uint8_t local[16], remote[16]; /* IPv4 in the first 4 */
};

/* One moment on three clocks, for times that the VM itself has put into a trace message. */
struct ring_dict_clock {
	uint64_t clock_ns; /* CLOCK_MONOTONIC */
	int64_t erlang; /* erlang:monotonic_time(), native */
	uint64_t per_second; /* native units */
	int64_t erlang_os_us; /* os:system_time() */
};

/* Two tables from words to dictionary entries; a slot is used for good. */
struct ring_mfa_slot {
	_Atomic uint64_t key; /* module 28 bits, function 28 bits, arity 8 bits, +1; 0 empty */
	_Atomic uint32_t seen; /* 1: its text stands in the dictionary */
	uint32_t reserved;
};

struct ring_atom_slot {
	_Atomic uint32_t key; /* table index + 1; 0 empty */
	_Atomic uint32_t seen; /* 1: hash is valid and the text stands in the dictionary */
	_Atomic uint64_t hash; /* of the text */
};

/* ---- The file's header ------------------------------------------------------------------ */

enum ring_mode { RING_DISCARD = 0, RING_OVERWRITE = 1 };

/* What the tracer found of the VM it runs in; written once, before RING_TRACER_ON. */
struct ring_vm {
	uint32_t otp_release; /* 25 */
	uint32_t frame_words; /* F of the chain rule, 0 unknown: no durations by depth */
	uint32_t return_slack; /* k of the chain rule */
	uint32_t scan; /* 1: records carry the scan */
	/* Bit i of a pid word is bit pid_bit[i] of serial << 32 | number; 0xff: none of them. */
	uint8_t pid_bit[64];
	/* Offsets for reading, from a thread's esdp, the process that it executes; 0 unknown. */
	uint32_t esdp_current_process, esdp_current_port, esdp_number, process_id;
	uint32_t port_connected; /* from a port to the word of its owner; 0 unknown */
	uint32_t port; /* 1: a trace port records, and not the NIF */
	uint32_t reserved[6];
};

struct ring_header {
	uint64_t magic;
	uint32_t version;
	uint32_t mode; /* enum ring_mode */
	uint64_t bytes; /* of the whole file */
	uint32_t subbuf_bytes, subbuf_count;
	uint32_t thread_max;
	uint32_t mfa_slots, atom_slots; /* powers of two */
	uint32_t reserved;
	uint64_t dict_bytes;
	uint64_t control_offset, thread_offset, meta_offset, mfa_offset, atom_offset, dict_offset,
		pool_offset;
	uint64_t created_ns;
	uint32_t target_pid; /* the VM, in its own pid namespace, for whoever finds the file; 0 unknown */
	uint32_t vm_valid; /* 1: vm is written */
	struct ring_vm vm;
};

_Static_assert(sizeof(struct ring_subbuf) == 64 + 2 * 8 * RING_KINDS, "sub-buffer header");
_Static_assert(sizeof(struct ring_meta) == 16, "sub-buffer state");
_Static_assert(sizeof(struct ring_dict_entry) == 16, "dictionary entry");
_Static_assert(sizeof(struct ring_dict_port) == 56, "dictionary port");
_Static_assert(sizeof(struct ring_dict_clock) == 32, "dictionary clock");
_Static_assert(sizeof(struct ring_header) <= 4096, "header page");

#endif
