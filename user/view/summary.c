/* SPDX-License-Identifier: Apache-2.0 */
#include "section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moment.h"
#include "page.h"
#include "table.h"
#include "units.h"

#define GROUPS_MAX 64

/* What a control group's samples in the window say; the counters only grow. */
struct sampled_group {
	char *path;
	uint64_t first_times, last_times, first_ns, last_ns;
};

struct summary {
	struct report *report;
	struct sampled_group groups[GROUPS_MAX];
	size_t group_count;
	uint64_t steal_samples, first_steal_ns, last_steal_ns;
	uint64_t lost;
};

static uint64_t sample_number(const json_t *sample, const char *key)
{
	json_int_t number = json_integer_value(json_object_get(sample, key));

	return number > 0 ? (uint64_t)number : 0;
}

static struct sampled_group *group_find(struct summary *summary, const char *path)
{
	for (size_t i = 0; path && i < summary->group_count; i++)
		if (!strcmp(summary->groups[i].path, path))
			return &summary->groups[i];
	return NULL;
}

static void group_sampled(struct summary *summary, const json_t *sample)
{
	const char *path = json_string_value(json_object_get(sample, "path"));
	uint64_t times = sample_number(sample, "nr_throttled");
	uint64_t ns = sample_number(sample, "throttled_ns");
	struct sampled_group *group = group_find(summary, path);

	if (!group) {
		if (!path || summary->group_count == GROUPS_MAX)
			return;
		group = &summary->groups[summary->group_count];
		*group = (struct sampled_group){strdup(path), times, times, ns, ns};
		if (group->path)
			summary->group_count++;
		else
			section_failed(summary->report, -ENOMEM);
		return;
	}
	if (times > group->last_times)
		group->last_times = times;
	if (ns > group->last_ns)
		group->last_ns = ns;
}

static void on_event(void *context, const struct event *event)
{
	struct summary *summary = context;
	const char *type;
	json_t *sample;

	if (event->kind != EVENT_SAMPLE ||
	    !section_inside(summary->report, event->ts_ns, event->ts_ns))
		return;
	sample = json_loadb(event->text.data, event->text.bytes, 0, NULL);
	type = json_string_value(json_object_get(sample, "type"));
	if (type && !strcmp(type, "cgroup")) {
		group_sampled(summary, sample);
	} else if (type && !strcmp(type, "steal")) {
		uint64_t ns = sample_number(sample, "ns");

		if (!summary->steal_samples++)
			summary->first_steal_ns = ns;
		if (ns > summary->last_steal_ns)
			summary->last_steal_ns = ns;
	}
	json_decref(sample);
}

static void on_loss(void *context, const struct loss *loss)
{
	struct summary *summary = context;

	if (section_inside(summary->report, loss->from_ns, loss->to_ns))
		summary->lost += loss->count;
}

static void *summary_open(struct report *report, struct timeline_sink *sink)
{
	struct summary *summary = calloc(1, sizeof(*summary));

	if (!summary)
		return NULL;
	summary->report = report;
	sink->context = summary;
	sink->event = on_event;
	sink->loss = on_loss;
	return summary;
}

static void summary_close(void *state)
{
	struct summary *summary = state;

	for (size_t i = 0; i < summary->group_count; i++)
		free(summary->groups[i].path);
	free(summary);
}

/* Final counts where the file has them, for the whole recording; else the losses that were seen. */
static uint64_t discarded_all(const struct summary *summary)
{
	const struct trace_thread *threads = NULL;
	const struct probe_counts *cpus = NULL;
	size_t thread_count = trace_threads(summary->report->trace, &threads);
	size_t cpu_count = trace_kernel_counts(summary->report->trace, &cpus);
	uint64_t discarded = 0;

	for (size_t i = 0; i < thread_count; i++)
		for (size_t kind = 0; kind < RING_KINDS; kind++)
			discarded += threads[i].discarded[kind];
	for (size_t i = 0; i < cpu_count; i++)
		for (size_t kind = 0; kind < PROBE_KINDS; kind++)
			discarded += cpus[i].discarded[kind];
	return summary->report->whole && discarded > summary->lost ? discarded : summary->lost;
}

/* Kinds that the reader makes are no events that were recorded. */
static uint64_t recorded_all(const struct report *report)
{
	uint64_t recorded = 0;

	for (uint32_t kind = 0; kind < EVENT_LOSS; kind++)
		recorded += report->kinds[kind];
	return recorded;
}

