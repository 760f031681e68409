/* SPDX-License-Identifier: Apache-2.0 */
#include "coverage.h"

#include <stdio.h>
#include <string.h>

#include "program.h"
#include "ring.h"

#define KINDS_END UINT32_MAX

/* For each look: the event kinds that show it, the trace flag or the probe that makes them. */
static const struct {
	const char *what;
	const char *flag; /* a trace flag, NULL: the kernel's */
	const char *probe;
	const char *option; /* of `beamweave record` */
	uint32_t kinds[5];
} looks[LOOKS] = {
	[LOOK_CALLS] = {"function calls", "call", NULL, "-c MODULE", {RING_CALL, KINDS_END}},
	[LOOK_MESSAGES] = {"messages",
			   "send",
			   NULL,
			   "--messages",
			   {RING_SEND, RING_RECEIVE, RING_SEND_NOPROC, KINDS_END}},
	[LOOK_RUNNING] = {"processes on schedulers",
			  "running",
			  NULL,
			  "--running",
			  {RING_IN, RING_OUT, KINDS_END}},
	[LOOK_GC] = {"garbage collections",
		     "garbage_collection",
		     NULL,
		     "--gc",
		     {RING_GC_MINOR_START, RING_GC_MAJOR_START, KINDS_END}},
	[LOOK_PROCS] = {"spawns, exits and links",
			"procs",
			NULL,
			"--procs",
			{RING_SPAWN, RING_SPAWNED, RING_LINK, RING_REGISTER, KINDS_END}},
	[LOOK_SCHED] = {"the kernel's scheduling of the VM's threads",
			NULL,
			"sched",
			"",
			{EVENT_KERNEL + PROBE_SWITCH, KINDS_END}},
	[LOOK_PROCESS] = {"which Erlang process a thread was executing when it lost the CPU",
			  NULL,
			  "process",
			  "",
			  {KINDS_END}},
	[LOOK_BLOCKING] =
		{"the system calls in which threads block", NULL, "blocking", "", {KINDS_END}},
	[LOOK_SOCKET] = {"sockets' states and retransmits",
			 NULL,
			 "socket",
			 "",
			 {EVENT_KERNEL + PROBE_SOCK_STATE, EVENT_KERNEL + PROBE_TCP_RETRANSMIT,
			  KINDS_END}},
	[LOOK_SOCKET_IO] = {"bytes sent and received over sockets",
			    NULL,
			    "socket_io",
			    "",
			    {EVENT_KERNEL + PROBE_SOCK_SEND, EVENT_KERNEL + PROBE_SOCK_RECV,
			     KINDS_END}},
};

const json_t *meta_at(const struct trace *trace, const char *path)
{
	const json_t *at = trace_meta(trace);

	while (at && *path) {
		size_t length = strcspn(path, ".");
		char key[32];

		if (length >= sizeof(key))
			return NULL;
		memcpy(key, path, length);
		key[length] = 0;
		at = json_object_get(at, key);
		path += length + (path[length] == '.');
	}
	return at;
}

const char *meta_string(const struct trace *trace, const char *path)
{
	return json_string_value(meta_at(trace, path));
}

int64_t meta_number(const struct trace *trace, const char *path)
{
	const json_t *value = meta_at(trace, path);

	return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

/* Is a word in a list of words, given as an array or as text with commas? */
static bool words_have(const json_t *words, const char *word)
{
	size_t index, length = strlen(word);
	const char *text = json_string_value(words);
	json_t *item;

	json_array_foreach (words, index, item)
		if (json_is_string(item) && !strcmp(json_string_value(item), word))
			return true;
	while (text && *text) {
		size_t part = strcspn(text, ", ");

		if (part == length && !strncmp(text, word, length))
			return true;
		text += part + (text[part] != 0);
	}
	return false;
}

static bool kinds_seen(const uint32_t *wanted, const uint64_t *kinds)
{
	for (; *wanted != KINDS_END; wanted++)
		if (kinds[*wanted])
			return true;
	return false;
}

static void text_copy(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text ? text : "");
}

