/* SPDX-License-Identifier: Apache-2.0 */
/* One event as a line for people: time, thread, process with its name, what happened. */
#include "lines.h"

#include <inttypes.h>
#include <string.h>

#include "moment.h"

#define TERM_SHOWN 512 /* of a captured term */

static void capture_add(struct trace *trace, const struct event *event, struct text_builder *text)
{
	char buffer[TERM_SHOWN];

	if (event->kind == RING_CALL)
		trace_arguments_text(trace, event->etf, buffer, sizeof(buffer));
	else
		trace_term_text(trace, event->etf, buffer, sizeof(buffer));
	text_add(text, buffer);
	if (event->flags & RING_F_CUT)
		text_add(text, " (cut)");
}

/* What was captured of a term, else its shape. */
static void term_add(struct trace *trace, const struct event *event, const struct ring_shape *shape,
		     struct text_builder *text)
{
	if (event->etf.bytes)
		capture_add(trace, event, text);
	else
		lines_shape(trace, shape, text);
}

static void mfa_add(struct trace *trace, const char *before, uint32_t mfa,
		    struct text_builder *text)
{
	if (mfa == RING_NO_INDEX)
		return;
	text_add(text, before);
	text_add(text, trace_mfa(trace, mfa));
}

void lines_text_process(struct trace *trace, uint64_t word, uint64_t ts_ns,
			struct text_builder *text)
{
	const char *name = trace_process_name(trace, word, ts_ns);

	lines_process(trace, word, text);
	if (name) {
		text_add(text, " ");
		text_add(text, name);
	}
}

/* ---- The VM's kinds ---- */

static void call_add(struct trace *trace, const struct event *event, struct text_builder *text)
{
	mfa_add(trace, "call ", event->call->mfa, text);
	if (event->etf.bytes) {
		text_add(text, " ");
		capture_add(trace, event, text);
	}
}

static void value_add(struct trace *trace, const struct event *event, const char *what,
		      struct text_builder *text)
{
	text_add(text, what);
	mfa_add(trace, " ", event->value->mfa, text);
	text_add(text, event->value->mfa == RING_NO_INDEX ? " " : " -> ");
	term_add(trace, event, &event->value->shape, text);
}

static void send_add(struct trace *trace, const struct event *event, struct text_builder *text)
{
	const struct ring_send *send = event->send;

	text_add(text, event->kind == RING_SEND ? "send to " : "send to no process ");
	if (send->to) {
		lines_text_process(trace, send->to, event->ts_ns, text);
	} else if (send->name) {
		const char *name = trace_atom(trace, send->name);

		text_add_atom(text, name, strlen(name));
	} else {
		text_add(text, "?");
	}
	text_add(text, ": ");
	term_add(trace, event, &send->shape, text);
}

static void gc_add(const struct event *event, const char *what, struct text_builder *text)
{
	const struct ring_gc *gc = event->gc;

	text_format(text, "%s: heap %" PRIu64 " of %" PRIu64, what, gc->heap_size,
		    gc->heap_block_size);
	if (gc->old_heap_block_size)
		text_format(text, ", old heap %" PRIu64 " of %" PRIu64, gc->old_heap_size,
			    gc->old_heap_block_size);
	text_format(text, ", stack %" PRIu64 " words", gc->stack_size);
}

static void run_add(struct trace *trace, const struct event *event, const char *what,
		    struct text_builder *text)
{
	text_add(text, what);
	mfa_add(trace, " in ", event->run->mfa, text);
}

static void peer_add(struct trace *trace, const struct event *event, const char *what,
		     struct text_builder *text)
{
	text_add(text, what);
	lines_text_process(trace, event->peer->other, event->ts_ns, text);
}

static void spawn_add(struct trace *trace, const struct event *event, const char *what,
		      struct text_builder *text)
{
	const struct ring_spawn *spawn = event->spawn;

	text_add(text, what);
	lines_text_process(trace, spawn->other, event->ts_ns, text);
	mfa_add(trace, " with ", spawn->initial == RING_NO_INDEX ? spawn->mfa : spawn->initial,
		text);
}

static void name_add(struct trace *trace, const struct event *event, const char *what,
		     struct text_builder *text)
{
	const char *name = trace_atom(trace, event->name->name);

	text_add(text, what);
	text_add_atom(text, name, strlen(name));
}

/* What it does there, "control", "ready_input", is not always told by the VM. */
static void port_run_add(struct trace *trace, const struct event *event, const char *what,
			 struct text_builder *text)
{
	text_add(text, what);
	if (event->name->name)
		name_add(trace, event, ": ", text);
}

