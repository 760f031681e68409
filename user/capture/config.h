/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CONFIG_H
#define BEAMWEAVE_CONFIG_H

/* What a capture is asked to do. Filled in by a command, read by all of capture. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ring.h"

#define ATOM_BYTES (255 * 4 + 1) /* of an atom's text: 255 characters of UTF-8, a 0 */

/* Functions to trace. An empty function stands for any. */
struct call_spec {
	char module[ATOM_BYTES];
	char function[ATOM_BYTES];
	int arity; /* -1: any */
};

/* Groups of Erlang events. */
enum vm_event {
	VM_MESSAGES = 1,
	VM_RUNNING = 2,
	VM_GC = 4,
	VM_PROCS = 8,
	VM_PORTS = 16,
};

enum vm_capture {
	VM_CAPTURE_ARGS = 1,
	VM_CAPTURE_RETURN = 2,
};

/* Steps that have another way, to be forced on that. Kernel probes have names of their own. */
enum capture_without {
	WITHOUT_CMDLINE = 1, /* the node's name from the command line: then epmd is asked */
	WITHOUT_EPMD = 2, /* the port from epmd: then the process's listening sockets are tried */
	WITHOUT_PIDFD = 4, /* then the target's end is seen in /proc */
	WITHOUT_DEVSHM = 8, /* a session in /dev/shm: then in /tmp */
	WITHOUT_NAMES = 16, /* names of processes that exist */
};

/* The way of Erlang events out of the VM. */
enum capture_tracer {
	TRACER_NIF = 0,
	TRACER_PORT = 1, /* a trace port of ours */
	TRACER_IP = 2, /* OTP's IP trace port: no native code of ours in the VM */
};

struct capture_config {
	/* The target: one of these. */
	pid_t pid; /* 0: not given */
	const char *node; /* NULL: not given */
	char **command; /* NULL: not given */
	const char *session; /* a session that the VM made; may stand beside pid */
	bool wait; /* until the node is there */

	/* The VM side. */
	bool attach;
	enum capture_tracer tracer;
	uint32_t queue_messages; /* of OTP's IP trace port */
	bool attach_required; /* something of it was asked for by name */
	const struct call_spec *calls;
	size_t call_count;
	uint32_t events; /* bits of enum vm_event */
	char *const *pids; /* NULL: all; "existing", "new" or processes */
	size_t pid_count;
	uint32_t capture; /* bits of enum vm_capture */
	uint32_t capture_bytes, capture_depth;
	bool redact;
	enum ring_mode mode;
	uint64_t buffer_bytes;
	const char *cookie_file;
	uint32_t without; /* bits of enum capture_without */

	/* The kernel side: bits 1 << enum kernel_probe. */
	uint32_t kernel_wanted, kernel_without, kernel_required;

	/* Limits; 0: none. */
	uint64_t duration_ns;
	uint64_t max_events;
	uint64_t max_bytes;

	const char *output; /* "-": standard output */
	int live_fd; /* an unnamed file that is read while it grows, in place of output; 0: none */
	const char *command_line; /* as typed, for the recording */
};

#endif
