/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto_packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>
#include <xxhash.h>

#include "perfetto_fields.h"

/* Past this many names a sequence starts over: a recording may have millions of process names. */
#define INTERN_LIMIT 32768u

enum sequence_flag { SEQUENCE_CLEARED = 1, SEQUENCE_NEEDS_STATE = 2 };

struct intern {
	uint64_t iid; /* from 1 */
	UT_hash_handle hh;
	char text[];
};

uint64_t track_uuid(enum track_kind kind, uint64_t key)
{
	const uint64_t of[2] = {kind, key};
	uint64_t uuid = XXH3_64bits(of, sizeof(of));

	return uuid ? uuid : 1; /* 0 is the root */
}

void packets_init(struct packets *packets, FILE *out)
{
	memset(packets, 0, sizeof(*packets));
	proto_init(&packets->proto, out);
	proto_init(&packets->interned, NULL);
}

static void intern_free(struct intern **table)
{
	struct intern *entry, *next;

	HASH_ITER (hh, *table, entry, next) {
		HASH_DEL(*table, entry);
		free(entry);
	}
}

static void sequence_forget(struct packets *packets, enum packet_sequence sequence)
{
	intern_free(&packets->names[sequence]);
	intern_free(&packets->categories[sequence]);
	intern_free(&packets->notes[sequence]);
}

void packets_free(struct packets *packets)
{
	for (unsigned int i = 0; i < SEQUENCES; i++)
		sequence_forget(packets, i);
	proto_free(&packets->proto);
	proto_free(&packets->interned);
}

int packets_flush(struct packets *packets)
{
	if (packets->interned.error && !packets->proto.error)
		packets->proto.error = packets->interned.error;
	return proto_flush(&packets->proto);
}

/* The iid of a text; a new one goes into the InternedData of this packet. 0 with an error. */
static uint64_t intern_text(struct packets *packets, struct intern **table, uint32_t field,
			    const char *text)
{
	size_t bytes = strlen(text);
	struct intern *entry;

	HASH_FIND(hh, *table, text, bytes, entry);
	if (entry)
		return entry->iid;
	entry = malloc(sizeof(*entry) + bytes + 1);
	if (!entry) {
		packets->interned.error = -ENOMEM;
		return 0;
	}
	memcpy(entry->text, text, bytes + 1);
	entry->iid = (uint64_t)HASH_COUNT(*table) + 1;
	HASH_ADD_KEYPTR(hh, *table, entry->text, bytes, entry);
	proto_open(&packets->interned, field);
	proto_uint(&packets->interned, INTERNED_IID, entry->iid);
	proto_bytes(&packets->interned, INTERNED_NAME, text, bytes);
	proto_close(&packets->interned);
	return entry->iid;
}

