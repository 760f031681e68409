/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORD_H
#define BEAMWEAVE_RECORD_H

/*
 * A decoded event: what the merge hands to everything above it, one at a time, in time order.
 * Pointers live until the next event is asked for. All numbers were bounds-checked by decoding;
 * none was checked for sense (a process word may be any 64 bits).
 */

#include <stdbool.h>
#include <stdint.h>

#include <linux/types.h>

#include "probes.h"
#include "ring.h"

/* VM kinds are enum ring_kind as they stand; kernel kinds are enum probe_kind plus this. */
#define EVENT_KERNEL 64
/* Kinds that the reader makes of what stands beside the records. */
enum event_kind {
	EVENT_LOSS = 128, /* loss: records were discarded, overwritten, or their chunk is damaged */
	EVENT_NAME = 129, /* name: a process's registered name as asked from the node */
	EVENT_INITIAL = 130, /* name: a process's initial call as asked from the node */
	EVENT_PORT = 131, /* port: an Erlang port, its owner and its socket */
	EVENT_SAMPLE = 132, /* sample: counters read by the recorder */
};
#define EVENT_KINDS 160

/* A text that is not terminated by 0. */
struct text {
	const char *data;
	uint32_t bytes;
};

struct loss {
	bool kernel;
	uint32_t ring; /* thread index (VM) or CPU (kernel) */
	uint64_t from_ns, to_ns; /* ts_ns of the event is from_ns */
	uint64_t counts[RING_KINDS]; /* by ring kind, or by probe kind when kernel */
	uint64_t count; /* all together */
	const char *why; /* "discarded", "overwritten", "damaged": a constant */
};

struct event {
	uint64_t ts_ns;
	uint32_t kind;
	int32_t cpu; /* kernel events; -1 unknown */
	int32_t tid; /* the thread that made it, initial pid namespace; 0 unknown */
	uint32_t ring; /* thread index or CPU */
	uint64_t process; /* Erlang process or port word; 0 none */
	uint8_t flags; /* enum ring_flag */
	union {
		/* By kind, the record as written. The header inside is as stored. */
		const struct ring_call *call;
		const struct ring_return_to *return_to;
		const struct ring_value *value;
		const struct ring_send *send;
		const struct ring_receive *receive;
		const struct ring_run *run;
		const struct ring_gc *gc;
		const struct ring_spawn *spawn;
		const struct ring_peer *peer;
		const struct ring_name *name;
		const struct ring_port_open *port_open;
		const struct ring_other *other;
		const struct ring_term *term; /* RING_F_TERM: before it is decoded */
		const struct probe_switch *sched_switch;
		const struct probe_waking *waking;
		const struct probe_migrate *migrate;
		const struct probe_task *task;
		const struct probe_sock_state *sock_state;
		const struct probe_sock_io *sock_io;
		const struct probe_sock_event *sock_event;
		const struct probe_sock_erlang *sock_erlang; /* begins as the one above */
		const struct probe_syscall *syscall;
		const struct loss *loss;
		const struct ring_dict_port *port;
		struct text text; /* EVENT_NAME, EVENT_INITIAL; EVENT_SAMPLE: a JSON object */
		const void *raw;
	};
	struct text etf; /* the capture, bytes 0 without one */
};

/* "call", "sched_switch", ...: the name of a kind in every output; NULL for an unknown one. */
const char *event_kind_name(uint32_t kind);

#endif
