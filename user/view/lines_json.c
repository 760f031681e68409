/* SPDX-License-Identifier: Apache-2.0 */
/* One event as a line of JSON. Keys that have no value are left out. */
#include "lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "syscalls.h"

#define TERM_BYTES (1u << 18)

static void key_add(struct text_builder *text, const char *key)
{
	text_format(text, ",\"%s\":", key);
}

static void number_add(struct text_builder *text, const char *key, uint64_t value)
{
	text_format(text, ",\"%s\":%" PRIu64, key, value);
}

static void integer_add(struct text_builder *text, const char *key, int64_t value)
{
	text_format(text, ",\"%s\":%" PRId64, key, value);
}

static void flag_add(struct text_builder *text, const char *key, bool value)
{
	text_format(text, ",\"%s\":%s", key, value ? "true" : "false");
}

static void bytes_add(struct text_builder *text, const char *key, const char *data, size_t bytes)
{
	key_add(text, key);
	text_add(text, "\"");
	text_add_json(text, data, bytes);
	text_add(text, "\"");
}

static void string_add(struct text_builder *text, const char *key, const char *value)
{
	if (value)
		bytes_add(text, key, value, strlen(value));
}

/* A task's name; it may hold any bytes but 0. */
static void comm_add(struct text_builder *text, const char *key, const char *comm)
{
	char clean[3 * PROBE_COMM + 1];
	struct text_builder name;

	text_begin(&name, clean, sizeof(clean));
	text_add_clean(&name, comm, strnlen(comm, PROBE_COMM));
	string_add(text, key, clean);
}

static void process_add(struct trace *trace, struct text_builder *text, const char *key,
			uint64_t word)
{
	if (!word)
		return;
	key_add(text, key);
	text_add(text, "\"");
	lines_process(trace, word, text);
	text_add(text, "\"");
}

static void mfa_add(struct trace *trace, struct text_builder *text, const char *key, uint32_t mfa)
{
	if (mfa != RING_NO_INDEX)
		string_add(text, key, trace_mfa(trace, mfa));
}

static void atom_add(struct trace *trace, struct text_builder *text, const char *key, uint32_t atom)
{
	if (atom)
		string_add(text, key, trace_atom(trace, atom));
}

static void depth_add(struct text_builder *text, const char *key, uint32_t depth)
{
	if (depth != RING_NO_DEPTH)
		number_add(text, key, depth);
}

static void capture_add(struct trace *trace, struct text_builder *text, const char *key,
			const struct event *event)
{
	char *buffer;
	size_t bytes;

	if (!event->etf.bytes)
		return;
	buffer = malloc(TERM_BYTES);
	if (!buffer) {
		text->cut = true;
		return;
	}
	bytes = event->kind == RING_CALL
			? trace_arguments_text(trace, event->etf, buffer, TERM_BYTES)
			: trace_term_text(trace, event->etf, buffer, TERM_BYTES);
	bytes_add(text, key, buffer, bytes);
	if (event->flags & RING_F_CUT)
		flag_add(text, "cut", true);
	free(buffer);
}

static void shape_add(struct trace *trace, struct text_builder *text,
		      const struct ring_shape *shape)
{
	text_format(text, ",\"shape\":{\"type\":\"%s\"", lines_shape_type(shape->type));
	if (shape->type == RING_T_TUPLE)
		number_add(text, "arity", shape->arity);
	if (shape->atom[0] || shape->atom[1]) {
		text_add(text, ",\"atoms\":[");
		for (int i = 0; i < 2 && shape->atom[i]; i++) {
			const char *name = trace_atom(trace, shape->atom[i]);

			text_add(text, i ? ",\"" : "\"");
			text_add_json(text, name, strlen(name));
			text_add(text, "\"");
		}
		text_add(text, "]");
	}
	text_format(text, ",\"fingerprint\":\"%016" PRIx64 "\"}", shape->fingerprint);
}

/* ---- The VM's kinds ---- */

static void gc_add(struct text_builder *text, const struct ring_gc *gc)
{
	number_add(text, "heap_size", gc->heap_size);
	number_add(text, "heap_block_size", gc->heap_block_size);
	number_add(text, "old_heap_size", gc->old_heap_size);
	number_add(text, "old_heap_block_size", gc->old_heap_block_size);
	number_add(text, "stack_size", gc->stack_size);
	number_add(text, "recent_size", gc->recent_size);
	number_add(text, "mbuf_size", gc->mbuf_size);
	number_add(text, "bin_vheap_size", gc->bin_vheap_size);
	number_add(text, "bin_vheap_block_size", gc->bin_vheap_block_size);
	number_add(text, "bin_old_vheap_size", gc->bin_old_vheap_size);
	number_add(text, "bin_old_vheap_block_size", gc->bin_old_vheap_block_size);
}

