/* SPDX-License-Identifier: Apache-2.0 */
#include "record_view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "record_manual.h"
#include "recording.h"

#define SECOND_NS 1000000000ull

/* ---- Words ---- */

static void text_add(char *text, size_t bytes, const char *separator, const char *word)
{
	size_t used = strlen(text);

	snprintf(text + used, bytes - used, "%s%s", used ? separator : "", word);
}

static const char *bytes_text(uint64_t bytes, char text[32])
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1000 && unit < 4) {
		value /= 1000;
		unit++;
	}
	snprintf(text, 32, unit && value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

static const char *duration_text(uint64_t ns, char text[32])
{
	uint64_t seconds = ns / SECOND_NS;

	if (ns < 100 * SECOND_NS && ns % SECOND_NS)
		snprintf(text, 32, "%.1f s", (double)ns / SECOND_NS);
	else if (seconds < 120)
		snprintf(text, 32, "%" PRIu64 " s", seconds);
	else
		snprintf(text, 32, "%" PRIu64 " min %02" PRIu64 " s", seconds / 60, seconds % 60);
	return text;
}

static const char *count_text(uint64_t count, char text[32])
{
	char digits[32];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count), at = 0;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = 0;
	return text;
}

/* ---- The first lines ---- */

static void vm_words(const struct recorder *recorder, char *text, size_t bytes)
{
	static const struct {
		uint32_t event;
		const char *word;
	} words[] = {{VM_MESSAGES, "messages"},
		     {VM_RUNNING, "running"},
		     {VM_GC, "gc"},
		     {VM_PROCS, "procs"},
		     {VM_PORTS, "ports"}};
	const struct capture_config *config = recorder->config;

	*text = 0;
	if (config->session) {
		text_add(text, bytes, ", ", "what the session was started with");
		return;
	}
	if (config->call_count && recorder->info.functions >= 0) {
		char calls[64];

		snprintf(calls, sizeof(calls), "calls of %ld function%s", recorder->info.functions,
			 recorder->info.functions == 1 ? "" : "s");
		text_add(text, bytes, ", ", calls);
	} else if (config->call_count) {
		text_add(text, bytes, ", ", "calls");
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (config->events & words[i].event)
			text_add(text, bytes, ", ", words[i].word);
	if (!*text)
		text_add(text, bytes, ", ",
			 config->without & WITHOUT_NAMES ? "no events" : "names");
}

static void kernel_words(const struct recorder *recorder, char *text, size_t bytes)
{
	uint32_t enabled = recorder->kernel ? kernel_enabled(recorder->kernel) : 0;

	*text = 0;
	for (int probe = 0; probe < KERNEL_PROBES; probe++) {
		/* Nobody tells the kernel side where the processes are. */
		if (probe == KERNEL_PROCESS && !recorder->attached)
			continue;
		if (enabled & 1u << probe)
			text_add(text, bytes, ", ", kernel_probe_name((enum kernel_probe)probe));
	}
	if (!*text)
		text_add(text, bytes, ", ", "nothing");
}

static void target_words(const struct recorder *recorder, char *text, size_t bytes)
{
	const char *node = recorder->node;
	pid_t pid = recorder->target.pid ? recorder->target.pid : recorder->command.pid;

	if (*node)
		snprintf(text, bytes, "%.200s (pid %d)", node, pid);
	else if (pid)
		snprintf(text, bytes, "pid %d", pid);
	else
		snprintf(text, bytes, "%.200s", recorder->config->session);
}

static void limit_words(const struct capture_config *config, char *text, size_t bytes)
{
	char word[64], number[32];

	*text = 0;
	if (config->duration_ns) {
		snprintf(word, sizeof(word), "after %s",
			 duration_text(config->duration_ns, number));
		text_add(text, bytes, ", ", word);
	}
	if (config->max_events) {
		snprintf(word, sizeof(word), "after %s events",
			 count_text(config->max_events, number));
		text_add(text, bytes, ", ", word);
	}
	text_add(text, bytes, " or ", config->command ? "with the command" : "with Ctrl-C");
}

static void missing_print(const char *what, const char *why, const char *fix)
{
	fprintf(stderr, "  without %s: %s%s%s%s\n", what, why, *fix ? " (" : "", fix,
		*fix ? ")" : "");
}

static void line_clear(struct record_view *view)
{
	if (view->drawn)
		fputs("\r\033[K", stderr);
	view->drawn = false;
}

void record_words_print(const struct recorder *recorder, const char *verb, uint64_t max_events)
{
	struct capture_config limits = *recorder->config;
	char target[256], vm[256], limit[160];

	limits.max_events = max_events;
	target_words(recorder, target, sizeof(target));
	vm_words(recorder, vm, sizeof(vm));
	limit_words(&limits, limit, sizeof(limit));
	fprintf(stderr, "%s %s: %s; ends %s\n", verb, target, vm, limit);
}

static void view_begun(void *context, const struct recorder *recorder)
{
	struct record_view *view = context;
	char target[256], vm[256], kernel[256], limit[160];
	const struct kernel_missing *missing = NULL;
	size_t count = recorder->kernel ? kernel_missing(recorder->kernel, &missing) : 0;

	line_clear(view);
	target_words(recorder, target, sizeof(target));
	vm_words(recorder, vm, sizeof(vm));
	kernel_words(recorder, kernel, sizeof(kernel));
	limit_words(recorder->config, limit, sizeof(limit));
	if (recorder->attached)
		fprintf(stderr, "recording %s: %s; kernel: %s; ends %s\n", target, vm, kernel,
			limit);
	else
		fprintf(stderr, "recording %s: kernel only: %s; ends %s\n", target, kernel, limit);
	for (size_t i = 0; i < count; i++)
		missing_print(kernel_probe_name(missing[i].probe), missing[i].why, missing[i].fix);
	if (!recorder->attached && *recorder->attach_fault.why) {
		missing_print("the VM side", recorder->attach_fault.why,
			      recorder->attach_fault.fix);
		if (recorder->attach_fault.error == -ENOTCONN ||
		    recorder->attach_fault.error == -EPROTONOSUPPORT)
			record_manual_print(recorder->target.pid);
	}
}

/* ---- While it goes on ---- */

static void view_progress(void *context, const struct recorder *recorder)
{
	struct record_view *view = context;
	uint64_t events = recorder->recorded + recorder->kernel_recorded;
	uint64_t lost = recorder->discarded + recorder->kernel_discarded;
	uint64_t since_ns = view->events_ns ? view->events_ns : recorder->created_ns;
	uint64_t passed_ns = recorder->now_ns - since_ns;
	char rate[32], lost_words[64], size[32], left[32], number[32];

	if (!view->terminal)
		return;
	count_text(passed_ns && events >= view->events
			   ? (uint64_t)((double)(events - view->events) * SECOND_NS /
					(double)passed_ns)
			   : 0,
		   rate);
	view->events = events;
	view->events_ns = recorder->now_ns;
	snprintf(lost_words, sizeof(lost_words), lost ? "%s lost" : "none lost",
		 count_text(lost, number));
	if (!recorder->begun_ns)
		snprintf(left, sizeof(left), "attaching");
	else if (recorder->config->duration_ns) {
		uint64_t end_ns = recorder->begun_ns + recorder->config->duration_ns;

		duration_text(end_ns > recorder->now_ns ? end_ns - recorder->now_ns : 0, number);
		snprintf(left, sizeof(left), "%.20s left", number);
	} else {
		duration_text(recorder->now_ns - recorder->begun_ns, left);
	}
	fprintf(stderr, "\r\033[K%s events/s, %s, %s, %s", rate, lost_words,
		bytes_text(recorder->file_bytes, size), left);
	fflush(stderr);
	view->drawn = true;
}

static void view_note(void *context, const char *text)
{
	line_clear(context);
	fprintf(stderr, "beamweave: %s\n", text);
}

static const char *end_words(const struct recorder *recorder)
{
	switch (recorder->end) {
	case RECORDER_TARGET_ENDED:
		return recorder->command.pid ? " (the command ended)" : " (the VM ended)";
	case RECORDER_EVENTS:
		return " (--max-events)";
	case RECORDER_SIZE:
		return " (--max-size)";
	case RECORDER_NODE:
		return " (stopped on the node)";
	case RECORDER_DISK_FULL:
		return " (the disk is full)";
	default:
		return "";
	}
}

static void view_ended(void *context, const struct recorder *recorder)
{
	struct record_view *view = context;
	const char *output = recorder->config->output;
	uint64_t lost = recorder->discarded + recorder->kernel_discarded;
	char events[32], lost_text[32], duration[32], size[32];

	line_clear(view);
	/* What was overwritten is worked out when the file is read. */
	fprintf(stderr, "%s: %s events%s, %s lost, %s, %s%s\n",
		strcmp(output, "-") ? output : "standard output",
		count_text(recorder->recorded + recorder->kernel_recorded, events),
		recorder->config->mode == RING_OVERWRITE ? " made, of which the file has the newest"
							 : "",
		count_text(lost, lost_text),
		duration_text(recorder->now_ns - recorder->created_ns, duration),
		bytes_text(recorder->file_bytes, size), end_words(recorder));
	if (strcmp(output, "-"))
		fprintf(stderr, "next: %s report%s%s\n", program_name(),
			strcmp(output, RECORDING_PATH) ? " " : "",
			strcmp(output, RECORDING_PATH) ? output : "");
}

void record_view_open(struct record_view *view, const struct capture_config *config)
{
	memset(view, 0, sizeof(*view));
	view->config = config;
	/* A command of its own may draw on the same terminal. */
	view->terminal = isatty(STDERR_FILENO) && !config->command;
}

struct recorder_view record_view_callbacks(struct record_view *view)
{
	return (struct recorder_view){
		.context = view,
		.begun = view_begun,
		.progress = view_progress,
		.note = view_note,
		.ended = view_ended,
	};
}

void record_fault_print(const struct fault *fault)
{
	fprintf(stderr, "beamweave: %s\n", fault->why);
	if (*fault->fix)
		fprintf(stderr, "  %s\n", fault->fix);
}
