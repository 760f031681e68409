/* SPDX-License-Identifier: Apache-2.0 */

/* beamweave trace: events as lines while they happen. */

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amount.h"
#include "clock.h"
#include "cmd.h"
#include "live.h"
#include "record_manual.h"
#include "record_options.h"
#include "record_view.h"
#include "recorder.h"
#include "trace_follow.h"

#define DURATION_NS 15000000000ull
#define EVENTS_MAX  100
#define PRINT_NS    50000000ull /* at a time */
#define PATIENCE_MS 1000 /* with a reader of our output that takes nothing, at the end */
/*
 * The limit inside the tracer is there for what we might not keep up with; lines are counted here. It
 * leaves room for events that have no line, our own processes' for one.
 */
#define TRACER_EVENTS(max) ((max)*4 + 10000)

enum trace_option_key { OPT_JSON = 1024, OPT_COLOUR };

static struct trace_env {
	uint64_t max_events; /* lines */
	const char *colour;
	bool json;
} trace_env = {.max_events = EVENTS_MAX, .colour = "auto"};

static const struct argp_option options[] = {
	{0, 0, 0, 0, "Target:", 1},
	{"pid", 'p', "PID", 0, "The process of an Erlang VM", 0},
	{"node", 'n', "NODE", 0, "A node of this host: name or name@host", 0},
	{"wait", OPT_WAIT, 0, 0, "Wait until the node of -n runs", 0},
	{"cookie-file", OPT_COOKIE_FILE, "FILE", 0,
	 "Read the cookie there, not where the VM has it", 0},
	{0, 0, 0, 0, "What:", 2},
	{"events", 'e', "LIST", 0, "messages, running, gc, procs, ports", 0},
	{"messages", OPT_MESSAGES, 0, 0, "-e messages: sends and receives", 0},
	{"running", OPT_RUNNING, 0, 0, "-e running: when processes are on a scheduler", 0},
	{"gc", OPT_GC, 0, 0, "-e gc: garbage collections", 0},
	{"procs", OPT_PROCS, 0, 0, "-e procs: spawns, exits, links, registered names", 0},
	{"ports", OPT_PORTS, 0, 0, "-e ports: ports opened and closed", 0},
	{"pids", OPT_PIDS, "LIST", 0,
	 "Only these: <0.1.0>, registered names; or all, existing, new", 0},
	{"capture", OPT_CAPTURE, "none|args|return|args,return", 0,
	 "Arguments and messages, values, both (the default)", 0},
	{"capture-bytes", OPT_CAPTURE_BYTES, "N", 0, "of a term, at most (512; from 64 to 8192)",
	 0},
	{"capture-depth", OPT_CAPTURE_DEPTH, "N", 0, "of nesting, at most (8; from 0 to 16)", 0},
	{"redact", OPT_REDACT, 0, 0, "Shapes of terms only, no content", 0},
	{0, 0, 0, 0, "How:", 3},
	{"without", OPT_WITHOUT, "NAME", 0,
	 "Act as if it could not be had: cmdline, epmd, pidfd, devshm, names", 0},
	{"buffer-size", OPT_BUFFER_SIZE, "SIZE", 0, "of the VM's ring (64M)", 0},
	{0, 0, 0, 0, "Until:", 4},
	{"duration", 'd', "TIME", 0, "30, 500ms, 2m; 0: until Ctrl-C (15 s)", 0},
	{"max-events", 'l', "N", 0, "lines; 0: no limit (100)", 0},
	{0, 0, 0, 0, "Output:", 5},
	{"json", OPT_JSON, 0, 0, "Lines as of export --to jsonl, with duration_ns at a call's end",
	 0},
	{"color", OPT_COLOUR, "auto|always|never", 0, "auto: on a terminal, unless NO_COLOR is set",
	 0},
	{"brief-help", 'h', 0, OPTION_HIDDEN, 0, 0},
	{0},
};

static const char doc[] =
	"Print calls, what they return, messages and more as they happen. A SPEC is Mod,\n"
	"Mod:Fun, Mod:Fun/Arity, or Elixir's Mod.fun/arity.\v"
	"To see a call return, the VM puts a frame of its own on the process's stack: while\n"
	"it is traced, a function that loops by tail calls grows its stack with each turn.\n"
	"For such functions give --capture args.\n"
	"\n"
	"EXAMPLES:\n"
	"  beamweave trace -n shop shop_cart:add/2      calls, results, durations\n"
	"  beamweave trace -p 1234 Shop.Cart -l 20 -d 0 the next 20 lines, whenever\n"
	"  beamweave trace -n shop --messages --pids shop_cart\n"
	"  beamweave trace -n shop lists:seq --json | jq .args\n"
	"  beamweave trace shop_app -- erl -sname shop\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 bad usage; that of COMMAND is passed on.";