static void call_add(struct trace *trace, struct text_builder *text, const struct event *event)
{
	mfa_add(trace, text, "mfa", event->call->mfa);
	depth_add(text, "depth", event->call->depth);
	depth_add(text, "frame", event->call->frame);
	if (event->call->tail < 2)
		flag_add(text, "tail", event->call->tail);
	capture_add(trace, text, "args", event);
}

static void value_add(struct trace *trace, struct text_builder *text, const struct event *event)
{
	const struct ring_value *value = event->value;

	mfa_add(trace, text, "mfa", value->mfa);
	depth_add(text, "depth", value->depth);
	shape_add(trace, text, &value->shape);
	capture_add(trace, text, "value", event);
}

static void send_add(struct trace *trace, struct text_builder *text, const struct event *event)
{
	process_add(trace, text, "to", event->send->to);
	if (event->send->to)
		string_add(text, "to_name",
			   trace_process_name(trace, event->send->to, event->ts_ns));
	atom_add(trace, text, "to_registered", event->send->name);
	shape_add(trace, text, &event->send->shape);
	capture_add(trace, text, "message", event);
}

static void spawn_add(struct trace *trace, struct text_builder *text, const struct event *event)
{
	process_add(trace, text, event->kind == RING_SPAWN ? "child" : "parent",
		    event->spawn->other);
	mfa_add(trace, text, "mfa", event->spawn->mfa);
	mfa_add(trace, text, "initial", event->spawn->initial);
}

static void vm_add(struct trace *trace, struct text_builder *text, const struct event *event)
{
	switch (event->kind) {
	case RING_CALL:
		call_add(trace, text, event);
		break;
	case RING_RETURN_TO:
		mfa_add(trace, text, "mfa", event->return_to->mfa);
		depth_add(text, "depth", event->return_to->depth);
		break;
	case RING_RETURN_FROM:
	case RING_EXCEPTION_FROM:
	case RING_EXIT:
	case RING_PORT_CLOSED:
		value_add(trace, text, event);
		break;
	case RING_SEND:
	case RING_SEND_NOPROC:
		send_add(trace, text, event);
		break;
	case RING_RECEIVE:
		shape_add(trace, text, &event->receive->shape);
		capture_add(trace, text, "message", event);
		break;
	case RING_IN:
	case RING_OUT:
	case RING_IN_EXITING:
	case RING_OUT_EXITING:
	case RING_OUT_EXITED:
		mfa_add(trace, text, "mfa", event->run->mfa);
		number_add(text, "scheduler", event->run->scheduler);
		break;
	case RING_GC_MINOR_START:
	case RING_GC_MINOR_END:
	case RING_GC_MAJOR_START:
	case RING_GC_MAJOR_END:
	case RING_GC_MAX_HEAP:
		gc_add(text, event->gc);
		break;
	case RING_SPAWN:
	case RING_SPAWNED:
		spawn_add(trace, text, event);
		break;
	case RING_LINK:
	case RING_UNLINK:
	case RING_GETTING_LINKED:
	case RING_GETTING_UNLINKED:
		process_add(trace, text, "other", event->peer->other);
		break;
	case RING_REGISTER:
	case RING_UNREGISTER:
		atom_add(trace, text, "registered", event->name->name);
		break;
	case RING_PORT_IN:
	case RING_PORT_OUT:
		atom_add(trace, text, "operation", event->name->name);
		break;
	case RING_PORT_OPEN:
		process_add(trace, text, "owner", event->port_open->owner);
		atom_add(trace, text, "driver", event->port_open->driver);
		break;
	default:
		atom_add(trace, text, "tag", event->other->tag);
		break;
	}
	if (event->flags & RING_F_DIRTY)
		flag_add(text, "dirty", true);
}

/* ---- The kernel's kinds ---- */

