/* SPDX-License-Identifier: Apache-2.0 */

/* beamweave export: a recording in a form that other programs read. */

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chrome.h"
#include "cmd.h"
#include "lines.h"
#include "perfetto.h"
#include "recording.h"
#include "trace.h"

#define OUT_BUFFER (1u << 20)

enum export_key { KEY_TO = 't', KEY_OUT = 'o', KEY_FROM = 256, KEY_UNTIL };

struct export_env {
	const char *path, *out;
	const struct format *format;
	struct recording_window window;
};

struct format {
	const char *name;
	const char *suffix; /* of the file that is written by default; NULL: standard output */
	const char *viewer; /* that opens that file */
	bool window; /* can leave out what lies outside of a time */
	int (*write)(struct trace *trace, FILE *out, const struct export_env *env);
};

static int perfetto_export(struct trace *trace, FILE *out, const struct export_env *env)
{
	(void)env;
	return perfetto_write(trace, out);
}

static int chrome_export(struct trace *trace, FILE *out, const struct export_env *env)
{
	int error = chrome_write(trace, out, env->window.from_ns, env->window.to_ns);
	off_t bytes = error ? 0 : ftello(out);

	if (bytes > (off_t)CHROME_LARGE_BYTES)
		fprintf(stderr,
			"beamweave: %lld MB are more than chrome://tracing and speedscope read "
			"well: "
			"--from and --until take a part, --to perfetto has no such limit\n",
			(long long)bytes / 1000000);
	return error;
}

static int jsonl_export(struct trace *trace, FILE *out, const struct export_env *env)
{
	return lines_write(trace, out, LINES_JSON, env->window.from_ns, env->window.to_ns);
}

static int text_export(struct trace *trace, FILE *out, const struct export_env *env)
{
	return lines_write(trace, out, LINES_TEXT, env->window.from_ns, env->window.to_ns);
}

static const struct format formats[] = {
	{"perfetto", ".pftrace", "https://ui.perfetto.dev", false, perfetto_export},
	{"chrome", ".json", "speedscope or chrome://tracing", true, chrome_export},
	{"jsonl", NULL, NULL, true, jsonl_export},
	{"text", NULL, NULL, true, text_export},
};
#define FORMATS (sizeof(formats) / sizeof(*formats))

static const struct argp_option options[] = {
	{"to", KEY_TO, "FORMAT", 0,
	 "perfetto (for ui.perfetto.dev), chrome (JSON for speedscope and chrome://tracing), jsonl "
	 "(one JSON object an event) or text (one line an event)",
	 0},
	{"output", KEY_OUT, "OUT", 0,
	 "Write to this file, - for standard output (the default; perfetto, chrome: "
	 "FILE with .pftrace, .json for .bwt)",
	 0},
	{"from", KEY_FROM, "T", 0, "chrome, jsonl, text: only from T on", 0},
	{"until", KEY_UNTIL, "T", 0, "... up to T", 0},
	{0}};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct export_env *env = state->input;

	switch (key) {
	case KEY_TO:
		for (size_t i = 0; i < FORMATS; i++) {
			if (!strcmp(argument, formats[i].name)) {
				env->format = &formats[i];
				return 0;
			}
		}
		argp_failure(state, CMD_USAGE, 0,
			     "there is no format '%s': write --to perfetto, chrome, jsonl or text",
			     argument);
		break;
	case KEY_OUT:
		env->out = argument;
		break;
	case KEY_FROM:
		env->window.from = argument;
		break;
	case KEY_UNTIL:
		env->window.to = argument;
		break;
	case ARGP_KEY_ARG:
		if (env->path)
			argp_failure(state, CMD_USAGE, 0, "'%s' is one argument too many: one FILE",
				     argument);
		env->path = argument;
		break;
	case ARGP_KEY_END:
		if (!env->format)
			argp_failure(state, CMD_USAGE, 0,
				     "say what to write: --to perfetto, chrome, jsonl or text");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp export_argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "[FILE]",
	.doc = "Turn a recording into what other programs read. FILE defaults to " RECORDING_PATH
	       ".\v" RECORDING_TIME_HELP "\nExamples:\n"
	       "  beamweave export --to perfetto                     beamweave.pftrace\n"
	       "  beamweave export --to text --from 14:03:05 | less  read on from a moment\n"
	       "  beamweave export slow.bwt --to jsonl | jq -c 'select(.kind == \"send\")'\n"
	       "\nOf a damaged or cut file what is whole is exported; a line on stderr says what "
	       "is not.\n"
	       "\nExit codes: 0 done, damaged or not; 1 could not read or write; 2 bad usage.",
};

