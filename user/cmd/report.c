/* SPDX-License-Identifier: Apache-2.0 */

/* beamweave report: what a recording says. */

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "moment.h"
#include "recording.h"
#include "report.h"
#include "trace.h"
#include "units.h"

enum report_key { KEY_JSON = 256, KEY_FROM, KEY_TO, KEY_MIN, KEY_LIMIT };

struct report_env {
	const struct section *section;
	const char *path;
	struct recording_window window;
	struct report_options options;
};

static const struct argp_option options[] = {
	{"json", KEY_JSON, NULL, 0, "Print JSON (\"schema\": 1), times in ns of the file's clock",
	 0},
	{"from", KEY_FROM, "T", 0, "Only what touches the time from T on", 0},
	{"to", KEY_TO, "T", 0, "... up to T", 0},
	{"min", KEY_MIN, "TIME", 0, "Shorter stalls, GCs and waits are no findings (1ms)", 0},
	{"limit", KEY_LIMIT, "N", 0, "Rows a list (20; all with --json), 0: all", 0},
	{0}};

/* 0 or -EINVAL. */
static int limit_parse(const char *text, size_t *limit)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end)
		return -EINVAL;
	*limit = value;
	return 0;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct report_env *env = state->input;
	const struct section *section;

	switch (key) {
	case KEY_JSON:
		env->options.json = true;
		break;
	case KEY_FROM:
		env->window.from = argument;
		break;
	case KEY_TO:
		env->window.to = argument;
		break;
	case KEY_MIN:
		if (units_parse_duration(argument, &env->options.min_ns) || !env->options.min_ns)
			argp_failure(state, CMD_USAGE, 0,
				     "--min %s is no time: write 1ms, 500us or 0.1s",
				     RECORDING_CLEAN(argument));
		break;
	case KEY_LIMIT:
		if (limit_parse(argument, &env->options.limit))
			argp_failure(state, CMD_USAGE, 0, "--limit %s is no number",
				     RECORDING_CLEAN(argument));
		env->options.limited = true;
		break;
	case ARGP_KEY_ARG:
		section = env->section ? NULL : report_section(argument);
		if (section)
			env->section = section;
		else if (!env->path)
			env->path = argument;
		else
			argp_failure(state, CMD_USAGE, 0,
				     "'%s' is one argument too many: one SECTION and one FILE",
				     RECORDING_CLEAN(argument));
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* The sections and examples, for the end of the help. */
static char *help_filter(int key, const char *text, void *input)
{
	static const char before[] = "Sections:\n";
	static const char after[] =
		"\n" RECORDING_TIME_HELP "\nExamples:\n"
		"  beamweave report                          findings in beamweave.bwt\n"
		"  beamweave report stalls --from 14:03:05   stalls from a moment on\n"
		"  beamweave report calls slow.bwt --json    calls in another file, as JSON\n"
		"\nOf a damaged or cut file what is whole is read, and a line DAMAGED FILE says "
		"what is\n"
		"missing (--json: \"damage\").\n"
		"\nExit codes: 0 done, damaged or not; 1 the file could not be read; 2 bad usage.";
	char *help = NULL;
	size_t size;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	out = open_memstream(&help, &size);
	if (!out)
		return NULL;
	fputs(before, out);
	for (const struct section *const *section = report_sections(); *section; section++)
		fprintf(out, "  %-10s  %s\n", report_section_name(*section),
			report_section_about(*section));
	fputs(after, out);
	fclose(out);
	return help;
}

static const struct argp report_argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "[SECTION] [FILE]",
	.doc = "Say what a recording shows. FILE defaults to " RECORDING_PATH ".\v ",
	.help_filter = help_filter,
};

/* The time asked for, which the recording has to touch. */
static int window_parse(struct report_env *env, const struct trace *trace)
{
	int code = recording_window(trace, &env->window);

	if (code)
		return code;
	env->options.from_ns = env->window.from_ns;
	env->options.to_ns = env->window.to_ns;
	if (env->options.from_ns > trace_end_ns(trace) ||
	    env->options.to_ns < trace_start_ns(trace)) {
		char from[MOMENT_TEXT], to[MOMENT_TEXT];

		fprintf(stderr,
			"beamweave: the recording lies outside of that time: it goes from %s to "
			"%s\n",
			moment_time(from, trace, trace_start_ns(trace)),
			moment_time(to, trace, trace_end_ns(trace)));
		return CMD_USAGE;
	}
	return CMD_DONE;
}

int cmd_report(int argc, char **argv)
{
	struct report_env env = {
		.window = {.from_option = "--from", .to_option = "--to", .to_ns = UINT64_MAX}};
	static char name[] = "beamweave report";
	struct trace *trace;
	int error, code;

	argv[0] = name;
	argp_err_exit_status = CMD_USAGE;
	error = argp_parse(&report_argp, argc, argv, 0, NULL, &env);
	if (error)
		return CMD_USAGE;
	if (!env.path)
		env.path = RECORDING_PATH;
	trace = recording_open(env.path, ", nor a section of that name");
	if (!trace)
		return CMD_FAILED;
	code = window_parse(&env, trace);
	if (code)
		goto cleanup;
	env.options.section = env.section;
	env.options.path = env.path;
	error = report_print(trace, &env.options, stdout);
	if (error) {
		fprintf(stderr, "beamweave: %s: the report failed: %s\n", RECORDING_CLEAN(env.path),
			strerror(-error));
		code = CMD_FAILED;
	}
cleanup:
	trace_close(trace);
	return code;
}
