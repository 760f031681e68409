/* SPDX-License-Identifier: Apache-2.0 */
#include "record_options.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amount.h"
#include "cmd.h"
#include "kernel.h"
#include "recording.h"
#include "spec.h"

#define DURATION_NS    30000000000ull
#define SIZE_MAX_BYTES (1ull << 30)
#define BUFFER_BYTES   (64ull << 20)
#define CAPTURE_BYTES  512
#define CAPTURE_DEPTH  8
/* CAPTURE_*_MIN and _MAX of erl/c_src/capture.h */
#define CAPTURE_BYTES_MIN 64
#define CAPTURE_BYTES_MAX 8192
#define CAPTURE_DEPTH_MAX 16
#define LIST_MAX	  4096
/* dbg's own; a VM may crash with less than the least (?QUEUE_MIN of beamweave_ip.erl). */
#define QUEUE_MESSAGES	   200
#define QUEUE_MESSAGES_MIN 7
#define QUEUE_MESSAGES_MAX 1000000

#define PROBE(name) RECORD_PROBE(name)
#define KERNEL_USUAL                                                                               \
	(PROBE(SCHED) | PROBE(PROCESS) | PROBE(BLOCKING) | PROBE(SOCKET) | PROBE(SOCKET_IO))

/* Of -e: the VM's events in the low half, the kernel's probes in the high one. */
#define EVENT_PROBE(name) (PROBE(name) << 16)

static const struct amount_name event_names[] = {
	{"messages", VM_MESSAGES},
	{"running", VM_RUNNING},
	{"gc", VM_GC},
	{"procs", VM_PROCS},
	{"ports", VM_PORTS},
	{"sched", EVENT_PROBE(SCHED)},
	{"socket", EVENT_PROBE(SOCKET)},
	{"syscall", EVENT_PROBE(SYSCALL)},
	{NULL, 0},
};

static const struct amount_name probe_names[] = {
	{"sched", PROBE(SCHED)},
	{"process", PROBE(PROCESS)},
	{"blocking", PROBE(BLOCKING)},
	{"socket", PROBE(SOCKET)},
	{"socket_io", PROBE(SOCKET_IO)},
	{"syscall", PROBE(SYSCALL)},
	{NULL, 0},
};

static const struct amount_name step_names[] = {
	{"cmdline", WITHOUT_CMDLINE}, {"epmd", WITHOUT_EPMD},	{"pidfd", WITHOUT_PIDFD},
	{"devshm", WITHOUT_DEVSHM},   {"names", WITHOUT_NAMES}, {NULL, 0},
};

static const struct amount_name capture_names[] = {
	{"none", 0},
	{"args", VM_CAPTURE_ARGS},
	{"return", VM_CAPTURE_RETURN},
	{NULL, 0},
};

struct record_env record_env = {
	.config =
		{
			.attach = true,
			.capture_bytes = CAPTURE_BYTES,
			.capture_depth = CAPTURE_DEPTH,
			.mode = RING_DISCARD,
			.queue_messages = QUEUE_MESSAGES,
			.buffer_bytes = BUFFER_BYTES,
			.kernel_wanted = KERNEL_USUAL,
			.duration_ns = DURATION_NS,
			.max_bytes = SIZE_MAX_BYTES,
			.output = RECORDING_PATH,
		},
};

