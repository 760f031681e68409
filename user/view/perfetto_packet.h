/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PERFETTO_PACKET_H
#define BEAMWEAVE_PERFETTO_PACKET_H

/*
 * Packets of a Perfetto trace: TrackEvents with interned names, track descriptors, and the frames that
 * other packets stand in. Times are CLOCK_MONOTONIC nanoseconds; each sequence says so once.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto.h"

/* Clock numbers of Perfetto. */
enum perfetto_clock { CLOCK_ID_REALTIME = 1, CLOCK_ID_MONOTONIC = 3, CLOCK_ID_BOOTTIME = 6 };

/* trusted_packet_sequence_id: interned names belong to one sequence. */
enum packet_sequence {
	SEQUENCE_META = 1, /* clocks, system, descriptors, statistics: nothing interned */
	SEQUENCE_KERNEL = 2, /* ftrace bundles and process trees */
	SEQUENCE_ERLANG = 3,
	SEQUENCE_THREADS = 4,
	SEQUENCE_SOCKETS = 5,
	SEQUENCE_FINDINGS = 6, /* stalls and losses */
};
#define SEQUENCES 7

/* What a track is of: with a key of its kind it makes the track's uuid. */
enum track_kind {
	TRACK_GROUP = 1, /* key: enum track_group */
	TRACK_PROCESS = 2, /* word */
	TRACK_CALLS = 3, /* word */
	TRACK_THREAD = 4, /* tid */
	TRACK_SYSCALLS = 5, /* tid */
	TRACK_SOCKET = 6, /* number of the socket in this export, and so the three below */
	TRACK_SOCKET_SENT = 7,
	TRACK_SOCKET_RECEIVED = 8,
	TRACK_SOCKET_QUEUE = 9,
	TRACK_STALL = 10, /* tid << 8 | lane */
	TRACK_LOSS = 11, /* kernel << 40 | ring << 8 | lane */
	TRACK_WAITS = 12, /* tid */
	TRACK_MAILBOX = 13, /* word */
};

/* In the order in which the viewer shows them. */
enum track_group {
	GROUP_STALLS = 1,
	GROUP_PROCESSES = 2,
	GROUP_PORTS = 3,
	GROUP_SOCKETS = 4,
	GROUP_LOSSES = 5,
};

uint64_t track_uuid(enum track_kind kind, uint64_t key);

enum packet_mark { MARK_BEGIN = 1, MARK_END = 2, MARK_INSTANT = 3, MARK_COUNTER = 4 };

struct intern;

struct packets {
	struct proto proto;
	struct proto interned; /* InternedData of the packet that is being written */
	struct intern *names[SEQUENCES], *categories[SEQUENCES], *notes[SEQUENCES];
	bool begun[SEQUENCES];
	enum packet_sequence sequence; /* of the event that is being written */
};

void packets_init(struct packets *packets, FILE *out);
void packets_free(struct packets *packets);
int packets_flush(struct packets *packets);

#define PACKET_NO_TIME UINT64_MAX

/* Any packet: the caller encodes its data in between. */
struct proto *packet_open(struct packets *packets, enum packet_sequence sequence, uint64_t ts_ns);
void packet_close(struct packets *packets);

/*
 * A TrackEvent; notes and flows stand between its begin and its end. `category` and `name` may be NULL
 * (both for MARK_END). A BEGIN and its END may be written at the END's time: readers sort.
 */
void packet_event_open(struct packets *packets, enum packet_sequence sequence, uint64_t ts_ns,
		       enum packet_mark type, uint64_t track, const char *category,
		       const char *name);
void packet_flow(struct packets *packets, uint64_t id, bool terminate);
void packet_value(struct packets *packets, int64_t value);
void packet_note_uint(struct packets *packets, const char *key, uint64_t value);
void packet_note_int(struct packets *packets, const char *key, int64_t value);
void packet_note_bool(struct packets *packets, const char *key, bool value);
void packet_note_text(struct packets *packets, const char *key, const char *text);
void packet_event_close(struct packets *packets);

enum counter_unit { UNIT_NONE = 0, UNIT_COUNT = 2, UNIT_BYTES = 3 };

/* What the viewer is told of a track. Zero and NULL are left out. */
struct track {
	uint64_t uuid, parent;
	const char *name, *description;
	int32_t rank; /* among its siblings */
	enum counter_unit unit; /* of a counter track */
	bool merge; /* siblings of the same name are shown as one */
	bool ranked; /* its children are ordered by rank */
	int32_t pid, tid; /* of a thread track (both) or a process track (pid) */
};
void track_describe(struct packets *packets, const struct track *track);

#endif