/* What the file lacks, in one line: the export is of the rest. */
static void damage_print(const char *path, const struct file_damage *damage)
{
	const char *shown = RECORDING_CLEAN(path);

	if (damage->damaged_chunks || damage->damaged_records)
		fprintf(stderr,
			"beamweave: %s is damaged: %llu chunks and %llu records cannot be read; "
			"the rest is exported\n",
			shown, (unsigned long long)damage->damaged_chunks,
			(unsigned long long)damage->damaged_records);
	if (damage->no_end)
		fprintf(stderr,
			"beamweave: %s was not closed: %llu bytes at its end are cut off; the rest "
			"is exported\n",
			shown, (unsigned long long)damage->truncated_bytes);
}

/* "beamweave.pftrace" for "beamweave.bwt": on the heap, NULL with ENOMEM. */
static char *out_name(const char *path, const char *suffix)
{
	size_t length;
	char *name;

	if (!strcmp(path, "-"))
		path = RECORDING_PATH;
	length = strlen(path);
	if (length > 4 && !strcmp(path + length - 4, ".bwt"))
		length -= 4;
	return asprintf(&name, "%.*s%s", (int)length, path, suffix) < 0 ? NULL : name;
}

static bool file_same(const char *path, FILE *out)
{
	struct stat in_status, out_status;

	return !stat(path, &in_status) && !fstat(fileno(out), &out_status) &&
	       in_status.st_dev == out_status.st_dev && in_status.st_ino == out_status.st_ino;
}

/* Recordings may hold secrets: what is made of them is for their owner only. */
static FILE *out_open(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out && fd >= 0)
		close(fd);
	return out;
}

static int export_write(struct trace *trace, const struct export_env *env, const char *name)
{
	FILE *out = stdout;
	struct stat status;
	int error = 0;

	if (strcmp(name, "-")) {
		out = out_open(name);
		if (!out) {
			fprintf(stderr, "beamweave: %s: cannot write: %s\n", name, strerror(errno));
			return CMD_FAILED;
		}
	}
	if (file_same(env->path, out)) {
		fprintf(stderr, "beamweave: %s is the recording itself: choose another -o\n", name);
		if (out != stdout)
			fclose(out);
		return CMD_USAGE;
	}
	if (out != stdout && !fstat(fileno(out), &status) && S_ISREG(status.st_mode) &&
	    ftruncate(fileno(out), 0))
		error = -errno;
	setvbuf(out, NULL, _IOFBF, OUT_BUFFER);
	if (!error)
		error = env->format->write(trace, out, env);
	if (fflush(out) && !error)
		error = -errno;
	if (out != stdout && fclose(out) && !error)
		error = -errno;
	/* Whoever read our output had enough. */
	if (error == -EPIPE)
		return CMD_DONE;
	if (error) {
		fprintf(stderr, "beamweave: %s: the export failed: %s\n", name, strerror(-error));
		return CMD_FAILED;
	}
	return CMD_DONE;
}

int cmd_export(int argc, char **argv)
{
	struct export_env env = {
		.window = {.from_option = "--from", .to_option = "--until", .to_ns = UINT64_MAX}};
	static char program[] = "beamweave export";
	struct trace *trace = NULL;
	char *name = NULL;
	int code;

	argv[0] = program;
	argp_err_exit_status = CMD_USAGE;
	if (argp_parse(&export_argp, argc, argv, 0, NULL, &env))
		return CMD_USAGE;
	if (!env.path)
		env.path = RECORDING_PATH;
	if ((env.window.from || env.window.to) && !env.format->window) {
		fprintf(stderr,
			"beamweave: --to %s writes the whole recording: leave out --from and "
			"--until\n",
			env.format->name);
		return CMD_USAGE;
	}
	if (!env.out && env.format->suffix) {
		name = out_name(env.path, env.format->suffix);
		if (!name)
			return CMD_FAILED;
		env.out = name;
	}
	signal(SIGPIPE, SIG_IGN);
	trace = recording_open(env.path, "");
	if (!trace) {
		code = CMD_FAILED;
		goto cleanup;
	}
	code = recording_window(trace, &env.window);
	if (code)
		goto cleanup;
	damage_print(env.path, trace_damage(trace));
	code = export_write(trace, &env, env.out ? env.out : "-");
	if (!code && name)
		fprintf(stderr, "wrote %s: open it with %s\n", name, env.format->viewer);
cleanup:
	trace_close(trace);
	free(name);
	return code;
}
