/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto_erlang.h"

#include <stdio.h>

#define LABEL_BYTES   512
#define CONTENT_BYTES 2048 /* of a captured term as text */

const char *perfetto_process_label(struct trace *trace, uint64_t word, uint64_t ts_ns, char *buffer,
				   size_t size)
{
	const char *name = trace_process_name(trace, word, ts_ns);

	if (name)
		snprintf(buffer, size, "%s %s", trace_process_text(trace, word), name);
	else
		snprintf(buffer, size, "%s", trace_process_text(trace, word));
	return buffer;
}

void perfetto_note_process(struct perfetto_erlang *erlang, const char *key, uint64_t word,
			   uint64_t ts_ns)
{
	char label[LABEL_BYTES];

	packet_note_text(erlang->packets, key,
			 perfetto_process_label(erlang->trace, word, ts_ns, label, sizeof(label)));
}

void perfetto_note_mfa(struct perfetto_erlang *erlang, const char *key, uint32_t mfa)
{
	if (mfa != RING_NO_INDEX)
		packet_note_text(erlang->packets, key, trace_mfa(erlang->trace, mfa));
}

void perfetto_note_term(struct perfetto_erlang *erlang, const char *key, struct text etf)
{
	char text[CONTENT_BYTES];

	if (!etf.bytes)
		return;
	trace_term_text(erlang->trace, etf, text, sizeof(text));
	packet_note_text(erlang->packets, key, text);
}

void perfetto_note_arguments(struct perfetto_erlang *erlang, struct text etf)
{
	char text[CONTENT_BYTES];

	if (!etf.bytes)
		return;
	trace_arguments_text(erlang->trace, etf, text, sizeof(text));
	packet_note_text(erlang->packets, "arguments", text);
}

/* "$gen_cast metric", "tuple/3", "integer": what the shape of a term tells. */
static const char *shape_text(struct trace *trace, const struct ring_shape *shape, char *buffer,
			      size_t size)
{
	static const char *const types[] = {"term",    "atom", "tuple", "list",	 "binary",
					    "integer", "pid",  "map",	"float", "reference",
					    "port",    "fun",  "[]"};
	const char *type = shape->type < sizeof(types) / sizeof(*types) ? types[shape->type]
									: types[0];

	if (shape->atom[0] && shape->atom[1])
		snprintf(buffer, size, "%s %s", trace_atom(trace, shape->atom[0]),
			 trace_atom(trace, shape->atom[1]));
	else if (shape->atom[0])
		snprintf(buffer, size, "%s", trace_atom(trace, shape->atom[0]));
	else if (shape->type == RING_T_TUPLE)
		snprintf(buffer, size, "%s/%u", type, shape->arity);
	else
		snprintf(buffer, size, "%s", type);
	return buffer;
}

static void message_end_write(struct perfetto_erlang *erlang, const struct message *message,
			      const char *shape, bool sent)
{
	uint64_t ts_ns = sent ? message->sent_ns : message->fetched_ns;
	uint64_t track = perfetto_erlang_track(erlang, sent ? message->from : message->to, ts_ns);
	struct packets *packets = erlang->packets;
	char name[LABEL_BYTES];

	if (!track)
		return;
	snprintf(name, sizeof(name), "%s %s", sent ? "send" : "receive", shape);
	packet_event_open(packets, SEQUENCE_ERLANG, ts_ns, MARK_INSTANT, track,
			  sent ? "send" : "receive", name);
	if (sent && message->fetched_ns)
		packet_flow(packets, ++erlang->flows, false);
	else if (!sent && message->sent_ns)
		packet_flow(packets, erlang->flows, true);
	if (sent && message->to)
		perfetto_note_process(erlang, "to", message->to, ts_ns);
	if (sent && message->to_name)
		packet_note_text(packets, "to name", trace_atom(erlang->trace, message->to_name));
	if (sent && message->noproc)
		packet_note_bool(packets, "no such process", true);
	if (!sent && message->from)
		perfetto_note_process(erlang, "from", message->from, ts_ns);
	if (message->shape.type == RING_T_TUPLE)
		packet_note_uint(packets, "arity", message->shape.arity);
	packet_note_uint(packets, "fingerprint", message->shape.fingerprint);
	if (!sent && message->sent_ns && message->sent_ns <= message->fetched_ns)
		packet_note_uint(packets, "in the mailbox ns",
				 message->fetched_ns - message->sent_ns);
	if (sent && message->ran_ns >= message->sent_ns)
		packet_note_uint(packets, "receiver ran after ns",
				 message->ran_ns - message->sent_ns);
	packet_note_int(packets, "tid", sent ? message->sent_tid : message->fetched_tid);
	perfetto_note_term(erlang, "content", message->content);
	packet_event_close(packets);
}

