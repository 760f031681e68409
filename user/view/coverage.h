/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_COVERAGE_H
#define BEAMWEAVE_COVERAGE_H

/* What a recording looked at, and for what it did not: why, and the command that mends it. */

#include <stdbool.h>

#include "trace.h"

enum look {
	LOOK_CALLS = 0,
	LOOK_MESSAGES = 1,
	LOOK_RUNNING = 2, /* Erlang processes on their schedulers */
	LOOK_GC = 3,
	LOOK_PROCS = 4, /* spawns, exits, links, names */
	LOOK_SCHED = 5, /* the kernel's scheduling of the VM's threads */
	LOOK_PROCESS = 6, /* the Erlang process at switch-out */
	LOOK_BLOCKING = 7, /* the system call in which a thread blocks */
	LOOK_SOCKET = 8,
	LOOK_SOCKET_IO = 9,
};
#define LOOKS 10

struct coverage {
	struct {
		bool on;
		const char *what; /* "function calls": a constant */
		char why[192];
		char fix[192]; /* a command, or "" when nothing helps */
		const char *option; /* to be added to that command; "" none */
	} looks[LOOKS];
	char target[64]; /* "-p 1234", "-n NODE": for commands */
};

/* From META, and from the kinds that were seen: `kinds` counts events by kind. */
void coverage_fill(struct coverage *coverage, const struct trace *trace, const uint64_t *kinds);

/* The whole command that mends it, with its option; "" when nothing helps. */
#define COVERAGE_FIX 256
char *coverage_fix(char buffer[static COVERAGE_FIX], const struct coverage *coverage,
		   enum look look);

/* An object, string or number of META by path ("vm.node"); NULL when it is not there or of another type. */
const json_t *meta_at(const struct trace *trace, const char *path);
const char *meta_string(const struct trace *trace, const char *path);
/* -1 when it is not there. */
int64_t meta_number(const struct trace *trace, const char *path);

#endif
