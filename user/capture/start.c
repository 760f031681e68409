/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reply.h"

#define LIST_MAX 5 /* near misses that are shown */

/* ---- What the node is ---- */

/* Module:Function() or Module:Function(Atom). */
static int node_call(struct door *door, const char *module, const char *function, const char *atom,
		     ei_x_buff *reply, int *index, struct fault *fault)
{
	ei_x_buff arguments;
	int error;

	if (ei_x_new(&arguments))
		return -ENOMEM;
	if (atom) {
		ei_x_encode_list_header(&arguments, 1);
		ei_x_encode_atom(&arguments, atom);
	}
	ei_x_encode_empty_list(&arguments);
	error = door_call(door, module, function, &arguments, reply, index, fault);
	ei_x_free(&arguments);
	return error;
}

static int system_number(struct door *door, const char *item, ei_x_buff *reply, long *number,
			 struct fault *fault)
{
	int error, index;

	error = node_call(door, "erlang", "system_info", item, reply, &index, fault);
	if (!error && ei_decode_long(reply->buff, &index, number))
		*number = 0;
	return error;
}

/* A string is a list of small integers, which ei hands over as one or the other. */
static void decode_string(const ei_x_buff *reply, int index, char *text, size_t bytes)
{
	int type, size;

	*text = 0;
	if (!ei_get_type(reply->buff, &index, &type, &size) && type == ERL_STRING_EXT && size > 0 &&
	    (size_t)size < bytes)
		ei_decode_string(reply->buff, &index, text);
}

int start_look(struct door *door, struct start_info *info, struct fault *fault)
{
	struct {
		const char *item;
		long *number;
	} numbers[] = {
		{"schedulers", &info->schedulers},
		{"dirty_cpu_schedulers", &info->dirty_cpu_schedulers},
		{"dirty_io_schedulers", &info->dirty_io_schedulers},
		{"process_count", &info->processes},
	};
	char name[MAXATOMLEN_UTF8];
	ei_x_buff reply;
	int error, index;

	memset(info, 0, sizeof(*info));
	info->functions = -1;
	if (ei_x_new(&reply))
		return -ENOMEM;
	error = node_call(door, "erlang", "node", NULL, &reply, &index, fault);
	if (!error &&
	    !ei_decode_atom_as(reply.buff, &index, name, sizeof(name), ERLANG_UTF8, NULL, NULL))
		snprintf(info->node, sizeof(info->node), "%.500s", name);
	if (!error)
		error = node_call(door, "erlang", "system_info", "otp_release", &reply, &index,
				  fault);
	if (!error)
		decode_string(&reply, index, info->otp_release, sizeof(info->otp_release));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers) && !error; i++)
		error = system_number(door, numbers[i].item, &reply, numbers[i].number, fault);
	ei_x_free(&reply);
	return error;
}

static bool decode_started(const ei_x_buff *reply, int *index)
{
	char status[MAXATOMLEN_UTF8];
	int type, size;

	if (ei_get_type(reply->buff, index, &type, &size) || type != ERL_ATOM_EXT) {
		ei_skip_term(reply->buff, index);
		return false;
	}
	return !ei_decode_atom_as(reply->buff, index, status, sizeof(status), ERLANG_UTF8, NULL,
				  NULL) &&
	       !strcmp(status, "started");
}

int start_booted(struct door *door, struct fault *fault)
{
	bool internal = false, provided = false;
	ei_x_buff reply;
	int error, index, arity;

	if (ei_x_new(&reply))
		return -ENOMEM;
	error = node_call(door, "init", "get_status", NULL, &reply, &index, fault);
	if (!error && !ei_decode_tuple_header(reply.buff, &index, &arity) && arity == 2) {
		internal = decode_started(&reply, &index);
		/* The boot script is through; what -eval and -s run may last as long as the VM. */
		provided = decode_started(&reply, &index);
	}
	ei_x_free(&reply);
	return error ? error : internal || provided;
}

/* ---- Options of the controller ---- */

static void encode_name(ei_x_buff *map, const char *name)
{
	ei_x_encode_atom_len_as(map, name, (int)strlen(name), ERLANG_UTF8, ERLANG_UTF8);
}

static void encode_calls(ei_x_buff *map, const struct capture_config *config)
{
	ei_x_encode_atom(map, "calls");
	if (config->call_count)
		ei_x_encode_list_header(map, (long)config->call_count);
	for (size_t i = 0; i < config->call_count; i++) {
		const struct call_spec *spec = &config->calls[i];

		ei_x_encode_tuple_header(map, 3);
		encode_name(map, spec->module);
		encode_name(map, *spec->function ? spec->function : "_");
		if (spec->arity < 0)
			ei_x_encode_atom(map, "_");
		else
			ei_x_encode_long(map, spec->arity);
	}
	ei_x_encode_empty_list(map);
}