static json_t *meta_json(const struct report *report, const char *path, json_t *otherwise)
{
	const json_t *value = meta_at(report->trace, path);

	if (!value)
		return otherwise;
	json_decref(otherwise);
	return section_json_clean(value);
}

/*
 * META has the figures of the whole recording, once that was closed. For a window, and for a recording
 * that was cut off, the samples tell.
 */
static json_t *host_json(struct summary *summary)
{
	const struct report *report = summary->report;
	json_t *host = meta_json(report, "host", json_object()), *item;
	size_t index;

	if (report->whole && !trace_damage(report->trace)->no_end)
		return host;
	json_array_foreach (json_object_get(host, "cgroups"), index, item) {
		const struct sampled_group *group =
			group_find(summary, json_string_value(json_object_get(item, "path")));

		if (!group)
			continue;
		json_object_set_new(item, "throttled",
				    section_json_number(group->last_times - group->first_times));
		json_object_set_new(item, "throttled_ns",
				    section_json_number(group->last_ns - group->first_ns));
	}
	if (json_is_object(host))
		json_object_set_new(host, "steal_ns",
				    summary->steal_samples
					    ? section_json_number(summary->last_steal_ns -
								  summary->first_steal_ns)
					    : json_null());
	return host;
}

static json_t *events_json(const struct summary *summary)
{
	json_t *kinds = json_object();

	for (uint32_t kind = 0; kind < EVENT_LOSS; kind++) {
		const char *name = event_kind_name(kind);
		char number[24];

		if (!summary->report->kinds[kind])
			continue;
		snprintf(number, sizeof(number), "kind_%u", kind);
		json_object_set_new(kinds, name ? name : number,
				    section_json_number(summary->report->kinds[kind]));
	}
	return json_pack(
		"{s:o,s:o,s:o,s:o}", "recorded", section_json_number(recorded_all(summary->report)),
		"discarded", section_json_number(discarded_all(summary)), "own",
		section_json_number(trace_own_all(summary->report->trace)), "by_kind", kinds);
}

static json_t *notes_json(const struct report *report)
{
	const char *const *notes = NULL;
	size_t count = trace_notes(report->trace, &notes);
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, section_json_text(notes[i]));
	return list;
}

static json_t *summary_json(void *state)
{
	struct summary *summary = state;
	struct report *report = summary->report;
	char wall[MOMENT_TEXT];
	json_t *object = json_object();

	json_object_set_new(object, "vm", meta_json(report, "vm", json_object()));
	json_object_set_new(object, "host", host_json(summary));
	json_object_set_new(object, "start_ns", section_json_number(report->start_ns));
	json_object_set_new(
		object, "wall_start",
		trace_dateless(report->trace)
			? json_null()
			: json_string(moment_iso(wall, report->trace, report->start_ns)));
	json_object_set_new(object, "duration_ns",
			    section_json_number(report->end_ns - report->start_ns));
	json_object_set_new(object, "clock", json_string("CLOCK_MONOTONIC"));
	json_object_set_new(object, "events", events_json(summary));
	json_object_set_new(
		object, "kernel",
		meta_json(report, "kernel", json_pack("{s:[],s:[]}", "enabled", "missing")));
	json_object_set_new(
		object, "tracer",
		meta_json(report, "tracer", json_string(trace_vm(report->trace) ? "nif" : "none")));
	json_object_set_new(object, "cost", meta_json(report, "cost", json_object()));
	json_object_set_new(object, "command",
			    meta_json(report, "options.command_line", json_null()));
	json_object_set_new(object, "end", meta_json(report, "end", json_null()));
	json_object_set_new(object, "notes", notes_json(report));
	return object;
}

/* What another tracer than the NIF means for the figures; NULL: nothing. */
static const char *tracer_text(const char *tracer)
{
	if (!strcmp(tracer, "trc"))
		return "a trace file (.trc): only what the VM sent to its trace port is known";
	if (!strcmp(tracer, "port"))
		return "traced by the trace port: times are the messages' own, without stack "
		       "depths";
	if (!strcmp(tracer, "ip"))
		return "traced by OTP's IP trace port: times are the messages' own, without stack "
		       "depths";
	return NULL;
}

