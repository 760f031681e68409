/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORD_OPTIONS_H
#define BEAMWEAVE_RECORD_OPTIONS_H

/* The command line of `beamweave record`. */

#include <argp.h>

#include "config.h"

#define RECORD_COMMAND_LINE 4096

#define RECORD_PROBE(name) (1u << KERNEL_##name)

/* What was typed, with the defaults of what was not. */
extern struct record_env {
	struct capture_config config;
	struct call_spec *calls;
	char **pids;
	const char *tracer;
	uint32_t kernel_named;
	bool kernel_given, duration_given, captures, no_attach, fail_on_loss;
	char command_line[RECORD_COMMAND_LINE];
} record_env;

/* Options without a letter. */
enum record_option_key {
	OPT_MESSAGES = 256,
	OPT_RUNNING,
	OPT_GC,
	OPT_PROCS,
	OPT_PORTS,
	OPT_SCHED,
	OPT_SOCKET,
	OPT_SYSCALL,
	OPT_PIDS,
	OPT_CAPTURE,
	OPT_CAPTURE_BYTES,
	OPT_CAPTURE_DEPTH,
	OPT_REDACT,
	OPT_TRACER,
	OPT_QUEUE_SIZE,
	OPT_KERNEL,
	OPT_NO_ATTACH,
	OPT_WITHOUT,
	OPT_MODE,
	OPT_BUFFER_SIZE,
	OPT_MAX_SIZE,
	OPT_COOKIE_FILE,
	OPT_SESSION,
	OPT_WAIT,
	OPT_FAIL_ON_LOSS,
};

/* For commands that take options of record as well: the parser of argp, which fills record_env. */
error_t record_option_parse(int key, char *value, struct argp_state *state);
/* Add a call spec. `option`: what it was given with. A wrong one ends the program. */
void record_calls_add(const char *option, const char *text, struct argp_state *state);

/* Ends the program with CMD_USAGE, or after --help, itself. */
void record_options_parse(int argc, char **argv);

#endif
