/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's events as lines for people: what a thread, a socket or a system call did. */
#include <inttypes.h>
#include <string.h>

#include "lines.h"
#include "syscalls.h"

void lines_duration(uint64_t ns, struct text_builder *text)
{
	if (ns >= 10000000000ull)
		text_format(text, "%.1f s", (double)ns / 1e9);
	else if (ns >= 10000000)
		text_format(text, "%.1f ms", (double)ns / 1e6);
	else
		text_format(text, "%.1f us", (double)ns / 1e3);
}

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

void lines_endpoints(uint16_t family, const uint8_t *local, uint16_t local_port,
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

	lines_endpoints(io->family, io->local, io->local_port, io->remote, io->remote_port, text);
	if (io->result >= 0)
		text_format(text, " %s %d bytes", what, io->result);
	else
		text_format(text, " %s fails: %s", what, error ? error : "?");
}

static void sock_event_add(const struct event *event, struct text_builder *text)
{
	const struct probe_sock_event *other = event->sock_event;

	lines_endpoints(other->family, other->local, other->local_port, other->remote,
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
	lines_duration(record->h.ts_ns > record->enter_ns ? record->h.ts_ns - record->enter_ns : 0,
		       text);
}

void lines_text_kernel(const struct event *event, struct text_builder *text)
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
		lines_endpoints(state->family, state->local, state->local_port, state->remote,
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