static void vm_print(const struct report *report, FILE *out)
{
	const json_t *attached = meta_at(report->trace, "vm.attached");
	const json_t *flags = meta_at(report->trace, "vm.flags");
	const char *why = meta_string(report->trace, "vm.why");
	const char *fix = meta_string(report->trace, "vm.fix");
	int64_t schedulers = meta_number(report->trace, "vm.schedulers");
	const char *tracer = meta_string(report->trace, "tracer");
	size_t index;
	json_t *flag;

	page_title(out, "VM");
	if (!attached)
		page_print(out, 2, 4, "the file says nothing of it");
	if (json_is_false(attached)) {
		page_print(out, 2, 4, "not attached%s%s: kernel side only", why ? ": " : "",
			   why ? why : "");
		if (fix && *fix)
			page_print(out, 2, 4, "fix: %s", fix);
	}
	if (tracer && tracer_text(tracer))
		page_print(out, 2, 4, "%s", tracer_text(tracer));
	if (schedulers > 0)
		page_print(out, 2, 4, "%lld schedulers", (long long)schedulers);
	if (json_is_string(flags))
		page_print(out, 2, 4, "trace flags: %s", json_string_value(flags));
	else if (json_array_size(flags)) {
		char text[512] = "";
		size_t used = 0;

		json_array_foreach (flags, index, flag)
			if (json_is_string(flag) && used < sizeof(text))
				used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
							 index ? ", " : "",
							 json_string_value(flag));
		page_print(out, 2, 4, "trace flags: %s", text);
	}
}

static void kernel_print(const struct report *report, FILE *out)
{
	const json_t *enabled = meta_at(report->trace, "kernel.enabled");
	const json_t *missing = meta_at(report->trace, "kernel.missing");
	char text[512] = "";
	size_t index, used = 0;
	json_t *item;

	json_array_foreach (enabled, index, item)
		if (json_is_string(item) && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 index ? ", " : "", json_string_value(item));
	page_title(out, "Kernel probes: %s",
		   *text     ? text
		   : enabled ? "none"
			     : "the file says nothing of them");
	if (meta_number(report->trace, "kernel.missed_runs") > 0)
		page_print(out, 2, 4,
			   "the kernel left out %s runs of probes (one was running on that CPU): "
			   "their "
			   "events are neither recorded nor counted as lost",
			   UNITS_COUNT((uint64_t)meta_number(report->trace, "kernel.missed_runs")));
	json_array_foreach (missing, index, item) {
		const char *probe = json_string_value(json_object_get(item, "probe"));
		const char *why = json_string_value(json_object_get(item, "why"));
		const char *fix = json_string_value(json_object_get(item, "fix"));

		page_print(out, 2, 4, "missing: %s: %s%s%s", probe ? probe : "?", why ? why : "?",
			   fix && *fix ? "; fix: " : "", fix ? fix : "");
	}
}

static int kinds_print(const struct summary *summary, FILE *out)
{
	static const struct table_column columns[] = {{"KIND", TABLE_LEFT},
						      {"EVENTS", TABLE_RIGHT},
						      {"PER SECOND", TABLE_RIGHT},
						      {NULL, 0}};
	const struct report *report = summary->report;
	uint64_t window_ms = (report->to_ns - report->from_ns) / 1000000;
	uint64_t discarded = discarded_all(summary);
	struct table *table = table_new(columns);
	int error;

	if (!table)
		return -ENOMEM;
	page_title(out, "Events: %s recorded, %s lost", UNITS_COUNT(recorded_all(report)),
		   discarded ? UNITS_COUNT(discarded) : "none");
	for (uint32_t kind = 0; kind < EVENT_LOSS; kind++) {
		const char *name = event_kind_name(kind);
		uint64_t count = report->kinds[kind];

		if (!count)
			continue;
		if (name)
			table_cell(table, "%s", name);
		else
			table_cell(table, "kind %u", kind);
		table_cell(table, "%s", UNITS_COUNT(count));
		table_cell(table, "%s",
			   window_ms ? UNITS_COUNT(
					       (uint64_t)((double)count * 1000 / (double)window_ms))
				     : "");
	}
	error = table_print(table, out, 2);
	table_free(table);
	section_own(report, out);
	if (trace_names_lost(report->trace))
		page_print(out, 2, 4,
			   "%s names of processes, functions or atoms found no room: they print as "
			   "numbers.",
			   UNITS_COUNT(trace_names_lost(report->trace)));
	return error;
}

