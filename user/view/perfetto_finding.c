/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto_finding.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "sanitize.h"

#define LANES	   16u
#define NAME_BYTES 128

struct finding_lane {
	uint64_t uuid;
	uint64_t end_ns; /* of the newest slice */
	UT_hash_handle hh;
};

static void group_describe(struct packets *packets, enum track_group group, const char *name)
{
	const struct track track = {
		.uuid = track_uuid(TRACK_GROUP, group),
		.name = name,
		.rank = (int32_t)group,
		.ranked = true,
	};

	track_describe(packets, &track);
}

/*
 * Slices of one track must not cross. Those that would go to a further track of the same name: the
 * viewer shows these as one. Returns the uuid, 0 without memory.
 */
static uint64_t lane_find(struct perfetto_finding *finding, enum track_kind kind, uint64_t key,
			  enum track_group group, const char *name, int32_t rank, uint64_t start_ns,
			  uint64_t end_ns)
{
	struct finding_lane *lane = NULL;

	for (uint32_t i = 0; i < LANES; i++) {
		uint64_t uuid = track_uuid(kind, key << 8 | i);

		HASH_FIND(hh, finding->lanes, &uuid, sizeof(uuid), lane);
		if (!lane) {
			const struct track track = {
				.uuid = uuid,
				.parent = track_uuid(TRACK_GROUP, group),
				.name = name,
				.rank = rank,
				.merge = true,
			};

			lane = calloc(1, sizeof(*lane));
			if (!lane) {
				finding->error = -ENOMEM;
				return 0;
			}
			lane->uuid = uuid;
			HASH_ADD(hh, finding->lanes, uuid, sizeof(lane->uuid), lane);
			track_describe(finding->erlang->packets, &track);
			break;
		}
		if (lane->end_ns <= start_ns)
			break;
	}
	if (lane->end_ns < end_ns)
		lane->end_ns = end_ns;
	return lane->uuid;
}

static void stall_notes(struct perfetto_finding *finding, const struct stall *stall)
{
	struct perfetto_erlang *erlang = finding->erlang;
	struct packets *packets = erlang->packets;
	char comm[sizeof(stall->by_comm) + 1];

	if (stall->process)
		perfetto_note_process(erlang, "process", stall->process, stall->start_ns);
	perfetto_note_mfa(erlang, "function", stall->mfa);
	if (stall->by_tid > 0) {
		sanitize_copy(comm, sizeof(comm), stall->by_comm,
			      strnlen(stall->by_comm, sizeof(stall->by_comm)));
		packet_note_text(packets, "by", comm);
		packet_note_int(packets, "by tid", stall->by_tid);
		packet_note_int(packets, "by pid", stall->by_tgid);
		if (stall->by_count)
			packet_note_uint(packets, "by ns", stall->by_ns);
	}
	if (stall->syscall >= 0) {
		packet_note_int(packets, "system call", stall->syscall);
		packet_note_uint(packets, "first argument", stall->syscall_arg);
	}
	if (stall->evidence)
		packet_note_text(packets, "evidence", stall->evidence);
	packet_note_bool(packets, "certain", stall->certain);
	packet_note_int(packets, "tid", stall->tid);
}

void perfetto_finding_stall(struct perfetto_finding *finding, const struct stall *stall)
{
	struct packets *packets = finding->erlang->packets;
	char name[NAME_BYTES];
	uint64_t track;

	/* what the recording itself did is nothing to look into */
	if (trace_process_own(finding->erlang->trace, stall->process))
		return;
	if (!finding->stalls)
		group_describe(packets, GROUP_STALLS, "Stalls");
	finding->stalls = true;
	perfetto_thread_label(name, sizeof(name), stall->role, stall->number, stall->tid);
	track = lane_find(finding, TRACK_STALL, (uint32_t)stall->tid, GROUP_STALLS, name,
			  (int32_t)(stall->role * 1000 + stall->number % 1000), stall->start_ns,
			  stall->end_ns);
	if (!track)
		return;
	packet_event_open(packets, SEQUENCE_FINDINGS, stall->start_ns, MARK_BEGIN, track, "stall",
			  stall_cause_name(stall->cause));
	stall_notes(finding, stall);
	packet_event_close(packets);
	packet_event_open(packets, SEQUENCE_FINDINGS, stall->end_ns, MARK_END, track, NULL, NULL);
	packet_event_close(packets);
}

static void loss_notes(struct packets *packets, const struct loss *loss)
{
	packet_note_text(packets, "why", loss->why);
	packet_note_uint(packets, "count", loss->count);
	for (uint32_t i = 0; i < RING_KINDS; i++) {
		const char *kind = event_kind_name(loss->kernel ? EVENT_KERNEL + i : i);

		if (loss->counts[i])
			packet_note_uint(packets, kind ? kind : "unknown kind", loss->counts[i]);
	}
}

void perfetto_finding_loss(struct perfetto_finding *finding, const struct loss *loss)
{
	struct packets *packets = finding->erlang->packets;
	const struct trace_thread *threads;
	size_t count = trace_threads(finding->erlang->trace, &threads);
	uint64_t start_ns = trace_start_ns(finding->erlang->trace);
	uint64_t end_ns = trace_end_ns(finding->erlang->trace);
	/* Times that no clock of the recording showed would stretch the whole picture. */
	uint64_t from_ns = loss->from_ns > start_ns ? loss->from_ns : start_ns;
	uint64_t to_ns = loss->to_ns < end_ns ? loss->to_ns : end_ns;
	char name[NAME_BYTES], event[NAME_BYTES];
	uint64_t track;

	if (from_ns > end_ns)
		from_ns = end_ns > start_ns ? end_ns : start_ns;
	if (to_ns < from_ns)
		to_ns = from_ns;
	if (!finding->losses)
		group_describe(packets, GROUP_LOSSES, "Lost events");
	finding->losses = true;
	finding->lost += loss->count;
	snprintf(name, sizeof(name), loss->kernel ? "kernel, CPU %u" : "VM, ring %u", loss->ring);
	if (!loss->kernel && loss->ring == LOSS_UNCLAIMED)
		snprintf(name, sizeof(name), "VM, threads without a ring");
	for (size_t i = 0; !loss->kernel && i < count; i++)
		if (threads[i].ring == loss->ring)
			perfetto_thread_label(name, sizeof(name), threads[i].role,
					      threads[i].number, threads[i].tid);
	track = lane_find(finding, TRACK_LOSS, (uint64_t)loss->kernel << 40 | loss->ring,
			  GROUP_LOSSES, name, loss->ring < 10000 ? (int32_t)loss->ring : 10000,
			  from_ns, to_ns);
	if (!track)
		return;
	snprintf(event, sizeof(event), "%" PRIu64 " events lost", loss->count);
	packet_event_open(packets, SEQUENCE_FINDINGS, from_ns, MARK_BEGIN, track, "loss", event);
	loss_notes(packets, loss);
	packet_event_close(packets);
	packet_event_open(packets, SEQUENCE_FINDINGS, to_ns, MARK_END, track, NULL, NULL);
	packet_event_close(packets);
}

void perfetto_finding_begin(struct perfetto_finding *finding, struct perfetto_erlang *erlang)
{
	memset(finding, 0, sizeof(*finding));
	finding->erlang = erlang;
}

void perfetto_finding_free(struct perfetto_finding *finding)
{
	struct finding_lane *lane, *next;

	HASH_ITER (hh, finding->lanes, lane, next) {
		HASH_DEL(finding->lanes, lane);
		free(lane);
	}
}
