/* SPDX-License-Identifier: Apache-2.0 */
#include "fanout.h"

#define FANOUT_PASS(name, type)                                                                    \
	static void pass_##name(void *context, const struct type *value)                           \
	{                                                                                          \
		struct fanout *fanout = context;                                                   \
                                                                                                   \
		for (size_t i = 0; i < fanout->count; i++)                                         \
			if (fanout->sinks[i].name)                                                 \
				fanout->sinks[i].name(fanout->sinks[i].context, value);            \
	}

FANOUT_PASS(thread, thread_interval)
FANOUT_PASS(run, run_interval)
FANOUT_PASS(call, call_interval)
FANOUT_PASS(gc, gc_interval)
FANOUT_PASS(message, message)
FANOUT_PASS(instant, instant)
FANOUT_PASS(stall, stall)
FANOUT_PASS(loss, loss)
FANOUT_PASS(socket, socket_totals)
FANOUT_PASS(event, event)

struct timeline_sink *fanout_add(struct fanout *fanout)
{
	return fanout->count < FANOUT_MAX ? &fanout->sinks[fanout->count++] : NULL;
}

struct timeline_sink fanout_sink(struct fanout *fanout)
{
	return (struct timeline_sink){.context = fanout,
				      .thread = pass_thread,
				      .run = pass_run,
				      .call = pass_call,
				      .gc = pass_gc,
				      .message = pass_message,
				      .instant = pass_instant,
				      .stall = pass_stall,
				      .loss = pass_loss,
				      .socket = pass_socket,
				      .event = pass_event};
}