static void switch_add(struct text_builder *text, const struct probe_switch *record)
{
	integer_add(text, "prev_tid", record->prev_tid);
	integer_add(text, "prev_tgid", record->prev_tgid);
	comm_add(text, "prev_comm", record->prev_comm);
	string_add(text, "prev_state", lines_task_state(record->prev_state));
	integer_add(text, "prev_prio", record->prev_prio);
	integer_add(text, "next_tid", record->next_tid);
	integer_add(text, "next_tgid", record->next_tgid);
	comm_add(text, "next_comm", record->next_comm);
	integer_add(text, "next_prio", record->next_prio);
	if (record->flags & PROBE_THROTTLE_KNOWN && record->flags & PROBE_PREV_TARGET)
		flag_add(text, "throttled", record->flags & PROBE_THROTTLED);
	if (record->flags & PROBE_SYSCALL_KNOWN && record->syscall >= 0) {
		integer_add(text, "syscall", record->syscall);
		string_add(text, "syscall_name", syscall_name(record->syscall));
		number_add(text, "syscall_arg", record->syscall_arg);
	}
}

static void waking_add(struct text_builder *text, const struct probe_waking *record)
{
	integer_add(text, "woken_tid", record->tid);
	comm_add(text, "woken_comm", record->comm);
	integer_add(text, "waker_tgid", record->waker_tgid);
	comm_add(text, "waker_comm", record->waker_comm);
	integer_add(text, "target_cpu", record->target_cpu);
	integer_add(text, "prio", record->prio);
}

static void endpoints_add(struct text_builder *text, uint64_t sock, uint16_t family,
			  uint16_t protocol, const uint8_t *local, uint16_t local_port,
			  const uint8_t *remote, uint16_t remote_port)
{
	char buffer[LINES_ADDRESS];

	text_format(text, ",\"sock\":\"%" PRIx64 "\"", sock);
	number_add(text, "family", family);
	number_add(text, "protocol", protocol);
	string_add(text, "local", lines_address(buffer, family, local, local_port));
	string_add(text, "remote", lines_address(buffer, family, remote, remote_port));
}

static void syscall_add(struct text_builder *text, const struct probe_syscall *record)
{
	integer_add(text, "number", record->number);
	string_add(text, "syscall_name", syscall_name(record->number));
	number_add(text, "enter_ns", record->enter_ns);
	number_add(text, "duration_ns",
		   record->h.ts_ns > record->enter_ns ? record->h.ts_ns - record->enter_ns : 0);
	integer_add(text, "result", record->result);
	text_add(text, ",\"args\":[");
	for (int i = 0; i < 6; i++)
		text_format(text, "%s%" PRIu64, i ? "," : "", (uint64_t)record->args[i]);
	text_add(text, "]");
}

static void kernel_add(struct text_builder *text, const struct event *event)
{
	const struct probe_sock_state *state = event->sock_state;
	const struct probe_sock_io *io = event->sock_io;
	const struct probe_sock_event *other = event->sock_event;

	switch (event->kind - EVENT_KERNEL) {
	case PROBE_SWITCH:
		switch_add(text, event->sched_switch);
		break;
	case PROBE_WAKING:
	case PROBE_WAKEUP_NEW:
		waking_add(text, event->waking);
		break;
	case PROBE_MIGRATE:
		integer_add(text, "from_cpu", event->migrate->from_cpu);
		integer_add(text, "to_cpu", event->migrate->to_cpu);
		break;
	case PROBE_FORK:
	case PROBE_EXIT:
	case PROBE_EXEC:
		integer_add(text, "tgid", event->task->tgid);
		integer_add(text, "parent_tid", event->task->parent_tid);
		comm_add(text, "comm", event->task->comm);
		break;
	case PROBE_SOCK_STATE:
		endpoints_add(text, state->sock, state->family, state->protocol, state->local,
			      state->local_port, state->remote, state->remote_port);
		string_add(text, "old_state", lines_tcp_state(state->old_state));
		string_add(text, "new_state", lines_tcp_state(state->new_state));
		break;
	case PROBE_SOCK_SEND:
	case PROBE_SOCK_RECV:
		endpoints_add(text, io->sock, io->family, io->protocol, io->local, io->local_port,
			      io->remote, io->remote_port);
		integer_add(text, "result", io->result);
		break;
	case PROBE_SYSCALL:
		syscall_add(text, event->syscall);
		break;
	default:
		endpoints_add(text, other->sock, other->family, other->protocol, other->local,
			      other->local_port, other->remote, other->remote_port);
		number_add(text, "value", other->value);
		break;
	}
}