static void encode_events(ei_x_buff *map, uint32_t events)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {{VM_MESSAGES, "messages"},
		     {VM_RUNNING, "running"},
		     {VM_GC, "gc"},
		     {VM_PROCS, "procs"},
		     {VM_PORTS, "ports"}};

	ei_x_encode_atom(map, "events");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (events & names[i].bit) {
			ei_x_encode_list_header(map, 1);
			ei_x_encode_atom(map, names[i].name);
		}
	}
	ei_x_encode_empty_list(map);
}

static bool pids_are_word(const struct capture_config *config)
{
	return config->pid_count == 1 &&
	       (!strcmp(*config->pids, "all") || !strcmp(*config->pids, "existing") ||
		!strcmp(*config->pids, "new"));
}

static void encode_pids(ei_x_buff *map, const struct capture_config *config)
{
	ei_x_encode_atom(map, "pids");
	if (!config->pid_count || pids_are_word(config)) {
		ei_x_encode_atom(map, config->pid_count ? *config->pids : "all");
		return;
	}
	ei_x_encode_list_header(map, (long)config->pid_count);
	for (size_t i = 0; i < config->pid_count; i++)
		ei_x_encode_binary(map, config->pids[i], (int)strlen(config->pids[i]));
	ei_x_encode_empty_list(map);
}

static void encode_options(ei_x_buff *map, const struct capture_config *config, const char *session)
{
	static const char *const captures[] = {"none", "args", "return", "args,return"};
	static const char *const tracers[] = {
		[TRACER_NIF] = "nif", [TRACER_PORT] = "port", [TRACER_IP] = "ip"};

	ei_x_encode_map_header(map, 11);
	ei_x_encode_atom(map, "session");
	ei_x_encode_binary(map, session, (int)strlen(session));
	encode_calls(map, config);
	encode_events(map, config->events);
	encode_pids(map, config);
	ei_x_encode_atom(map, "capture");
	ei_x_encode_atom(map, captures[config->capture & 3]);
	ei_x_encode_atom(map, "capture_bytes");
	ei_x_encode_ulong(map, config->capture_bytes);
	ei_x_encode_atom(map, "capture_depth");
	ei_x_encode_ulong(map, config->capture_depth);
	ei_x_encode_atom(map, "redact");
	ei_x_encode_boolean(map, config->redact);
	ei_x_encode_atom(map, "ports");
	ei_x_encode_boolean(map, 1);
	ei_x_encode_atom(map, "tracer");
	ei_x_encode_atom(map, tracers[config->tracer]);
	ei_x_encode_atom(map, "names");
	ei_x_encode_boolean(map, !(config->without & WITHOUT_NAMES));
}

/* ---- Its answer ---- */

/* Up to LIST_MAX texts of a list, as "a, b, c". */
static void decode_list(const char *data, int *index, char *text, size_t bytes)
{
	int count, used = 0;

	*text = 0;
	if (ei_decode_list_header(data, index, &count))
		return;
	for (int i = 0; i < count && i < LIST_MAX; i++) {
		char word[160];

		term_words(data, index, word, sizeof(word));
		if (used < (int)bytes)
			used += snprintf(text + used, bytes - (size_t)used, "%s%s",
					 used ? ", " : "", word);
	}
}

/* {error, Term}: `index` stands at Term. */
static int answer_fault(const char *data, int index, struct fault *fault)
{
	char tag[MAXATOMLEN_UTF8], first[300], second[300];
	int start = index, arity = 0;

	if (ei_decode_tuple_header(data, &index, &arity) ||
	    ei_decode_atom_as(data, &index, tag, sizeof(tag), ERLANG_UTF8, NULL, NULL)) {
		term_text(data, start, first, sizeof(first));
		return fault_set(fault, -EREMOTEIO, NULL, "the tracer does not start: %s", first);
	}
	if (arity == 3 && (!strcmp(tag, "no_match") || !strcmp(tag, "module_not_found"))) {
		bool module = *tag == 'm';

		term_words(data, &index, first, sizeof(first));
		decode_list(data, &index, second, sizeof(second));
		fault_set(fault, -ENOENT, NULL,
			  module ? "the node has no module %s" : "nothing on the node matches %s",
			  first);
		if (*second)
			fault_fix(fault, "did you mean: %s", second);
		return -ENOENT;
	}
	if (arity == 3 && !strcmp(tag, "tracer_present")) {
		term_words(data, &index, first, sizeof(first));
		term_words(data, &index, second, sizeof(second));
		return fault_set(
			fault, -EBUSY,
			"a process of OTP 25 and 26 has one tracer: stop the other one first",
			"another tracer is there: %s (%s)", first, second);
	}
	if (arity == 2 && !strcmp(tag, "busy")) {
		term_words(data, &index, first, sizeof(first));
		return fault_set(fault, -EBUSY,
				 "wait for it to end, or stop it on the node: beamweave:stop().",
				 "another beamweave is recording this VM (session %s)", first);
	}
	if (arity == 2 && !strcmp(tag, "no_process")) {
		term_words(data, &index, first, sizeof(first));
		return fault_set(fault, -ENOENT, NULL, "the node has no process %s", first);
	}
	term_text(data, start, first, sizeof(first));
	return fault_set(fault, -EREMOTEIO, NULL, "the tracer does not start: %s", first);
}

