/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORD_OPTIONS_H
#define BEAMWEAVE_RECORD_OPTIONS_H

/* The command line of `beamweave record`. */

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

/* Ends the program with CMD_USAGE, or after --help, itself. */
void record_options_parse(int argc, char **argv);

#endif