static const struct argp_option options[] = {
	{0, 0, 0, 0, "Target:", 1},
	{"pid", 'p', "PID", 0, "The process of an Erlang VM", 0},
	{"node", 'n', "NODE", 0, "A node of this host: name or name@host", 0},
	{"session", OPT_SESSION, "PATH", 0,
	 "What beamweave:start/1 returned in the VM's own shell; -p may stand beside it", 0},
	{"wait", OPT_WAIT, 0, 0, "Wait until the node of -n runs", 0},
	{"cookie-file", OPT_COOKIE_FILE, "FILE", 0,
	 "Read the cookie there, not where the VM has it", 0},
	{0, 0, 0, 0, "What (without any: names, and the kernel's usual probes):", 2},
	{"calls", 'c', "SPEC", 0,
	 "Calls of Mod, Mod:Fun, Mod:Fun/Arity, or Elixir's Mod.fun/arity; repeatable", 0},
	{"events", 'e', "LIST", 0,
	 "messages, running, gc, procs, ports; sched, socket, syscall: what is named here must be "
	 "had",
	 0},
	{"messages", OPT_MESSAGES, 0, 0, "-e messages: sends and receives", 0},
	{"running", OPT_RUNNING, 0, 0, "-e running: when processes are on a scheduler", 0},
	{"gc", OPT_GC, 0, 0, "-e gc: garbage collections", 0},
	{"procs", OPT_PROCS, 0, 0, "-e procs: spawns, exits, links, registered names", 0},
	{"ports", OPT_PORTS, 0, 0, "-e ports: ports opened and closed", 0},
	{"sched", OPT_SCHED, 0, 0, "-e sched: the kernel's scheduling", 0},
	{"socket", OPT_SOCKET, 0, 0, "-e socket: the kernel's socket events", 0},
	{"syscall", OPT_SYSCALL, 0, 0, "-e syscall: every system call", 0},
	{"pids", OPT_PIDS, "LIST", 0,
	 "Only these: <0.1.0>, registered names; or all, existing, new", 0},
	{"capture", OPT_CAPTURE, "args|return|args,return", 0,
	 "Record arguments and messages, values, both", 0},
	{"capture-bytes", OPT_CAPTURE_BYTES, "N", 0, "of a term, at most (512; from 64 to 8192)",
	 0},
	{"capture-depth", OPT_CAPTURE_DEPTH, "N", 0, "of nesting, at most (8; from 0 to 16)", 0},
	{"redact", OPT_REDACT, 0, 0, "Shapes of terms only, no content", 0},
	{0, 0, 0, 0, "How:", 3},
	{"tracer", OPT_TRACER, "nif|port|ip|none", 0,
	 "The way out of the VM; port: a trace port of ours, late and dearer; ip: OTP's own, no "
	 "native code in the VM, -l ends behind the first event too many; none: kernel only",
	 0},
	{"queue-size", OPT_QUEUE_SIZE, "N", 0,
	 "of --tracer ip: messages that wait for us before some are lost (200; from 7)", 0},
	{"kernel", OPT_KERNEL, "none|LIST", 0,
	 "sched, process, blocking, socket, socket_io, syscall: these, and they must be had", 0},
	{"no-attach", OPT_NO_ATTACH, 0, 0, "Leave the VM alone: kernel only", 0},
	{"without", OPT_WITHOUT, "NAME", 0,
	 "Act as if it could not be had: a probe of the kernel, or cmdline, epmd, pidfd, devshm, "
	 "names",
	 0},
	{"mode", OPT_MODE, "discard|overwrite", 0,
	 "When the ring is full: lose the newest (drained all the time), or keep the newest until "
	 "the end",
	 0},
	{"buffer-size", OPT_BUFFER_SIZE, "SIZE", 0, "of the VM's ring (64M)", 0},
	{0, 0, 0, 0, "Until:", 4},
	{"duration", 'd', "TIME", 0, "30, 500ms, 2m; 0: until Ctrl-C (30 s; a command: its end)",
	 0},
	{"max-events", 'l', "N", 0, "Erlang events (without them, the kernel's)", 0},
	{"max-size", OPT_MAX_SIZE, "SIZE", 0, "of the file (1G; 0: no limit)", 0},
	{"fail-on-loss", OPT_FAIL_ON_LOSS, 0, 0, "Exit with 3 when events were lost", 0},
	{0, 0, 0, 0, "Output:", 5},
	{"brief-help", 'h', 0, OPTION_HIDDEN, 0, 0},
	{"output", 'o', "FILE", 0, "beamweave.bwt; one that is there becomes FILE.old; - streams",
	 0},
	{0},
};

static const char doc[] =
	"Record what an Erlang VM does and what Linux does to its threads.\v"
	"EXAMPLES:\n"
	"  beamweave record -p 1234                     names, scheduling, sockets\n"
	"  beamweave record -n shop -c shop_cart -d 5   calls of a module, for 5 s\n"
	"  beamweave record -n shop -c Shop.Cart.add/2 --capture args,return\n"
	"  beamweave record -p 1234 --messages --gc --running -l 100k\n"
	"  beamweave record -- erl -sname shop          from its start to its end\n"
	"  beamweave record --session /dev/shm/...      a VM without distribution\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 bad usage, 3 events were lost and\n"
	"--fail-on-loss was given; that of COMMAND is passed on.";

