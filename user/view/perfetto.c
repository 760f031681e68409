/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto.h"

#include <errno.h>
#include <string.h>

#include "perfetto_erlang.h"
#include "perfetto_fields.h"
#include "perfetto_finding.h"
#include "perfetto_sched.h"
#include "perfetto_socket.h"
#include "perfetto_syscall.h"
#include "sanitize.h"
#include "timeline.h"

#define MIN_STALL_NS 100000u
#define TEXT_BYTES   256

struct perfetto {
	struct trace *trace;
	struct packets packets;
	struct perfetto_sched sched;
	struct perfetto_erlang erlang;
	struct perfetto_socket socket;
	struct perfetto_syscall syscall;
	struct perfetto_finding finding;
	uint64_t end_ns; /* the latest time seen */
};

/* ---- What the file says of itself ---- */

static void clock_write(struct perfetto *perfetto, uint64_t monotonic_ns)
{
	const uint64_t times[][2] = {
		{CLOCK_ID_REALTIME, trace_wall_ns(perfetto->trace, monotonic_ns)},
		{CLOCK_ID_MONOTONIC, monotonic_ns},
		{CLOCK_ID_BOOTTIME, monotonic_ns + (uint64_t)trace_boot_offset_ns(perfetto->trace)},
	};
	struct proto *proto = packet_open(&perfetto->packets, SEQUENCE_META, PACKET_NO_TIME);

	proto_open(proto, PACKET_CLOCK_SNAPSHOT);
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		proto_open(proto, SNAPSHOT_CLOCKS);
		proto_uint(proto, CLOCK_CLOCK_ID, times[i][0]);
		proto_uint(proto, CLOCK_TIMESTAMP, times[i][1]);
		proto_close(proto);
	}
	proto_uint(proto, SNAPSHOT_PRIMARY_CLOCK, CLOCK_ID_MONOTONIC);
	proto_close(proto);
	packet_close(&perfetto->packets);
}

static void utsname_put(struct proto *proto, enum utsname_field field, const json_t *host,
			const char *key, const char *otherwise)
{
	const json_t *value = json_object_get(host, key);
	char text[TEXT_BYTES];

	if (json_is_string(value)) {
		sanitize_copy(text, sizeof(text), json_string_value(value),
			      json_string_length(value));
		otherwise = text;
	}
	if (otherwise)
		proto_text(proto, field, otherwise);
}

/* Thread states are decoded by the kernel's release: any that the probes load on has one reading. */
static void system_write(struct perfetto *perfetto)
{
	const json_t *host = json_object_get(trace_meta(perfetto->trace), "host");
	struct proto *proto = packet_open(&perfetto->packets, SEQUENCE_META, PACKET_NO_TIME);

	proto_open(proto, PACKET_SYSTEM_INFO);
	proto_open(proto, SYSTEM_UTSNAME);
	utsname_put(proto, UTSNAME_SYSNAME, host, "sysname", "Linux");
	utsname_put(proto, UTSNAME_VERSION, host, "version", NULL);
	utsname_put(proto, UTSNAME_RELEASE, host, "kernel", "5.8.0");
	utsname_put(proto, UTSNAME_MACHINE, host, "machine", NULL);
	proto_close(proto);
	proto_close(proto);
	packet_close(&perfetto->packets);
}

static void root_write(struct perfetto *perfetto)
{
	const struct track root = {.uuid = 0, .ranked = true};

	track_describe(&perfetto->packets, &root);
}

static void stats_write(struct perfetto *perfetto)
{
	struct proto *proto;

	if (!perfetto->finding.lost)
		return;
	proto = packet_open(&perfetto->packets, SEQUENCE_META, PACKET_NO_TIME);
	proto_open(proto, PACKET_TRACE_STATS);
	proto_open(proto, STATS_BUFFER);
	proto_uint(proto, BUFFER_PACKET_LOSS, perfetto->finding.lost);
	proto_close(proto);
	proto_close(proto);
	packet_close(&perfetto->packets);
}

/* ---- The timeline's sink ---- */

static void sink_thread(void *context, const struct thread_interval *interval)
{
	perfetto_syscall_thread(&((struct perfetto *)context)->syscall, interval);
}

static void sink_run(void *context, const struct run_interval *run)
{
	perfetto_erlang_run(&((struct perfetto *)context)->erlang, run);
}

static void sink_call(void *context, const struct call_interval *call)
{
	perfetto_erlang_call(&((struct perfetto *)context)->erlang, call);
}