/* ---- What stands beside ---- */

static void loss_add(struct text_builder *text, const struct loss *loss)
{
	const char *separator = "";

	string_add(text, "why", loss->why);
	flag_add(text, "kernel", loss->kernel);
	if (loss->ring != LOSS_UNCLAIMED)
		number_add(text, "ring", loss->ring);
	number_add(text, "from_ns", loss->from_ns);
	number_add(text, "to_ns", loss->to_ns);
	number_add(text, "count", loss->count);
	text_add(text, ",\"counts\":{");
	for (uint32_t kind = 0; kind < RING_KINDS; kind++) {
		uint32_t number = loss->kernel ? EVENT_KERNEL + kind : kind;
		const char *name = event_kind_name(number);

		if (!loss->counts[kind])
			continue;
		if (name)
			text_format(text, "%s\"%s\":%" PRIu64, separator, name, loss->counts[kind]);
		else
			text_format(text, "%s\"kind_%u\":%" PRIu64, separator, number,
				    loss->counts[kind]);
		separator = ",";
	}
	text_add(text, "}");
}

static void port_add(struct trace *trace, struct text_builder *text,
		     const struct ring_dict_port *port)
{
	char buffer[LINES_ADDRESS];

	process_add(trace, text, "owner", port->owner);
	if (!port->family)
		return;
	number_add(text, "family", port->family);
	string_add(text, "local",
		   lines_address(buffer, port->family, port->local, port->local_port));
	string_add(text, "remote",
		   lines_address(buffer, port->family, port->remote, port->remote_port));
}

/* The recorder's own JSON, if it is whole: nothing else goes into the line unread. */
static void sample_add(struct text_builder *text, const struct text *sample)
{
	json_t *data = json_loadb(sample->data, sample->bytes, 0, NULL);
	char *dump = json_is_object(data) ? json_dumps(data, JSON_COMPACT) : NULL;
	size_t bytes = dump ? strlen(dump) : 0;

	key_add(text, "data");
	text_add(text, bytes && bytes < text->size - text->used - 16 ? dump : "null");
	free(dump);
	json_decref(data);
}

static void side_add(struct trace *trace, struct text_builder *text, const struct event *event)
{
	switch (event->kind) {
	case EVENT_LOSS:
		loss_add(text, event->loss);
		break;
	case EVENT_NAME:
		bytes_add(text, "registered", event->text.data, event->text.bytes);
		break;
	case EVENT_INITIAL:
		bytes_add(text, "initial", event->text.data, event->text.bytes);
		break;
	case EVENT_PORT:
		port_add(trace, text, event->port);
		break;
	case EVENT_SAMPLE:
		sample_add(text, &event->text);
		break;
	default:
		break;
	}
}

static void thread_add(const struct trace *trace, struct text_builder *text, uint32_t ring)
{
	const struct trace_thread *threads;

	if (ring >= trace_threads(trace, &threads))
		return;
	text_format(text, ",\"thread\":{\"role\":\"%s\",\"number\":%u}",
		    lines_role(threads[ring].role), threads[ring].number);
}

static void head_add(const struct event *event, struct text_builder *text)
{
	const char *kind = event_kind_name(event->kind);

	text_format(text, "{\"ts_ns\":%" PRIu64 ",\"kind\":\"%s\"", event->ts_ns,
		    kind ? kind : "unknown");
}

void lines_json(struct trace *trace, const struct event *event, struct text_builder *text)
{
	size_t start = text->used;

	head_add(event, text);
	if (event->tid)
		integer_add(text, "tid", event->tid);
	if (event->cpu >= 0)
		integer_add(text, "cpu", event->cpu);
	if (event->kind < RING_KINDS)
		thread_add(trace, text, event->ring);
	if (event->process) {
		process_add(trace, text, "process", event->process);
		string_add(text, "name", trace_process_name(trace, event->process, event->ts_ns));
	}
	if (event->kind < RING_KINDS)
		vm_add(trace, text, event);
	else if (event->kind < EVENT_LOSS)
		kernel_add(text, event);
	else
		side_add(trace, text, event);
	text_add(text, "}");
	if (text->cut) {
		/* Never a line that is no JSON. */
		text->used = start;
		text->cut = false;
		head_add(event, text);
		text_add(text, ",\"cut\":true}");
	}
}
