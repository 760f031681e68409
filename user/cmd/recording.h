/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORDING_H
#define BEAMWEAVE_RECORDING_H

/* What the commands that read a recording share: opening it, and the time that they are asked for. */

#include <stdint.h>

#include "trace.h"

#define RECORDING_PATH "beamweave.bwt" /* when no FILE is given */
#define RECORDING_TIME_HELP                                                                        \
	"T is a wall-clock time (14:03, 14:03:05, 14:03:05.123), a time after the start\n"         \
	"(+1.5s), or ns of the file's clock (123456789ns).\n"

/* What was typed, which may be the name of a file that others made: safe for a terminal. */
#define RECORDING_CLEAN_BYTES 512
char *recording_clean(char buffer[static RECORDING_CLEAN_BYTES], const char *typed);
#define RECORDING_CLEAN(typed) recording_clean((char[RECORDING_CLEAN_BYTES]){0}, (typed))

/*
 * Open a recording. NULL after a line on stderr; `or_else` ends "there is no such file" where the
 * name might have been meant as something else, "" otherwise.
 */
struct trace *recording_open(const char *path, const char *or_else);

/* A time that is asked for, with the names of the options that do so. */
struct recording_window {
	const char *from_option, *to_option;
	const char *from, *to; /* as typed: they mean something once the recording is open */
	uint64_t from_ns, to_ns; /* 0 and UINT64_MAX: not asked for */
};

/* Work out the times. Returns CMD_DONE, or CMD_USAGE after a line on stderr. */
int recording_window(const struct trace *trace, struct recording_window *window);

#endif
