/* SPDX-License-Identifier: Apache-2.0 */
#include "meta.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* A text of unknown origin: what is no UTF-8 becomes '?'. */
static json_t *text_json(const char *text)
{
	json_t *json = json_string(text);
	char *plain;

	if (json)
		return json;
	plain = strdup(text);
	for (char *at = plain; at && *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	json = plain ? json_string(plain) : NULL;
	free(plain);
	return json ? json : json_string("");
}

static void put_text(json_t *object, const char *key, const char *text)
{
	json_object_set_new(object, key, text && *text ? text_json(text) : json_null());
}

static void put_number(json_t *object, const char *key, uint64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

/* The trace flags that are on, by their names in Erlang. */
static json_t *flags_json(const struct recorder *recorder)
{
	static const struct {
		uint32_t event;
		const char *flag;
	} flags[] = {
		{VM_MESSAGES, "send"},	 {VM_MESSAGES, "receive"},	{VM_RUNNING, "running"},
		{VM_RUNNING, "exiting"}, {VM_GC, "garbage_collection"}, {VM_PROCS, "procs"},
		{VM_PORTS, "ports"},
	};
	json_t *list = json_array();

	if (!recorder->attached)
		return list;
	if (recorder->config->call_count) {
		json_array_append_new(list, json_string("call"));
		json_array_append_new(list, json_string("return_to"));
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (recorder->config->events & flags[i].event)
			json_array_append_new(list, json_string(flags[i].flag));
	return list;
}

static json_t *vm_json(const struct recorder *recorder)
{
	const struct start_info *info = &recorder->info;
	const struct target *target = &recorder->target;
	json_t *vm = json_object();

	json_object_set_new(vm, "attached", json_boolean(recorder->attached));
	put_text(vm, "why",
		 recorder->attached	       ? NULL
		 : *recorder->attach_fault.why ? recorder->attach_fault.why
		 : recorder->config->attach    ? "what is left of the recording ends before that"
					       : "it was not asked for");
	put_text(vm, "fix", recorder->attached ? NULL : recorder->attach_fault.fix);
	if (target->pid)
		put_number(vm, "pid", (uint64_t)target->pid);
	else
		json_object_set_new(vm, "pid", json_null());
	put_text(vm, "node", *info->node ? info->node : recorder->node);
	put_text(vm, "otp_release", *info->otp_release ? info->otp_release : target->otp_release);
	if (info->schedulers)
		put_number(vm, "schedulers", (uint64_t)info->schedulers);
	else
		json_object_set_new(vm, "schedulers", json_null());
	if (info->functions >= 0)
		put_number(vm, "functions", (uint64_t)info->functions);
	json_object_set_new(vm, "flags", flags_json(recorder));
	return vm;
}

static json_t *host_json(const struct recorder *recorder)
{
	struct utsname name;
	json_t *host = json_object();

	if (!uname(&name)) {
		put_text(host, "kernel", name.release);
		put_text(host, "machine", name.machine);
		put_text(host, "name", name.nodename);
	}
	put_number(host, "cpus", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	json_object_set_new(host, "cgroups", samples_groups_json(&recorder->samples));
	put_number(host, "steal_ns", recorder->samples.steal_ns - recorder->samples.first_steal_ns);
	return host;
}

static json_t *kernel_json(const struct recorder *recorder)
{
	json_t *kernel = json_object(), *enabled = json_array(), *missing = json_array();
	const struct kernel_missing *list = NULL;
	size_t count = recorder->kernel ? kernel_missing(recorder->kernel, &list) : 0;

	for (int probe = 0; recorder->kernel && probe < KERNEL_PROBES; probe++)
		if (kernel_enabled(recorder->kernel) & 1u << probe)
			json_array_append_new(
				enabled, json_string(kernel_probe_name((enum kernel_probe)probe)));
	for (size_t i = 0; i < count; i++) {
		json_t *item = json_object();

		put_text(item, "probe", kernel_probe_name(list[i].probe));
		put_text(item, "why", list[i].why);
		put_text(item, "fix", list[i].fix);
		json_array_append_new(missing, item);
	}
	json_object_set_new(kernel, "enabled", enabled);
	json_object_set_new(kernel, "missing", missing);
	if (recorder->kernel)
		put_number(kernel, "missed_runs", kernel_missed(recorder->kernel));
	return kernel;
}

static json_t *options_json(const struct capture_config *config)
{
	json_t *options = json_object(), *calls = json_array();

	for (size_t i = 0; i < config->call_count; i++) {
		const struct call_spec *spec = &config->calls[i];
		char arity[16] = "_", text[2 * ATOM_BYTES + 32];

		if (spec->arity >= 0)
			snprintf(arity, sizeof(arity), "%d", spec->arity);
		snprintf(text, sizeof(text), "%s:%s/%s", spec->module,
			 *spec->function ? spec->function : "_", arity);
		json_array_append_new(calls, text_json(text));
	}
	put_text(options, "command_line", config->command_line);
	json_object_set_new(options, "calls", calls);
	json_object_set_new(options, "mode",
			    json_string(config->mode == RING_OVERWRITE ? "overwrite" : "discard"));
	put_number(options, "buffer_bytes", config->buffer_bytes);
	put_number(options, "duration_ns", config->duration_ns);
	put_number(options, "max_events", config->max_events);
	put_number(options, "max_bytes", config->max_bytes);
	put_number(options, "capture", config->capture);
	json_object_set_new(options, "redact", json_boolean(config->redact));
	return options;
}

static json_t *end_json(const struct recorder *recorder)
{
	json_t *end;

	if (recorder->end == RECORDER_GOES_ON)
		return json_null();
	end = json_object();
	put_text(end, "reason", recorder_end_name(recorder->end));
	put_text(end, "error", recorder->output_error ? strerror(-recorder->output_error) : NULL);
	json_object_set_new(end, "tracer_confirmed", json_boolean(recorder->tracer_confirmed));
	return end;
}

static uint64_t duration_ns(const struct recorder *recorder)
{
	uint64_t end_ns = recorder->stopped_ns ? recorder->stopped_ns : recorder->now_ns;

	return end_ns > recorder->created_ns ? end_ns - recorder->created_ns : 0;
}

static json_t *cost_json(const struct recorder *recorder)
{
	json_t *cost = json_object();

	put_number(cost, "reader_cpu_ns",
		   recorder->samples.cpu_ns - recorder->samples.first_cpu_ns);
	put_number(cost, "buffer_bytes", recorder->rings ? recorder->rings->bytes : 0);
	return cost;
}

int meta_write(const struct recorder *recorder)
{
	json_t *meta = json_object();
	time_t seconds = (time_t)(recorder->created_wall_ns / 1000000000);
	char wall[64], iso[48] = "";
	struct tm utc;
	char *text;
	int error;

	if (!meta)
		return -ENOMEM;
	if (gmtime_r(&seconds, &utc))
		strftime(iso, sizeof(iso), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(wall, sizeof(wall), "%s.%09luZ", iso,
		 (unsigned long)(recorder->created_wall_ns % 1000000000));
	json_object_set_new(meta, "schema", json_integer(1));
	put_text(meta, "beamweave", BEAMWEAVE_VERSION);
	json_object_set_new(meta, "recorder", json_pack("{s:i}", "pid", (int)getpid()));
	json_object_set_new(meta, "vm", vm_json(recorder));
	json_object_set_new(meta, "host", host_json(recorder));
	put_number(meta, "start_ns", recorder->created_ns);
	put_text(meta, "wall_start", wall);
	put_number(meta, "duration_ns", duration_ns(recorder));
	put_text(meta, "clock", "CLOCK_MONOTONIC");
	json_object_set_new(
		meta, "events",
		json_pack("{s:I, s:I, s:I, s:I}", "recorded",
			  (json_int_t)(recorder->recorded + recorder->kernel_recorded), "discarded",
			  (json_int_t)(recorder->discarded + recorder->kernel_discarded),
			  "erlang_recorded", (json_int_t)recorder->recorded, "kernel_recorded",
			  (json_int_t)recorder->kernel_recorded));
	json_object_set_new(meta, "kernel", kernel_json(recorder));
	put_text(meta, "tracer",
		 !recorder->attached			   ? "none"
		 : recorder->config->tracer == TRACER_IP   ? "ip"
		 : recorder->vm_known && recorder->vm.port ? "port"
							   : "nif");
	json_object_set_new(meta, "options", options_json(recorder->config));
	json_object_set_new(meta, "cost", cost_json(recorder));
	json_object_set_new(meta, "end", end_json(recorder));
	text = json_dumps(meta, JSON_COMPACT);
	error = text ? file_append(recorder->writer, CHUNK_META, 0, text, (uint32_t)strlen(text),
				   NULL, 0)
		     : -ENOMEM;
	free(text);
	json_decref(meta);
	return error;
}