static error_t option_parse(int key, char *value, struct argp_state *state)
{
	switch (key) {
	case 'l':
		if (!amount_count(value, &trace_env.max_events))
			return 0;
		fprintf(stderr, "beamweave: -l %.200s: a number of events is expected\n", value);
		exit(CMD_USAGE);
	case OPT_JSON:
		trace_env.json = true;
		return 0;
	case OPT_COLOUR:
		if (strcmp(value, "auto") && strcmp(value, "always") && strcmp(value, "never")) {
			fprintf(stderr,
				"beamweave: --color %.200s: auto, always or never is expected\n",
				value);
			exit(CMD_USAGE);
		}
		trace_env.colour = value;
		return 0;
	case OPT_CAPTURE:
		if (strcmp(value, "none"))
			break;
		record_env.config.capture = 0;
		return 0;
	case ARGP_KEY_ARG:
		/* Behind -- stands the command. */
		if (state->quoted && state->next - 1 >= state->quoted)
			break;
		record_calls_add("SPEC", value, state);
		return 0;
	default:
		break;
	}
	return record_option_parse(key, value, state);
}

static int usage_error(const char *text)
{
	fprintf(stderr, "beamweave: %s\n  see beamweave trace --help\n", text);
	return CMD_USAGE;
}

/* Returns 0 or an exit status. */
static int env_check(void)
{
	struct capture_config *config = &record_env.config;
	int targets = (config->node != NULL) + (config->command != NULL) + (config->pid != 0);

	if (!targets)
		return usage_error("what is to be traced? Give -p PID, -n NODE or -- COMMAND");
	if (targets > 1)
		return usage_error("give one target: -p PID, -n NODE or -- COMMAND");
	if (config->wait && !config->node)
		return usage_error("--wait goes with -n NODE");
	if (config->kernel_required)
		return usage_error("the kernel's events are for beamweave record");
	if (!config->call_count && !config->events)
		return usage_error("what is to be printed? Give a SPEC, like lists:seq/2, or -e");
	if (config->command && !record_env.duration_given)
		config->duration_ns = 0;
	return 0;
}

/* ---- The view ---- */

struct trace_view {
	struct trace_follow *follow;
	struct live *live;
	struct sink sink;
	uint64_t lines;
	bool enough; /* -l */
	int error;
};

static enum live_format format_choose(void)
{
	const char *no_colour = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");

	if (trace_env.json)
		return LIVE_JSON;
	if (!strcmp(trace_env.colour, "always"))
		return LIVE_COLOUR;
	if (!strcmp(trace_env.colour, "never") || (no_colour && *no_colour) || !terminal ||
	    !strcmp(terminal, "dumb"))
		return LIVE_TEXT;
	return isatty(STDOUT_FILENO) ? LIVE_COLOUR : LIVE_TEXT;
}

static void view_begun(void *context, const struct recorder *recorder)
{
	(void)context;
	record_words_print(recorder, "tracing", trace_env.max_events);
}

static void view_note(void *context, const char *text)
{
	(void)context;
	fprintf(stderr, "beamweave: %s\n", text);
}

/* The VM tells of processes' names also when nobody asked for these events. */
static bool event_wanted(const struct event *event)
{
	switch (event->kind) {
	case RING_SPAWN:
	case RING_SPAWNED:
	case RING_EXIT:
	case RING_LINK:
	case RING_UNLINK:
	case RING_GETTING_LINKED:
	case RING_GETTING_UNLINKED:
	case RING_REGISTER:
	case RING_UNREGISTER:
		return record_env.config.events & VM_PROCS;
	case RING_PORT_OPEN:
	case RING_PORT_CLOSED:
		return record_env.config.events & VM_PORTS;
	default:
		return true;
	}
}

static bool view_behind(void *context)
{
	const struct trace_view *view = context;

	return trace_follow_ready(view->follow);
}

/* A while of printing, or all of it when nothing more comes: the lease has to be renewed meanwhile. */
static int lines_print(struct trace_view *view, bool last)
{
	uint64_t end_ns = last ? UINT64_MAX : clock_ns() + PRINT_NS;
	int error = last || !view_behind(view) ? trace_follow_read(view->follow, last) : 0;
	struct event event;

	while (!error && clock_ns() < end_ns && trace_follow_next(view->follow, &event)) {
		if (event.kind == RING_EXIT)
			live_forget(view->live, event.process);
		if (view->enough || !event_wanted(&event))
			continue;
		view->lines += live_event(view->live, &event);
		view->enough = trace_env.max_events && view->lines >= trace_env.max_events;
		if (view->sink.used - view->sink.start > SINK_EAGER)
			error = sink_flush(&view->sink);
	}
	return error ? error : sink_flush(&view->sink);
}