/* ---- Parsing ---- */

static void usage_fail(struct argp_state *state, const char *option, const char *value,
		       const char *wanted)
{
	fprintf(stderr, "beamweave: %s %.200s: %s\n", option, value, wanted);
	(void)state;
	exit(CMD_USAGE);
}

static void *list_grow(void *list, size_t count, size_t item_bytes, struct argp_state *state,
		       const char *option)
{
	if (count >= LIST_MAX)
		usage_fail(state, option, "", "given too often");
	list = realloc(list, (count + 1) * item_bytes);
	if (!list) {
		fputs("beamweave: out of memory\n", stderr);
		exit(CMD_FAILED);
	}
	return list;
}

void record_calls_add(const char *option, const char *text, struct argp_state *state)
{
	struct spec_error error;
	char lines[600];
	size_t count = record_env.config.call_count;

	record_env.calls =
		list_grow(record_env.calls, count, sizeof(*record_env.calls), state, option);
	if (spec_parse(text, &record_env.calls[count], &error)) {
		spec_error_lines(text, &error, lines, sizeof(lines));
		fprintf(stderr, "beamweave: %s: %s\n%s\n", option, error.message, lines);
		exit(CMD_USAGE);
	}
	record_env.config.calls = record_env.calls;
	record_env.config.call_count++;
}

static uint32_t names_parse(const char *option, const char *text, const struct amount_name *names)
{
	uint32_t bits = 0;
	const char *at;
	size_t bytes;

	if (!amount_list(text, names, &bits, &at, &bytes))
		return bits;
	fprintf(stderr, "beamweave: %s: there is no '%.*s'; there are:", option,
		bytes > 60 ? 60 : (int)bytes, at);
	for (; names->name; names++)
		fprintf(stderr, " %s", names->name);
	fputc('\n', stderr);
	exit(CMD_USAGE);
}

static void events_add(const char *option, const char *text)
{
	uint32_t bits = names_parse(option, text, event_names);

	record_env.config.events |= bits & 0xffff;
	record_env.config.kernel_required |= bits >> 16;
}

static void pids_add(char *text, struct argp_state *state)
{
	char *rest, *word;

	for (word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		record_env.pids = list_grow(record_env.pids, record_env.config.pid_count,
					    sizeof(*record_env.pids), state, "--pids");
		record_env.pids[record_env.config.pid_count++] = word;
		record_env.config.pids = record_env.pids;
	}
	if (!record_env.config.pid_count)
		usage_fail(state, "--pids", text, "a list of processes is expected");
}

static void without_add(const char *text)
{
	for (const struct amount_name *name = probe_names; name->name; name++) {
		if (!strcmp(name->name, text)) {
			record_env.config.kernel_without |= name->bit;
			return;
		}
	}
	for (const struct amount_name *name = step_names; name->name; name++) {
		if (!strcmp(name->name, text)) {
			record_env.config.without |= name->bit;
			return;
		}
	}
	fprintf(stderr, "beamweave: --without: there is no '%.60s'; there are:", text);
	for (const struct amount_name *name = probe_names; name->name; name++)
		fprintf(stderr, " %s", name->name);
	for (const struct amount_name *name = step_names; name->name; name++)
		fprintf(stderr, " %s", name->name);
	fputc('\n', stderr);
	exit(CMD_USAGE);
}

static void kernel_set(const char *text)
{
	record_env.kernel_given = true;
	if (!strcmp(text, "none"))
		record_env.kernel_named = 0;
	else
		record_env.kernel_named |= names_parse("--kernel", text, probe_names);
}

static pid_t pid_parse(const char *text, struct argp_state *state)
{
	char *end;
	long pid;

	errno = 0;
	pid = strtol(text, &end, 10);
	if (errno || end == text || *end || pid <= 0 || pid > INT_MAX)
		usage_fail(state, "-p", text, "a process id is expected");
	return (pid_t)pid;
}

static uint32_t number_parse(const char *option, const char *text, uint32_t min, uint32_t max,
			     struct argp_state *state)
{
	uint64_t number;
	char wanted[80];

	snprintf(wanted, sizeof(wanted), "a number from %u to %u is expected", min, max);
	if (amount_count(text, &number) || number < min || number > max)
		usage_fail(state, option, text, wanted);
	return (uint32_t)number;
}

