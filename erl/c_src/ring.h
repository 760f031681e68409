/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RING_H
#define BEAMWEAVE_RING_H

/*
 * The ring: one shared-memory file (a session) between the threads of an Erlang VM, which write,
 * and one reader in another process.
 *
 *   header | control | thread table | sub-buffer states | MFA table | atom table | dictionary | pool
 *
 * All threads draw equal sub-buffers from one pool. A thread fills one sub-buffer at a time and
 * publishes each record by one release store of the committed length. A full sub-buffer goes to
 * the reader, which returns it to a free stack: the most recently freed is taken first, so that
 * what is written stays in the cache.
 *
 * A writer takes no lock, allocates nothing, makes no system call. Both sides treat what the other
 * wrote as hostile: offsets and sizes are copied out of the header once, checked, and never read
 * again; every index is bounded where it is used.
 *
 * This file is also the format of the VM's records: the reader stores them as they stand.
 * Everything is little-endian, 8-byte aligned, append-only.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC	0x31474e4952574242ULL /* "BBWRING1" */
#define RING_VERSION	1
#define RING_CACHE_LINE 64
#define RING_KINDS	48
#define RING_NO_INDEX	0xffffffffu
#define RING_NO_DEPTH	0xffffffffu

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

/* ---- Records ---------------------------------------------------------------------------- */

/* Values are stored in files: never change one, only add. */
enum ring_kind {
	RING_UNKNOWN = 0, /* struct ring_other: a trace tag that this version does not know */
	RING_CALL = 1, /* struct ring_call */
	RING_RETURN_TO = 2, /* struct ring_return_to */
	RING_RETURN_FROM = 3, /* struct ring_value; the value by --capture return */
	RING_EXCEPTION_FROM = 4, /* struct ring_value; shape describes {Class, Value} */
	RING_SEND = 5, /* struct ring_send */
	RING_SEND_NOPROC = 6, /* struct ring_send: send_to_non_existing_process */
	RING_RECEIVE = 7, /* struct ring_receive */
	RING_IN = 8, /* struct ring_run, and so the five below */
	RING_OUT = 9,
	RING_IN_EXITING = 10,
	RING_OUT_EXITING = 11,
	RING_OUT_EXITED = 12,
	RING_GC_MINOR_START = 13, /* struct ring_gc, and so the three below */
	RING_GC_MINOR_END = 14,
	RING_GC_MAJOR_START = 15,
	RING_GC_MAJOR_END = 16,
	RING_GC_MAX_HEAP = 17, /* struct ring_gc */
	RING_SPAWN = 18, /* struct ring_spawn: process spawned other */
	RING_SPAWNED = 19, /* struct ring_spawn: process was spawned by other */
	RING_EXIT = 20, /* struct ring_value: the reason */
	RING_LINK = 21, /* struct ring_peer, and so the three below */
	RING_UNLINK = 22,
	RING_GETTING_LINKED = 23,
	RING_GETTING_UNLINKED = 24,
	RING_REGISTER = 25, /* struct ring_name, and so the one below */
	RING_UNREGISTER = 26,
	RING_PORT_OPEN = 27, /* struct ring_port_open */
	RING_PORT_CLOSED = 28, /* struct ring_value: the reason */
	RING_PORT_IN = 29, /* struct ring_name: running_ports; the name is the port operation */
	RING_PORT_OUT = 30,
};

enum ring_flag {
	RING_F_CAPTURE = 1, /* a struct ring_capture follows the fixed part */
	RING_F_CUT = 2, /* the capture was cut at its budget */
	RING_F_DIRTY = 4, /* written on a dirty scheduler's thread */
	RING_F_GLOBAL = 8, /* reserved */
	RING_F_TERM = 16, /* struct ring_term, whatever the kind: as a trace port was sent it */
};

struct ring_record {
	uint32_t delta_ns; /* since base_ns of the sub-buffer */
	uint8_t kind; /* enum ring_kind */
	uint8_t flags; /* enum ring_flag */
	uint16_t bytes; /* the whole record, a multiple of 8 */
	uint64_t process; /* the traced process's or port's term word */
};

/*
 * An atom in a record is its table index (term word >> 6) + 1; 0 is none. An MFA is an index into
 * the MFA table, RING_NO_INDEX when there is none or the table was full. Their texts stand in the
 * dictionary. stack depth is in words.
 */

/* The shape of a term, without its content. */
struct ring_shape {
	uint64_t fingerprint; /* of a bounded prefix, the same on every node */
	uint32_t atom[2]; /* the atom itself, or a tuple's up to two leading atoms */
	uint16_t arity; /* of a tuple; 0 otherwise */
	uint8_t type; /* enum ring_type */
	uint8_t reserved[5];
};

enum ring_type {
	RING_T_OTHER = 0,
	RING_T_ATOM = 1,
	RING_T_TUPLE = 2,
	RING_T_LIST = 3,
	RING_T_BINARY = 4,
	RING_T_INTEGER = 5,
	RING_T_PID = 6,
	RING_T_MAP = 7,
	RING_T_FLOAT = 8,
	RING_T_REF = 9,
	RING_T_PORT = 10,
	RING_T_FUN = 11,
	RING_T_NIL = 12,
};