void perfetto_erlang_message(struct perfetto_erlang *erlang, const struct message *message)
{
	char shape[LABEL_BYTES / 2];

	shape_text(erlang->trace, &message->shape, shape, sizeof(shape));
	if (message->sent_ns)
		message_end_write(erlang, message, shape, true);
	if (message->fetched_ns)
		message_end_write(erlang, message, shape, false);
}

void perfetto_erlang_queue(struct perfetto_erlang *erlang, const struct queue_sample *sample)
{
	uint64_t track = perfetto_erlang_mailbox(erlang, sample->process, sample->ts_ns);

	if (!track)
		return;
	packet_event_open(erlang->packets, SEQUENCE_ERLANG, sample->ts_ns, MARK_COUNTER, track,
			  NULL, NULL);
	packet_value(erlang->packets,
		     sample->length < INT64_MAX ? (int64_t)sample->length : INT64_MAX);
	packet_event_close(erlang->packets);
}

static void instant_notes(struct perfetto_erlang *erlang, const struct event *event)
{
	struct packets *packets = erlang->packets;
	struct trace *trace = erlang->trace;
	char shape[LABEL_BYTES];

	switch (event->kind) {
	case RING_SPAWN:
	case RING_SPAWNED:
		perfetto_note_process(erlang, event->kind == RING_SPAWN ? "child" : "parent",
				      event->spawn->other, event->ts_ns);
		perfetto_note_mfa(erlang, "function", event->spawn->mfa);
		perfetto_note_mfa(erlang, "initial call", event->spawn->initial);
		break;
	case RING_EXIT:
	case RING_PORT_CLOSED:
		packet_note_text(packets, "reason",
				 shape_text(trace, &event->value->shape, shape, sizeof(shape)));
		perfetto_note_term(erlang, "reason term", event->etf);
		break;
	case RING_LINK:
	case RING_UNLINK:
	case RING_GETTING_LINKED:
	case RING_GETTING_UNLINKED:
		perfetto_note_process(erlang, "with", event->peer->other, event->ts_ns);
		break;
	case RING_REGISTER:
	case RING_UNREGISTER:
		packet_note_text(packets, "name", trace_atom(trace, event->name->name));
		break;
	case RING_PORT_OPEN:
		perfetto_note_process(erlang, "owner", event->port_open->owner, event->ts_ns);
		if (event->port_open->driver)
			packet_note_text(packets, "driver",
					 trace_atom(trace, event->port_open->driver));
		break;
	}
}

void perfetto_erlang_instant(struct perfetto_erlang *erlang, const struct instant *instant)
{
	const struct event *event = &instant->event;
	const char *name = event_kind_name(event->kind);
	uint64_t track;

	/* The kernel's are on the tracks of sockets and CPUs. */
	if (event->kind >= EVENT_KERNEL || !event->process)
		return;
	track = perfetto_erlang_track(erlang, event->process, event->ts_ns);
	if (!track)
		return;
	if (event->kind == RING_REGISTER)
		perfetto_erlang_rename(erlang, event->process, event->ts_ns);
	packet_event_open(erlang->packets, SEQUENCE_ERLANG, event->ts_ns, MARK_INSTANT, track,
			  "instant", name ? name : "unknown event");
	instant_notes(erlang, event);
	packet_event_close(erlang->packets);
}