error_t record_option_parse(int key, char *value, struct argp_state *state)
{
	struct capture_config *config = &record_env.config;

	switch (key) {
	case 'p':
		config->pid = pid_parse(value, state);
		break;
	case 'n':
		config->node = value;
		if (!*value || *value == '@')
			usage_fail(state, "-n", value, "a node's name is expected");
		break;
	case OPT_SESSION:
		config->session = value;
		break;
	case OPT_WAIT:
		config->wait = true;
		break;
	case OPT_COOKIE_FILE:
		config->cookie_file = value;
		break;
	case 'c':
		record_calls_add("-c", value, state);
		break;
	case 'e':
		events_add("-e", value);
		break;
	case OPT_MESSAGES:
	case OPT_RUNNING:
	case OPT_GC:
	case OPT_PROCS:
	case OPT_PORTS:
	case OPT_SCHED:
	case OPT_SOCKET:
	case OPT_SYSCALL:
		events_add("-e", event_names[key - OPT_MESSAGES].name);
		break;
	case OPT_PIDS:
		pids_add(value, state);
		break;
	case OPT_CAPTURE:
		record_env.captures = true;
		config->capture = names_parse("--capture", value, capture_names);
		break;
	case OPT_CAPTURE_BYTES:
		config->capture_bytes = number_parse("--capture-bytes", value, CAPTURE_BYTES_MIN,
						     CAPTURE_BYTES_MAX, state);
		break;
	case OPT_CAPTURE_DEPTH:
		config->capture_depth =
			number_parse("--capture-depth", value, 0, CAPTURE_DEPTH_MAX, state);
		break;
	case OPT_REDACT:
		config->redact = true;
		break;
	case OPT_TRACER:
		if (strcmp(value, "nif") && strcmp(value, "port") && strcmp(value, "ip") &&
		    strcmp(value, "none"))
			usage_fail(state, "--tracer", value, "nif, port, ip or none is expected");
		config->tracer = *value == 'p'	 ? TRACER_PORT
				 : *value == 'i' ? TRACER_IP
						 : TRACER_NIF;
		record_env.tracer = value;
		break;
	case OPT_QUEUE_SIZE:
		config->queue_messages = number_parse("--queue-size", value, QUEUE_MESSAGES_MIN,
						      QUEUE_MESSAGES_MAX, state);
		break;
	case OPT_KERNEL:
		kernel_set(value);
		break;
	case OPT_NO_ATTACH:
		record_env.no_attach = true;
		break;
	case OPT_WITHOUT:
		without_add(value);
		break;
	case OPT_MODE:
		if (strcmp(value, "discard") && strcmp(value, "overwrite"))
			usage_fail(state, "--mode", value, "discard or overwrite is expected");
		config->mode = *value == 'o' ? RING_OVERWRITE : RING_DISCARD;
		break;
	case OPT_BUFFER_SIZE:
		if (amount_bytes(value, &config->buffer_bytes) || !config->buffer_bytes ||
		    !ring_file_bytes(&(struct ring_config){.pool_bytes = config->buffer_bytes}))
			usage_fail(state, "--buffer-size", value,
				   "a size like 16M is expected, in the range of a ring");
		break;
	case 'd':
		if (amount_duration(value, &config->duration_ns))
			usage_fail(state, "-d", value, "a time like 30, 500ms or 2m is expected");
		record_env.duration_given = true;
		break;
	case 'l':
		if (amount_count(value, &config->max_events) || !config->max_events)
			usage_fail(state, "-l", value, "a number of events is expected");
		break;
	case OPT_MAX_SIZE:
		if (amount_bytes(value, &config->max_bytes))
			usage_fail(state, "--max-size", value, "a size like 1G is expected");
		break;
	case OPT_FAIL_ON_LOSS:
		record_env.fail_on_loss = true;
		break;
	case 'o':
		config->output = value;
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		/* The first word that is no option begins the command. */
		config->command = &state->argv[state->next - 1];
		state->next = state->argc;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

void record_options_parse(int argc, char **argv)
{
	static const struct argp argp = {options, record_option_parse, "[-- COMMAND...]", doc, 0, 0,
					 0};
	static char name[] = "beamweave record";

	argv[0] = name;
	argp_err_exit_status = CMD_USAGE;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL))
		exit(CMD_USAGE);
}
