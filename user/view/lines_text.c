/* SPDX-License-Identifier: Apache-2.0 */
/* One event as a line for people: time, thread, process with its name, what happened. */
#include "lines.h"

#include <inttypes.h>
#include <string.h>

#include "moment.h"
#include "syscalls.h"

#define TERM_SHOWN 512 /* of a captured term */

static void capture_add(struct trace *trace, const struct event *event, struct text_builder *text)
{
	char buffer[TERM_SHOWN];

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

static void process_add(struct trace *trace, uint64_t word, uint64_t ts_ns,
			struct text_builder *text)
{
	const char *name = trace_process_name(trace, word, ts_ns);

	lines_process(trace, word, text);
	if (name) {
		text_add(text, " ");
		text_add(text, name);
	}
}

static void duration_add(uint64_t ns, struct text_builder *text)
{
	if (ns >= 10000000000ull)
		text_format(text, "%.1f s", (double)ns / 1e9);
	else if (ns >= 10000000)
		text_format(text, "%.1f ms", (double)ns / 1e6);
	else
		text_format(text, "%.1f us", (double)ns / 1e3);
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
		process_add(trace, send->to, event->ts_ns, text);
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
	process_add(trace, event->peer->other, event->ts_ns, text);
}

static void spawn_add(struct trace *trace, const struct event *event, const char *what,
		      struct text_builder *text)
{
	const struct ring_spawn *spawn = event->spawn;

	text_add(text, what);
	process_add(trace, spawn->other, event->ts_ns, text);
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
		process_add(trace, event->port_open->owner, event->ts_ns, text);
		break;
	case RING_PORT_CLOSED:
		value_add(trace, event, "port closed", text);
		break;
	case RING_PORT_IN:
		name_add(trace, event, "port on a scheduler: ", text);
		break;
	case RING_PORT_OUT:
		name_add(trace, event, "port off the scheduler: ", text);
		break;
	default:
		name_add(trace, event, "trace event ", text);
		break;
	}
	if (event->flags & RING_F_DIRTY)
		text_add(text, " (dirty)");
}

/* ---- The kernel's kinds ---- */

static void task_add(const char *comm, int32_t tid, struct text_builder *text)
{
	text_add_clean(text, comm, strnlen(comm, PROBE_COMM));
	text_format(text, " (%d)", tid);
}

/* What a thread does that went off its CPU in this state. */
static const char *state_text(uint32_t state)
{
	switch (*lines_task_state(state)) {
	case 'R':
		return "preempted";
	case 'S':
		return "sleeps";
	case 'D':
		return "blocked";
	case 'T':
	case 't':
		return "stopped";
	case 'X':
	case 'Z':
		return "ends";
	default:
		return lines_task_state(state);
	}
}

static void switch_add(const struct probe_switch *record, struct text_builder *text)
{
	const char *call = NULL;

	if (record->flags & PROBE_SYSCALL_KNOWN && record->syscall >= 0)
		call = syscall_name(record->syscall);
	if (!(record->flags & PROBE_PREV_TARGET)) {
		task_add(record->next_comm, record->next_tid, text);
		text_add(text, " comes on after ");
		task_add(record->prev_comm, record->prev_tid, text);
		if (!(record->flags & PROBE_NEXT_TARGET))
			text_add(text, " while a thread of the VM waits for the CPU");
		return;
	}
	task_add(record->prev_comm, record->prev_tid, text);
	text_add(text, " goes off, ");
	text_add(text,
		 record->flags & PROBE_THROTTLED ? "throttled" : state_text(record->prev_state));
	if (call)
		text_format(text, " in %s", call);
	text_add(text, "; ");
	if (record->next_tid)
		task_add(record->next_comm, record->next_tid, text);
	else
		text_add(text, "idle");
	text_add(text, " comes on");
}

static void endpoints_add(uint16_t family, const uint8_t *local, uint16_t local_port,
			  const uint8_t *remote, uint16_t remote_port, struct text_builder *text)
{
	char buffer[LINES_ADDRESS];

	text_add(text, lines_address(buffer, family, local, local_port));
	text_add(text, " - ");
	text_add(text, lines_address(buffer, family, remote, remote_port));
}