static void sink_gc(void *context, const struct gc_interval *gc)
{
	perfetto_erlang_gc(&((struct perfetto *)context)->erlang, gc);
}

static void sink_message(void *context, const struct message *message)
{
	perfetto_erlang_message(&((struct perfetto *)context)->erlang, message);
}

static void sink_queue(void *context, const struct queue_sample *sample)
{
	perfetto_erlang_queue(&((struct perfetto *)context)->erlang, sample);
}

static void sink_instant(void *context, const struct instant *instant)
{
	perfetto_erlang_instant(&((struct perfetto *)context)->erlang, instant);
}

static void sink_stall(void *context, const struct stall *stall)
{
	perfetto_finding_stall(&((struct perfetto *)context)->finding, stall);
}

static void sink_loss(void *context, const struct loss *loss)
{
	struct perfetto *perfetto = context;

	perfetto_sched_loss(&perfetto->sched, loss);
	perfetto_finding_loss(&perfetto->finding, loss);
}

/* ---- The whole ---- */

static int perfetto_error(const struct perfetto *perfetto)
{
	const int errors[] = {perfetto->packets.proto.error, perfetto->packets.interned.error,
			      perfetto->sched.error,	     perfetto->erlang.error,
			      perfetto->socket.error,	     perfetto->syscall.error,
			      perfetto->finding.error};

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i])
			return errors[i];
	return 0;
}

static int perfetto_feed(struct perfetto *perfetto, struct timeline *timeline)
{
	struct event event;
	int error;

	while ((error = trace_next(perfetto->trace, &event)) > 0) {
		if (event.ts_ns > perfetto->end_ns)
			perfetto->end_ns = event.ts_ns;
		perfetto_erlang_event(&perfetto->erlang, &event);
		perfetto_sched_event(&perfetto->sched, &event);
		perfetto_socket_event(&perfetto->socket, &event);
		perfetto_syscall_event(&perfetto->syscall, &event);
		error = timeline_feed(timeline, &event);
		if (!error)
			error = perfetto_error(perfetto);
		if (error)
			return error;
	}
	if (error)
		return error;
	perfetto_erlang_flush(&perfetto->erlang);
	error = timeline_finish(timeline);
	if (error)
		return error;
	perfetto_erlang_end(&perfetto->erlang, perfetto->end_ns);
	perfetto_socket_end(&perfetto->socket, perfetto->end_ns);
	perfetto_sched_end(&perfetto->sched);
	stats_write(perfetto);
	clock_write(perfetto, perfetto->end_ns);
	return perfetto_error(perfetto);
}

int perfetto_write(struct trace *trace, FILE *out)
{
	struct perfetto perfetto = {.trace = trace, .end_ns = trace_end_ns(trace)};
	const struct timeline_sink sink = {
		.context = &perfetto,
		.thread = sink_thread,
		.run = sink_run,
		.call = sink_call,
		.gc = sink_gc,
		.message = sink_message,
		.queue = sink_queue,
		.instant = sink_instant,
		.stall = sink_stall,
		.loss = sink_loss,
	};
	struct timeline *timeline;
	int error;

	trace_rewind(trace);
	packets_init(&perfetto.packets, out);
	timeline = timeline_new(trace, &sink, MIN_STALL_NS);
	if (!timeline)
		return -errno;
	clock_write(&perfetto, trace_start_ns(trace));
	system_write(&perfetto);
	root_write(&perfetto);
	perfetto_sched_begin(&perfetto.sched, &perfetto.packets, trace);
	perfetto_erlang_begin(&perfetto.erlang, &perfetto.packets, trace, &perfetto.sched);
	perfetto_socket_begin(&perfetto.socket, &perfetto.packets, trace);
	perfetto_syscall_begin(&perfetto.syscall, &perfetto.erlang);
	perfetto_finding_begin(&perfetto.finding, &perfetto.erlang);
	error = perfetto_feed(&perfetto, timeline);
	if (!error)
		error = packets_flush(&perfetto.packets);
	if (!error && fflush(out))
		error = -errno;
	perfetto_finding_free(&perfetto.finding);
	perfetto_syscall_free(&perfetto.syscall);
	perfetto_socket_free(&perfetto.socket);
	perfetto_erlang_free(&perfetto.erlang);
	perfetto_sched_free(&perfetto.sched);
	packets_free(&perfetto.packets);
	timeline_free(timeline);
	return error;
}
