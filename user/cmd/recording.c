/* SPDX-License-Identifier: Apache-2.0 */
#include "recording.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "moment.h"
#include "program.h"
#include "sanitize.h"

char *recording_clean(char buffer[static RECORDING_CLEAN_BYTES], const char *typed)
{
	sanitize_copy(buffer, RECORDING_CLEAN_BYTES, typed, strlen(typed));
	return buffer;
}

struct trace *recording_open(const char *path, const char *or_else)
{
	const char *shown = RECORDING_CLEAN(path);
	struct trace *trace = trace_open(path);

	if (trace && !trace_empty(trace))
		return trace;
	if (trace) {
		trace_close(trace);
		errno = ENODATA;
	}
	switch (errno) {
	case ENOENT:
		fprintf(stderr,
			"beamweave: %s: there is no such file%s. Record one: %s record -p "
			"PID -o %s\n",
			shown, or_else, program_name(), shown);
		break;
	case EINVAL:
		fprintf(stderr,
			"beamweave: %s: this is no recording of beamweave (.bwt) and no trace file "
			"of dbg (.trc). Give a file that 'beamweave record' or a trace port "
			"wrote.\n",
			shown);
		break;
	case ENODATA:
		fprintf(stderr,
			"beamweave: %s: nothing in this recording is whole: it was cut off at its "
			"beginning, or is damaged throughout.\n",
			shown);
		break;
	case EPROTO:
		fprintf(stderr,
			"beamweave: %s: a newer beamweave wrote this file. Read it with that "
			"version or a later one.\n",
			shown);
		break;
	default:
		fprintf(stderr, "beamweave: %s: cannot read it: %s\n", shown, strerror(errno));
	}
	return NULL;
}

static int time_parse(const struct trace *trace, const char *option, const char *typed,
		      uint64_t *ts_ns)
{
	if (!typed || !moment_parse(trace, typed, ts_ns))
		return CMD_DONE;
	fprintf(stderr, "beamweave: %s %s is no time: write 14:03:05, +1.5s or 123456789ns\n",
		option, RECORDING_CLEAN(typed));
	return CMD_USAGE;
}

int recording_window(const struct trace *trace, struct recording_window *window)
{
	if (time_parse(trace, window->from_option, window->from, &window->from_ns) ||
	    time_parse(trace, window->to_option, window->to, &window->to_ns))
		return CMD_USAGE;
	if (window->to_ns < window->from_ns) {
		fprintf(stderr, "beamweave: %s %s lies before %s %s\n", window->to_option,
			window->to ? RECORDING_CLEAN(window->to) : "", window->from_option,
			window->from ? RECORDING_CLEAN(window->from) : "");
		return CMD_USAGE;
	}
	return CMD_DONE;
}