static void io_add(const struct event *event, struct text_builder *text)
{
	const struct probe_sock_io *io = event->sock_io;
	const char *what = event->kind == EVENT_KERNEL + PROBE_SOCK_SEND ? "send" : "receive";
	const char *error = io->result < 0 && io->result > -4096 ? strerrorname_np(-io->result)
								 : NULL;

	endpoints_add(io->family, io->local, io->local_port, io->remote, io->remote_port, text);
	if (io->result >= 0)
		text_format(text, " %s %d bytes", what, io->result);
	else
		text_format(text, " %s fails: %s", what, error ? error : "?");
}

static void sock_event_add(const struct event *event, struct text_builder *text)
{
	const struct probe_sock_event *other = event->sock_event;

	endpoints_add(other->family, other->local, other->local_port, other->remote,
		      other->remote_port, text);
	switch (event->kind - EVENT_KERNEL) {
	case PROBE_TCP_RETRANSMIT:
		text_format(text, " retransmit in %s", lines_tcp_state((uint8_t)other->value));
		break;
	case PROBE_TCP_RESET_SENT:
		text_add(text, " reset sent");
		break;
	case PROBE_TCP_RESET_RECEIVED:
		text_add(text, " reset received");
		break;
	default:
		text_add(text, " data or a connection arrived");
		if (other->value)
			text_format(text, ", accept queue %u", other->value);
	}
}

static void syscall_add(const struct probe_syscall *record, struct text_builder *text)
{
	const char *name = syscall_name(record->number);

	if (name)
		text_add(text, name);
	else
		text_format(text, "system call %d", record->number);
	text_format(text, "(%" PRIu64 ", ...) = %" PRId64 ", ", (uint64_t)record->args[0],
		    (int64_t)record->result);
	duration_add(record->h.ts_ns > record->enter_ns ? record->h.ts_ns - record->enter_ns : 0,
		     text);
}

static void kernel_add(const struct event *event, struct text_builder *text)
{
	const struct probe_sock_state *state = event->sock_state;

	switch (event->kind - EVENT_KERNEL) {
	case PROBE_SWITCH:
		switch_add(event->sched_switch, text);
		break;
	case PROBE_WAKING:
	case PROBE_WAKEUP_NEW:
		task_add(event->waking->waker_comm, event->waking->waker_tid, text);
		text_add(text, " wakes ");
		task_add(event->waking->comm, event->waking->tid, text);
		text_format(text, " on CPU %d", event->waking->target_cpu);
		break;
	case PROBE_MIGRATE:
		text_format(text, "moves from CPU %d to %d", event->migrate->from_cpu,
			    event->migrate->to_cpu);
		break;
	case PROBE_FORK:
		text_add(text, "new thread ");
		task_add(event->task->comm, event->task->tid, text);
		break;
	case PROBE_EXIT:
		text_add(text, "thread ends: ");
		task_add(event->task->comm, event->task->tid, text);
		break;
	case PROBE_EXEC:
		text_add(text, "exec ");
		task_add(event->task->comm, event->task->tid, text);
		break;
	case PROBE_SOCK_STATE:
		endpoints_add(state->family, state->local, state->local_port, state->remote,
			      state->remote_port, text);
		text_format(text, " %s -> %s", lines_tcp_state(state->old_state),
			    lines_tcp_state(state->new_state));
		break;
	case PROBE_SOCK_SEND:
	case PROBE_SOCK_RECV:
		io_add(event, text);
		break;
	case PROBE_SYSCALL:
		syscall_add(event->syscall, text);
		break;
	default:
		sock_event_add(event, text);
		break;
	}
}

/* ---- What stands beside ---- */

static void loss_add(const struct loss *loss, struct text_builder *text)
{
	const char *separator = ": ";

	text_format(text, "LOSS: %" PRIu64 " events %s over ", loss->count, loss->why);
	duration_add(loss->to_ns - loss->from_ns, text);
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
		process_add(trace, port->owner, event->ts_ns, text);
		if (!port->family)
			break;
		text_add(text, ", ");
		endpoints_add(port->family, port->local, port->local_port, port->remote,
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

void lines_text(struct trace *trace, const struct event *event, struct text_builder *text)
{
	text_add(text, MOMENT_TIME(trace, event->ts_ns));
	text_add(text, "  ");
	place_add(trace, event, text);
	text_add(text, " ");
	if (event->process) {
		process_add(trace, event->process, event->ts_ns, text);
		text_add(text, "  ");
	}
	if (event->kind < RING_KINDS)
		vm_add(trace, event, text);
	else if (event->kind < EVENT_LOSS)
		kernel_add(event, text);
	else
		side_add(trace, event, text);
}
