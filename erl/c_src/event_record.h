/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_EVENT_RECORD_H
#define BEAMWEAVE_EVENT_RECORD_H

/* Between the parts of the tracer: one trace event of the VM as one record of the ring. */

#include <stdint.h>

#include <erl_nif.h>

#include "session.h"

/* The arguments of a tracer's trace/5. */
enum event_argument { TAG, STATE, TRACEE, MESSAGE, OPTIONS };

/* What every event's function needs. */
struct event {
	ErlNifEnv *env;
	const ERL_NIF_TERM *argv;
	uint64_t now_ns;
	struct session_thread *thread;
	struct session *session;
	struct ring *ring;
	struct ring_writer *writer;
};

/* Make the atoms known that events are made of. */
void event_record_init(ErlNifEnv *env);

/* Write the record of an event of this enum ring_kind, or count it as discarded. */
void event_record(const struct event *event, uint8_t kind);

#endif