static void vm_add(struct trace *trace, const struct event *event, struct text_builder *text)
{
	switch (event->kind) {
	case RING_CALL:
		call_add(trace, event, text);
		break;
	case RING_RETURN_TO:
		text_add(text, "return");
		mfa_add(trace, " to ", event->return_to->mfa, text);
		break;
	case RING_RETURN_FROM:
		value_add(trace, event, "return from", text);
		break;
	case RING_EXCEPTION_FROM:
		value_add(trace, event, "exception from", text);
		break;
	case RING_SEND:
	case RING_SEND_NOPROC:
		send_add(trace, event, text);
		break;
	case RING_RECEIVE:
		text_add(text, "receive ");
		term_add(trace, event, &event->receive->shape, text);
		break;
	case RING_IN:
		run_add(trace, event, "on a scheduler", text);
		break;
	case RING_OUT:
		run_add(trace, event, "off the scheduler", text);
		break;
	case RING_IN_EXITING:
		run_add(trace, event, "on a scheduler, exiting", text);
		break;
	case RING_OUT_EXITING:
		run_add(trace, event, "off the scheduler, exiting", text);
		break;
	case RING_OUT_EXITED:
		run_add(trace, event, "off the scheduler, exited", text);
		break;
	case RING_GC_MINOR_START:
		gc_add(event, "minor GC starts", text);
		break;
	case RING_GC_MINOR_END:
		gc_add(event, "minor GC ends", text);
		break;
	case RING_GC_MAJOR_START:
		gc_add(event, "major GC starts", text);
		break;
	case RING_GC_MAJOR_END:
		gc_add(event, "major GC ends", text);
		break;
	case RING_GC_MAX_HEAP:
		gc_add(event, "GC reached max_heap_size", text);
		break;
	case RING_SPAWN:
		spawn_add(trace, event, "spawn ", text);
		break;
	case RING_SPAWNED:
		spawn_add(trace, event, "spawned by ", text);
		break;
	case RING_EXIT:
		value_add(trace, event, "exit", text);
		break;
	case RING_LINK:
		peer_add(trace, event, "link to ", text);
		break;
	case RING_UNLINK:
		peer_add(trace, event, "unlink from ", text);
		break;
	case RING_GETTING_LINKED:
		peer_add(trace, event, "linked by ", text);
		break;
	case RING_GETTING_UNLINKED:
		peer_add(trace, event, "unlinked by ", text);
		break;
	case RING_REGISTER:
		name_add(trace, event, "register as ", text);
		break;
	case RING_UNREGISTER:
		name_add(trace, event, "unregister from ", text);
		break;
	case RING_PORT_OPEN:
		text_add(text, "port opened by ");
		lines_text_process(trace, event->port_open->owner, event->ts_ns, text);
		break;
	case RING_PORT_CLOSED:
		value_add(trace, event, "port closed", text);
		break;
	case RING_PORT_IN:
		port_run_add(trace, event, "port on a scheduler", text);
		break;
	case RING_PORT_OUT:
		port_run_add(trace, event, "port off the scheduler", text);
		break;
	default:
		name_add(trace, event, "trace event ", text);
		break;
	}
	if (event->flags & RING_F_DIRTY)
		text_add(text, " (dirty)");
}

/* ---- What stands beside ---- */

static void loss_add(const struct loss *loss, struct text_builder *text)
{
	const char *separator = ": ";

	text_format(text, "LOSS: %" PRIu64 " events %s over ", loss->count, loss->why);
	lines_duration(loss->to_ns - loss->from_ns, text);
	for (uint32_t kind = 0; kind < RING_KINDS; kind++) {
		const char *name = event_kind_name(loss->kernel ? EVENT_KERNEL + kind : kind);

		if (!loss->counts[kind])
			continue;
		text_format(text, "%s%" PRIu64 " %s", separator, loss->counts[kind],
			    name ? name : "unknown");
		separator = ", ";
	}
}

static void side_add(struct trace *trace, const struct event *event, struct text_builder *text)
{
	const struct ring_dict_port *port = event->port;

	switch (event->kind) {
	case EVENT_LOSS:
		loss_add(event->loss, text);
		break;
	case EVENT_NAME:
		text_add(text, "is registered as ");
		text_add_clean(text, event->text.data, event->text.bytes);
		break;
	case EVENT_INITIAL:
		text_add(text, "was started with ");
		text_add_clean(text, event->text.data, event->text.bytes);
		break;
	case EVENT_PORT:
		text_add(text, "belongs to ");
		lines_text_process(trace, port->owner, event->ts_ns, text);
		if (!port->family)
			break;
		text_add(text, ", ");
		lines_endpoints(port->family, port->local, port->local_port, port->remote,
				port->remote_port, text);
		break;
	default:
		text_add(text, "sample ");
		text_add_clean(text, event->text.data, event->text.bytes);
	}
}

/* Where it happened: the CPU for the kernel's events, the scheduler for the VM's. */
static void place_add(const struct trace *trace, const struct event *event,
		      struct text_builder *text)
{
	static const char *const roles[] = {
		[RING_ROLE_NORMAL] = "sched",
		[RING_ROLE_DIRTY_CPU] = "dcpu",
		[RING_ROLE_DIRTY_IO] = "dio",
	};
	const struct trace_thread *threads;
	size_t count = trace_threads(trace, &threads);
	char place[24] = "-";

	if (event->cpu >= 0)
		snprintf(place, sizeof(place), "cpu %d", event->cpu);
	else if (event->kind < RING_KINDS && event->ring < count &&
		 threads[event->ring].role >= RING_ROLE_NORMAL &&
		 threads[event->ring].role <= RING_ROLE_DIRTY_IO)
		snprintf(place, sizeof(place), "%s %u", roles[threads[event->ring].role],
			 threads[event->ring].number);
	else if (event->tid)
		snprintf(place, sizeof(place), "%d", event->tid);
	text_format(text, "%-9s", place);
}

void lines_text_event(struct trace *trace, const struct event *event, struct text_builder *text)
{
	if (event->kind < RING_KINDS)
		vm_add(trace, event, text);
	else if (event->kind < EVENT_LOSS)
		lines_text_kernel(event, text);
	else
		side_add(trace, event, text);
}

void lines_text(struct trace *trace, const struct event *event, struct text_builder *text)
{
	text_add(text, MOMENT_TIME(trace, event->ts_ns));
	text_add(text, "  ");
	place_add(trace, event, text);
	text_add(text, " ");
	if (event->process) {
		lines_text_process(trace, event->process, event->ts_ns, text);
		text_add(text, "  ");
	}
	lines_text_event(trace, event, text);
}