static enum recorder_end view_drained(void *context, const struct recorder *recorder)
{
	struct trace_view *view = context;

	(void)recorder;
	if (!view->error)
		view->error = lines_print(view, false);
	if (view->error == -EPIPE)
		return RECORDER_PIPE;
	if (view->error)
		return RECORDER_OUTPUT;
	return view->enough ? RECORDER_EVENTS : RECORDER_GOES_ON;
}

static const char *end_words(const struct recorder *recorder)
{
	switch (recorder->end) {
	case RECORDER_TIME:
		return "the time is over (-d)";
	case RECORDER_EVENTS:
		return "that many were asked for (-l)";
	case RECORDER_INTERRUPTED:
		return "interrupted";
	case RECORDER_TARGET_ENDED:
		return recorder->command.pid ? "the command ended" : "the VM ended";
	case RECORDER_NODE:
		return "stopped on the node";
	case RECORDER_TRACER_FAILED:
		return "the tracer ended before its time";
	default:
		return "the output failed";
	}
}

static void view_ended(void *context, const struct recorder *recorder)
{
	struct trace_view *view = context;
	uint64_t lost;

	if (!view->error)
		view->error = lines_print(view, true);
	if (!view->error)
		view->error = sink_finish(&view->sink, PATIENCE_MS);
	/* Whoever reads no more wants to hear no more. */
	if (view->error == -EPIPE)
		return;
	lost = recorder->discarded;
	fprintf(stderr, "%" PRIu64 " events: %s", view->lines, end_words(recorder));
	if (lost)
		fprintf(stderr, "; %" PRIu64 " more were lost in the VM (--buffer-size)", lost);
	if (view->sink.lost)
		fprintf(stderr, "; %" PRIu64 " of them lost: standard output was not read in time",
			view->sink.lost);
	fputc('\n', stderr);
}

static int trace_run(struct trace_view *view)
{
	const struct recorder_view callbacks = {
		.context = view,
		.begun = view_begun,
		.note = view_note,
		.drained = view_drained,
		.behind = view_behind,
		.ended = view_ended,
	};
	struct fault fault = {0};
	bool kept, lost;
	int status, error;

	error = recorder_run(&record_env.config, &callbacks, &status, &kept, &lost, &fault);
	if (view->error == -EPIPE)
		return status;
	if (view->error) {
		fprintf(stderr, "beamweave: cannot print: %s\n", strerror(-view->error));
		return CMD_FAILED;
	}
	if (!error)
		return status;
	record_fault_print(&fault);
	if (fault.error == -ENOTCONN || fault.error == -EPROTONOSUPPORT)
		record_manual_print(record_env.config.pid);
	return CMD_FAILED;
}

int cmd_trace(int argc, char **argv)
{
	static const struct argp argp = {
		options, option_parse, "SPEC...\n[SPEC...] -- COMMAND...", doc, 0, 0, 0};
	static char name[] = "beamweave trace";
	struct capture_config *config = &record_env.config;
	struct trace_view view = {0};
	int status;

	argv[0] = name;
	argp_err_exit_status = CMD_USAGE;
	config->capture = VM_CAPTURE_ARGS | VM_CAPTURE_RETURN;
	config->duration_ns = DURATION_NS;
	config->kernel_wanted = 0;
	config->max_bytes = 0;
	config->output = "-";
	config->attach_required = true;
	config->command_line = name;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL))
		return CMD_USAGE;
	status = env_check();
	if (status)
		return status;
	if (trace_env.max_events && trace_env.max_events < UINT64_MAX / 8)
		config->max_events = TRACER_EVENTS(trace_env.max_events);
	config->live_fd = memfd_create("beamweave", MFD_CLOEXEC);
	view.follow = config->live_fd < 0 ? NULL : trace_follow_open(config->live_fd);
	if (view.follow && !sink_open(&view.sink, STDOUT_FILENO))
		view.live = live_new(trace_follow_trace(view.follow), &view.sink, format_choose());
	if (view.live) {
		status = trace_run(&view);
	} else {
		fprintf(stderr, "beamweave: cannot begin: %s\n", strerror(errno));
		status = CMD_FAILED;
	}
	live_free(view.live);
	sink_close(&view.sink);
	trace_follow_close(view.follow);
	if (config->live_fd >= 0)
		close(config->live_fd);
	free(record_env.calls);
	free(record_env.pids);
	return status;
}
