/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_EVENT_H
#define BEAMWEAVE_EVENT_H

/*
 * The VM's trace events as records of the ring: the two functions of the erl_tracer behaviour.
 * The arguments of each event are those of erl_trace.c. No system call, no lock, no allocation.
 */

#include <erl_nif.h>

/* Make the atoms of all events known. Called once, at load. */
void event_init(ErlNifEnv *env);

/* erl_tracer: may this event be traced? The VM asks before most events. */
ERL_NIF_TERM event_enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);

/* erl_tracer: an event. What it returns is ignored. */
ERL_NIF_TERM event_trace(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);

#endif