static void not_asked(struct coverage *coverage, enum look look)
{
	text_copy(coverage->looks[look].why, sizeof(coverage->looks[look].why),
		  "they were not asked for");
	snprintf(coverage->looks[look].fix, sizeof(coverage->looks[look].fix), "%s record %s",
		 program_name(), coverage->target);
	coverage->looks[look].option = looks[look].option;
}

static void kernel_fill(struct coverage *coverage, const struct trace *trace, enum look look)
{
	const json_t *missing = meta_at(trace, "kernel.missing");
	const char *probe = looks[look].probe;
	size_t index;
	json_t *item;

	if (words_have(meta_at(trace, "kernel.enabled"), probe))
		coverage->looks[look].on = true;
	json_array_foreach (missing, index, item) {
		const char *name = json_string_value(json_object_get(item, "probe"));

		if (!name || strcmp(name, probe))
			continue;
		text_copy(coverage->looks[look].why, sizeof(coverage->looks[look].why),
			  json_string_value(json_object_get(item, "why")));
		text_copy(coverage->looks[look].fix, sizeof(coverage->looks[look].fix),
			  json_string_value(json_object_get(item, "fix")));
		return;
	}
	if (!coverage->looks[look].on)
		not_asked(coverage, look);
}

static void vm_fill(struct coverage *coverage, const struct trace *trace, enum look look)
{
	const json_t *attached = meta_at(trace, "vm.attached");

	if (looks[look].flag && words_have(meta_at(trace, "vm.flags"), looks[look].flag))
		coverage->looks[look].on = true;
	if (coverage->looks[look].on)
		return;
	not_asked(coverage, look);
	if (json_is_false(attached)) {
		const char *why = meta_string(trace, "vm.why"), *fix = meta_string(trace, "vm.fix");

		snprintf(coverage->looks[look].why, sizeof(coverage->looks[look].why),
			 "the VM was not attached%s%.150s", why ? ": " : "", why ? why : "");
		if (fix && *fix) {
			text_copy(coverage->looks[look].fix, sizeof(coverage->looks[look].fix),
				  fix);
			coverage->looks[look].option = "";
		}
	}
}

/* May a name stand in a command without quotes? */
static bool name_plain(const char *name)
{
	return *name && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789_-.@") == strlen(name);
}

void coverage_fill(struct coverage *coverage, const struct trace *trace, const uint64_t *kinds)
{
	const char *node = meta_string(trace, "vm.node");
	int64_t pid = meta_number(trace, "vm.pid");

	*coverage = (struct coverage){0};
	if (pid > 0)
		snprintf(coverage->target, sizeof(coverage->target), "-p %lld", (long long)pid);
	else if (node && name_plain(node) && strlen(node) < sizeof(coverage->target) - 4)
		snprintf(coverage->target, sizeof(coverage->target), "-n %s", node);
	else
		text_copy(coverage->target, sizeof(coverage->target), "-p PID");
	for (int look = 0; look < LOOKS; look++) {
		coverage->looks[look].what = looks[look].what;
		coverage->looks[look].option = "";
		coverage->looks[look].on = kinds_seen(looks[look].kinds, kinds);
		/* which process a thread executes is read with what the tracer finds in the VM */
		if (looks[look].flag ||
		    (look == LOOK_PROCESS && json_is_false(meta_at(trace, "vm.attached"))))
			vm_fill(coverage, trace, (enum look)look);
		else
			kernel_fill(coverage, trace, (enum look)look);
	}
}

char *coverage_fix(char buffer[static COVERAGE_FIX], const struct coverage *coverage,
		   enum look look)
{
	const char *option = coverage->looks[look].option;

	snprintf(buffer, COVERAGE_FIX, "%s%s%s", coverage->looks[look].fix, *option ? " " : "",
		 option);
	return buffer;
}