struct ring_call {
	struct ring_record h;
	uint32_t mfa;
	uint32_t depth; /* RING_NO_DEPTH when unknown */
	uint32_t frame; /* depth of the nearest return_to frame, RING_NO_DEPTH: none found */
	uint32_t tail; /* 1: the scan saw a tail call, 0: not, 2: not looked */
};

struct ring_return_to {
	struct ring_record h;
	uint32_t mfa; /* RING_NO_INDEX: undefined */
	uint32_t depth;
};

struct ring_value {
	struct ring_record h;
	struct ring_shape shape;
	uint32_t mfa;
	uint32_t depth;
};

struct ring_send {
	struct ring_record h;
	uint64_t to; /* pid or port word; 0 when `name` or nothing is known */
	uint32_t name; /* registered name sent to */
	uint32_t reserved;
	struct ring_shape shape;
};

struct ring_receive {
	struct ring_record h;
	struct ring_shape shape;
};

struct ring_run {
	struct ring_record h;
	uint32_t mfa;
	uint32_t scheduler; /* 1..: normal; 0: dirty */
};

struct ring_gc {
	struct ring_record h;
	/* words, as the VM names them in its trace documentation */
	uint64_t heap_size, heap_block_size, old_heap_size, old_heap_block_size, stack_size,
		recent_size, mbuf_size, bin_vheap_size, bin_vheap_block_size, bin_old_vheap_size,
		bin_old_vheap_block_size;
};

struct ring_spawn {
	struct ring_record h;
	uint64_t other;
	uint32_t mfa;
	uint32_t initial; /* what proc_lib and gen really start; RING_NO_INDEX: same as mfa */
};

struct ring_peer {
	struct ring_record h;
	uint64_t other; /* pid or port word */
};

struct ring_name {
	struct ring_record h;
	uint32_t name; /* atom */
	uint32_t reserved;
};

struct ring_port_open {
	struct ring_record h;
	uint64_t owner;
	uint32_t driver; /* atom, made of the driver's name where that is cheap; 0 otherwise */
	uint32_t reserved;
};

struct ring_other {
	struct ring_record h;
	uint32_t tag; /* atom */
	uint32_t reserved;
};

/*
 * What --capture read of a term: External Term Format that ei decodes. What a NIF cannot encode
 * within bounds stands as a tuple: {'$pid', Word}, {'$port', Word}, {'$ref', Hash}, {'$fun', Hash};
 * what was left out as the atom '$cut' or the tuple {'$cut', Count}; a binary cut after N bytes as
 * {'$cut', Binary, Size}. With redaction all content is left out this way.
 */
struct ring_capture {
	uint32_t bytes; /* of the ETF below, without padding */
	uint32_t reserved;
	/* uint8_t etf[bytes], padded with 0 to a multiple of 8 */
};

/*
 * A trace message as OTP sends it to a trace port: External Term Format without the leading 131. With
 * RING_F_CUT the middle was left out: `tail_bytes` of the bytes are the message's last ones, where
 * its timestamp stands, those before them its first ones. The record's time is that of arrival, its
 * process 0.
 */
struct ring_term {
	struct ring_record h;
	uint32_t bytes; /* of the ETF below, without padding */
	uint32_t tail_bytes; /* 0: nothing was left out */
	/* uint8_t etf[bytes], padded with 0 to a multiple of 8 */
};

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
	uint32_t reserved[7];
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
	uint32_t target_pid; /* the VM, in its own pid namespace; 0 unknown */
	uint32_t vm_valid; /* 1: vm is written */
	struct ring_vm vm;
};

_Static_assert(sizeof(struct ring_record) == 16, "record header");
_Static_assert(sizeof(struct ring_shape) == 24, "shape");
_Static_assert(sizeof(struct ring_call) == 32, "call");
_Static_assert(sizeof(struct ring_return_to) == 24, "return_to");
_Static_assert(sizeof(struct ring_value) == 48, "value");
_Static_assert(sizeof(struct ring_send) == 56, "send");
_Static_assert(sizeof(struct ring_receive) == 40, "receive");
_Static_assert(sizeof(struct ring_run) == 24, "run");
_Static_assert(sizeof(struct ring_gc) == 104, "gc");
_Static_assert(sizeof(struct ring_spawn) == 32, "spawn");
_Static_assert(sizeof(struct ring_subbuf) == 64 + 2 * 8 * RING_KINDS, "sub-buffer header");
_Static_assert(sizeof(struct ring_meta) == 16, "sub-buffer state");
_Static_assert(sizeof(struct ring_dict_entry) == 16, "dictionary entry");
_Static_assert(sizeof(struct ring_dict_port) == 56, "dictionary port");
_Static_assert(sizeof(struct ring_term) == 24, "trace message");
_Static_assert(sizeof(struct ring_dict_clock) == 32, "dictionary clock");
_Static_assert(sizeof(struct ring_header) <= 4096, "header page");

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
