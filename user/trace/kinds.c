/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include <string.h>

static const char *const kind_names[EVENT_KINDS] = {
	[RING_UNKNOWN] = "unknown",
	[RING_CALL] = "call",
	[RING_RETURN_TO] = "return_to",
	[RING_RETURN_FROM] = "return_from",
	[RING_EXCEPTION_FROM] = "exception_from",
	[RING_SEND] = "send",
	[RING_SEND_NOPROC] = "send_to_non_existing_process",
	[RING_RECEIVE] = "receive",
	[RING_IN] = "in",
	[RING_OUT] = "out",
	[RING_IN_EXITING] = "in_exiting",
	[RING_OUT_EXITING] = "out_exiting",
	[RING_OUT_EXITED] = "out_exited",
	[RING_GC_MINOR_START] = "gc_minor_start",
	[RING_GC_MINOR_END] = "gc_minor_end",
	[RING_GC_MAJOR_START] = "gc_major_start",
	[RING_GC_MAJOR_END] = "gc_major_end",
	[RING_GC_MAX_HEAP] = "gc_max_heap_size",
	[RING_SPAWN] = "spawn",
	[RING_SPAWNED] = "spawned",
	[RING_EXIT] = "exit",
	[RING_LINK] = "link",
	[RING_UNLINK] = "unlink",
	[RING_GETTING_LINKED] = "getting_linked",
	[RING_GETTING_UNLINKED] = "getting_unlinked",
	[RING_REGISTER] = "register",
	[RING_UNREGISTER] = "unregister",
	[RING_PORT_OPEN] = "port_open",
	[RING_PORT_CLOSED] = "port_closed",
	[RING_PORT_IN] = "port_in",
	[RING_PORT_OUT] = "port_out",
	[EVENT_KERNEL + PROBE_SWITCH] = "sched_switch",
	[EVENT_KERNEL + PROBE_WAKING] = "sched_waking",
	[EVENT_KERNEL + PROBE_MIGRATE] = "sched_migrate",
	[EVENT_KERNEL + PROBE_FORK] = "task_fork",
	[EVENT_KERNEL + PROBE_EXIT] = "task_exit",
	[EVENT_KERNEL + PROBE_SOCK_STATE] = "sock_state",
	[EVENT_KERNEL + PROBE_SOCK_SEND] = "sock_send",
	[EVENT_KERNEL + PROBE_SOCK_RECV] = "sock_recv",
	[EVENT_KERNEL + PROBE_TCP_RETRANSMIT] = "tcp_retransmit",
	[EVENT_KERNEL + PROBE_TCP_RESET_SENT] = "tcp_reset_sent",
	[EVENT_KERNEL + PROBE_TCP_RESET_RECEIVED] = "tcp_reset_received",
	[EVENT_KERNEL + PROBE_SYSCALL] = "syscall",
	[EVENT_KERNEL + PROBE_WAKEUP_NEW] = "sched_wakeup_new",
	[EVENT_KERNEL + PROBE_EXEC] = "task_exec",
	[EVENT_KERNEL + PROBE_SOCK_DATA_READY] = "sock_data_ready",
	[EVENT_LOSS] = "loss",
	[EVENT_NAME] = "name",
	[EVENT_INITIAL] = "initial_call",
	[EVENT_PORT] = "port",
	[EVENT_SAMPLE] = "sample",
};

const char *event_kind_name(uint32_t kind)
{
	return kind < EVENT_KINDS ? kind_names[kind] : NULL;
}

int event_kind_number(const char *name)
{
	for (int kind = 0; kind < EVENT_KINDS; kind++) {
		if (kind_names[kind] && !strcmp(kind_names[kind], name))
			return kind;
	}
	return -1;
}