static void sequence_begin(struct packets *packets, enum packet_sequence sequence)
{
	struct proto *proto = &packets->proto;

	if (packets->begun[sequence] && HASH_COUNT(packets->names[sequence]) < INTERN_LIMIT)
		return;
	sequence_forget(packets, sequence);
	packets->begun[sequence] = true;
	proto_open(proto, TRACE_PACKET);
	proto_uint(proto, PACKET_SEQUENCE_ID, sequence);
	proto_uint(proto, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
	proto_open(proto, PACKET_DEFAULTS);
	proto_uint(proto, DEFAULTS_CLOCK_ID, CLOCK_ID_MONOTONIC);
	proto_close(proto);
	proto_close(proto);
}

struct proto *packet_open(struct packets *packets, enum packet_sequence sequence, uint64_t ts_ns)
{
	struct proto *proto = &packets->proto;

	sequence_begin(packets, sequence);
	proto_open(proto, TRACE_PACKET);
	if (ts_ns != PACKET_NO_TIME)
		proto_uint(proto, PACKET_TIMESTAMP, ts_ns);
	proto_uint(proto, PACKET_SEQUENCE_ID, sequence);
	proto_uint(proto, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_STATE);
	return proto;
}

void packet_close(struct packets *packets)
{
	proto_close(&packets->proto);
}

void packet_event_open(struct packets *packets, enum packet_sequence sequence, uint64_t ts_ns,
		       enum packet_mark type, uint64_t track, const char *category,
		       const char *name)
{
	struct proto *proto = packet_open(packets, sequence, ts_ns);

	packets->sequence = sequence;
	proto_clear(&packets->interned);
	proto_open(proto, PACKET_TRACK_EVENT);
	proto_uint(proto, TRACK_EVENT_TYPE, type);
	proto_uint(proto, TRACK_EVENT_TRACK_UUID, track);
	if (category)
		proto_uint(proto, TRACK_EVENT_CATEGORY_IIDS,
			   intern_text(packets, &packets->categories[sequence], INTERNED_CATEGORIES,
				       category));
	if (name)
		proto_uint(proto, TRACK_EVENT_NAME_IID,
			   intern_text(packets, &packets->names[sequence], INTERNED_EVENT_NAMES,
				       name));
}

void packet_event_close(struct packets *packets)
{
	struct proto *proto = &packets->proto;

	proto_close(proto);
	if (packets->interned.used)
		proto_bytes(proto, PACKET_INTERNED_DATA, packets->interned.data,
			    packets->interned.used);
	packet_close(packets);
}

void packet_flow(struct packets *packets, uint64_t id, bool terminate)
{
	proto_fixed64(&packets->proto,
		      terminate ? TRACK_EVENT_TERMINATING_FLOW_IDS : TRACK_EVENT_FLOW_IDS, id);
}

void packet_value(struct packets *packets, int64_t value)
{
	proto_uint(&packets->proto, TRACK_EVENT_COUNTER_VALUE, (uint64_t)value);
}

static struct proto *packet_note_open(struct packets *packets, const char *key)
{
	struct proto *proto = &packets->proto;

	proto_open(proto, TRACK_EVENT_DEBUG_ANNOTATIONS);
	proto_uint(proto, ANNOTATION_NAME_IID,
		   intern_text(packets, &packets->notes[packets->sequence],
			       INTERNED_ANNOTATION_NAMES, key));
	return proto;
}

void packet_note_uint(struct packets *packets, const char *key, uint64_t value)
{
	proto_uint(packet_note_open(packets, key), ANNOTATION_UINT, value);
	proto_close(&packets->proto);
}

void packet_note_int(struct packets *packets, const char *key, int64_t value)
{
	proto_uint(packet_note_open(packets, key), ANNOTATION_INT, (uint64_t)value);
	proto_close(&packets->proto);
}

void packet_note_bool(struct packets *packets, const char *key, bool value)
{
	proto_uint(packet_note_open(packets, key), ANNOTATION_BOOL, value);
	proto_close(&packets->proto);
}

void packet_note_text(struct packets *packets, const char *key, const char *text)
{
	proto_text(packet_note_open(packets, key), ANNOTATION_STRING, text);
	proto_close(&packets->proto);
}

void track_describe(struct packets *packets, const struct track *track)
{
	struct proto *proto = packet_open(packets, SEQUENCE_META, PACKET_NO_TIME);

	proto_open(proto, PACKET_TRACK_DESCRIPTOR);
	proto_uint(proto, TRACK_UUID, track->uuid);
	if (track->parent)
		proto_uint(proto, TRACK_PARENT_UUID, track->parent);
	if (track->name && !track->tid)
		proto_text(proto, TRACK_NAME, track->name);
	if (track->description)
		proto_text(proto, TRACK_DESCRIPTION, track->description);
	if (track->tid) {
		proto_open(proto, TRACK_THREAD_DESCRIPTOR);
		proto_uint(proto, THREAD_PID, (uint64_t)(int64_t)track->pid);
		proto_uint(proto, THREAD_TID, (uint64_t)(int64_t)track->tid);
		if (track->name)
			proto_text(proto, THREAD_NAME, track->name);
		proto_close(proto);
	}
	if (track->unit) {
		proto_open(proto, TRACK_COUNTER);
		proto_uint(proto, COUNTER_UNIT, track->unit);
		proto_close(proto);
	}
	if (track->ranked)
		proto_uint(proto, TRACK_CHILD_ORDERING, ORDER_EXPLICIT);
	if (track->rank)
		proto_uint(proto, TRACK_RANK, (uint64_t)(int64_t)track->rank);
	if (!track->uuid)
		proto_uint(proto, TRACK_THREAD_ORDERING, ORDER_THREADS_EXPLICIT);
	else if (!track->tid)
		proto_uint(proto, TRACK_MERGE, track->merge ? MERGE_BY_NAME : MERGE_NONE);
	proto_close(proto);
	packet_close(packets);
}
