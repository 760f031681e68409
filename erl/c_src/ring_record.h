/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RING_RECORD_H
#define BEAMWEAVE_RING_RECORD_H

/*
 * The VM's records, as its threads write them into the ring and as files keep them: little-endian,
 * 8-byte aligned, append-only. Each begins with struct ring_record; its kind tells the struct.
 */

#include <stdint.h>

#define RING_KINDS    48
#define RING_NO_INDEX 0xffffffffu
#define RING_NO_DEPTH 0xffffffffu

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
_Static_assert(sizeof(struct ring_term) == 24, "trace message");

#endif