static void answer_info(const char *data, int index, struct start_info *info)
{
	int pairs;

	if (ei_decode_map_header(data, &index, &pairs))
		return;
	for (int i = 0; i < pairs; i++) {
		char key[MAXATOMLEN_UTF8];
		long number;

		if (ei_decode_atom_as(data, &index, key, sizeof(key), ERLANG_UTF8, NULL, NULL))
			return;
		if (!strcmp(key, "functions") && !ei_decode_long(data, &index, &number))
			info->functions = number;
		else if (ei_skip_term(data, &index))
			return;
	}
}

int start_run(struct door *door, const struct capture_config *config, const char *session,
	      struct start_info *info, struct fault *fault)
{
	ei_x_buff arguments, reply;
	char tag[MAXATOMLEN_UTF8];
	int error, index, arity;

	if (ei_x_new(&arguments))
		return -ENOMEM;
	if (ei_x_new(&reply)) {
		ei_x_free(&arguments);
		return -ENOMEM;
	}
	ei_x_encode_list_header(&arguments, 1);
	encode_options(&arguments, config, session);
	ei_x_encode_empty_list(&arguments);
	error = door_call(door, "beamweave_controller", "start", &arguments, &reply, &index, fault);
	if (error)
		goto out;
	if (ei_decode_tuple_header(reply.buff, &index, &arity) || arity < 2 ||
	    ei_decode_atom_as(reply.buff, &index, tag, sizeof(tag), ERLANG_UTF8, NULL, NULL)) {
		error = fault_set(fault, -EREMOTEIO, NULL,
				  "the tracer's answer to its start makes no sense");
	} else if (!strcmp(tag, "error")) {
		error = answer_fault(reply.buff, index, fault);
	} else if (arity == 3) {
		ei_skip_term(reply.buff, &index);
		answer_info(reply.buff, index, info);
	}
out:
	ei_x_free(&arguments);
	ei_x_free(&reply);
	return error;
}

/* ---- The IP trace port ---- */

static int port_fault(const char *data, int index, struct fault *fault)
{
	char atom[MAXATOMLEN_UTF8] = "", text[300];
	int start = index;

	if (ei_decode_atom_as(data, &index, atom, sizeof(atom), ERLANG_UTF8, NULL, NULL))
		*atom = 0;
	if (!strcmp(atom, "no_runtime_tools"))
		return fault_set(
			fault, -ENOENT,
			"install the node's runtime_tools (Debian: erlang-runtime-tools; a "
			"release: list it among its applications), or take --tracer port",
			"the node has no runtime_tools, where OTP's IP trace port is");
	if (!strcmp(atom, "busy"))
		return fault_set(fault, -EBUSY,
				 "wait for it to end, or stop it on the node: beamweave:stop().",
				 "another beamweave is recording this VM by its IP trace port");
	term_text(data, start, text, sizeof(text));
	return fault_set(fault, -EREMOTEIO, NULL, "the IP trace port does not open: %s", text);
}

/* {ok, Port, Words} or {error, Reason}. */
static int port_answer(const char *data, int index, struct start_port *port, struct fault *fault)
{
	char tag[MAXATOMLEN_UTF8];
	int arity, type, size;
	unsigned long number;

	if (ei_decode_tuple_header(data, &index, &arity) ||
	    ei_decode_atom_as(data, &index, tag, sizeof(tag), ERLANG_UTF8, NULL, NULL))
		goto odd;
	if (arity == 2 && !strcmp(tag, "error"))
		return port_fault(data, index, fault);
	if (arity != 3 || ei_decode_ulong(data, &index, &number) || !number ||
	    number > UINT16_MAX || ei_get_type(data, &index, &type, &size) ||
	    type != ERL_BINARY_EXT || size < 1 || size > START_WORDS_BYTES ||
	    ei_decode_binary(data, &index, port->words, &port->words_bytes))
		goto odd;
	port->port = (uint16_t)number;
	return 0;
odd:
	return fault_set(fault, -EREMOTEIO, NULL,
			 "the node's answer about its IP trace port makes no sense");
}

int start_port(struct door *door, const struct capture_config *config, struct start_port *port,
	       struct fault *fault)
{
	const char *name = door_name(door);
	ei_x_buff arguments, reply;
	int error, index;

	if (ei_x_new(&arguments))
		return -ENOMEM;
	if (ei_x_new(&reply)) {
		ei_x_free(&arguments);
		return -ENOMEM;
	}
	ei_x_encode_list_header(&arguments, 1);
	ei_x_encode_map_header(&arguments, 2);
	ei_x_encode_atom(&arguments, "node");
	ei_x_encode_binary(&arguments, name, (int)strlen(name));
	ei_x_encode_atom(&arguments, "queue");
	ei_x_encode_ulong(&arguments, config->queue_messages);
	ei_x_encode_empty_list(&arguments);
	error = door_call(door, "beamweave_ip", "open", &arguments, &reply, &index, fault);
	if (!error)
		error = port_answer(reply.buff, index, port, fault);
	ei_x_free(&arguments);
	ei_x_free(&reply);
	return error;
}