static void host_print(struct summary *summary, FILE *out)
{
	const struct report *report = summary->report;
	const char *kernel = meta_string(report->trace, "host.kernel");
	int64_t cpus = meta_number(report->trace, "host.cpus");
	json_t *host = host_json(summary), *group, *groups = json_object_get(host, "cgroups");
	json_int_t steal_ns = json_integer_value(json_object_get(host, "steal_ns"));
	size_t index;

	if (kernel || cpus > 0)
		page_title(out, "Host: kernel %s, %lld CPUs", kernel ? kernel : "?",
			   (long long)cpus);
	else
		page_title(out, "Host");
	if (steal_ns > 0)
		page_print(out, 2, 4, "the hypervisor took %s of CPU time (steal)",
			   UNITS_DURATION((uint64_t)steal_ns));
	json_array_foreach (groups, index, group) {
		const char *path = json_string_value(json_object_get(group, "path"));
		json_int_t quota = json_integer_value(json_object_get(group, "quota_us"));
		json_int_t period = json_integer_value(json_object_get(group, "period_us"));
		json_int_t times = json_integer_value(json_object_get(group, "throttled"));
		json_int_t ns = json_integer_value(json_object_get(group, "throttled_ns"));
		char allowed[64] = "no CPU quota";

		if (quota > 0 && period > 0)
			snprintf(allowed, sizeof(allowed), "quota %.2f CPUs",
				 (double)quota / (double)period);
		page_print(out, 2, 4, "cgroup %s: %s, throttled %s times for %s", path ? path : "?",
			   allowed, UNITS_COUNT(times > 0 ? (uint64_t)times : 0),
			   UNITS_DURATION(ns > 0 ? (uint64_t)ns : 0));
	}
	json_decref(host);
}

static void cost_print(const struct report *report, FILE *out)
{
	const json_t *cost = meta_at(report->trace, "cost");
	const char *key;
	json_t *value;

	/* before its end a recording does not know its cost */
	if (!json_object_size(cost) || trace_damage(report->trace)->no_end)
		return;
	page_title(out, "Cost");
	json_object_foreach ((json_t *)cost, key, value) {
		size_t length = strlen(key);

		if (json_is_integer(value) && json_integer_value(value) >= 0 && length > 3 &&
		    !strcmp(key + length - 3, "_ns"))
			page_print(out, 2, 4, "%.*s: %s", (int)length - 3, key,
				   UNITS_DURATION((uint64_t)json_integer_value(value)));
		else if (json_is_integer(value) && json_integer_value(value) >= 0 && length > 6 &&
			 !strcmp(key + length - 6, "_bytes"))
			page_print(out, 2, 4, "%.*s: %s", (int)length - 6, key,
				   UNITS_BYTES((uint64_t)json_integer_value(value)));
		else if (json_is_integer(value))
			page_print(out, 2, 4, "%s: %lld", key,
				   (long long)json_integer_value(value));
		else if (json_is_real(value))
			page_print(out, 2, 4, "%s: %.3g", key, json_real_value(value));
		else if (json_is_string(value))
			page_print(out, 2, 4, "%s: %s", key, json_string_value(value));
	}
}

static int summary_text(void *state, FILE *out)
{
	struct summary *summary = state;
	struct report *report = summary->report;
	const char *command = meta_string(report->trace, "options.command_line");
	const char *ended = meta_string(report->trace, "end.reason");
	const char *error_text = meta_string(report->trace, "end.error");
	const char *const *notes = NULL;
	size_t count = trace_notes(report->trace, &notes);
	int error;

	if (command)
		page_print(out, 0, 2, "recorded by: %s", command);
	if (ended)
		page_print(out, 0, 2, "ended by: %s%s%s", ended, error_text ? ": " : "",
			   error_text ? error_text : "");
	vm_print(report, out);
	kernel_print(report, out);
	host_print(summary, out);
	error = kinds_print(summary, out);
	cost_print(report, out);
	if (count)
		page_title(out, "Notes");
	for (size_t i = 0; i < count; i++)
		page_print(out, 2, 4, "%s", notes[i]);
	return error;
}

const struct section section_summary = {.name = "summary",
					.about = "what was recorded, how, at what cost",
					.open = summary_open,
					.json = summary_json,
					.text = summary_text,
					.close = summary_close};
