/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include <string.h>

#include "event_record.h"
#include "session.h"
#include "system.h"
#include "term.h"
#include "vm.h"

/* A trace_status question looks at the clock once in so many. */
#define STATUS_TICKS 16

/* The VM's own atoms, which all trace tags are, have low numbers: one byte each. */
#define TAG_TABLE 4096

#define KIND_NONE 0xff

static uint8_t tag_kind[TAG_TABLE];
static ERL_NIF_TERM atom_trace, atom_discard, atom_remove, atom_ok, atom_trace_status;

static const struct {
	const char *name;
	uint8_t kind;
} tags[] = {
	{"call", RING_CALL},
	{"return_to", RING_RETURN_TO},
	{"return_from", RING_RETURN_FROM},
	{"exception_from", RING_EXCEPTION_FROM},
	{"send", RING_SEND},
	{"send_to_non_existing_process", RING_SEND_NOPROC},
	{"receive", RING_RECEIVE},
	{"in", RING_IN},
	{"out", RING_OUT},
	{"in_exiting", RING_IN_EXITING},
	{"out_exiting", RING_OUT_EXITING},
	{"out_exited", RING_OUT_EXITED},
	{"gc_minor_start", RING_GC_MINOR_START},
	{"gc_minor_end", RING_GC_MINOR_END},
	{"gc_major_start", RING_GC_MAJOR_START},
	{"gc_major_end", RING_GC_MAJOR_END},
	{"gc_max_heap_size", RING_GC_MAX_HEAP},
	{"spawn", RING_SPAWN},
	{"spawned", RING_SPAWNED},
	{"exit", RING_EXIT},
	{"link", RING_LINK},
	{"unlink", RING_UNLINK},
	{"getting_linked", RING_GETTING_LINKED},
	{"getting_unlinked", RING_GETTING_UNLINKED},
	{"register", RING_REGISTER},
	{"unregister", RING_UNREGISTER},
	{"open", RING_PORT_OPEN},
	{"closed", RING_PORT_CLOSED},
};

void event_init(ErlNifEnv *env)
{
	ERL_NIF_TERM atom;
	size_t i;

	memset(tag_kind, KIND_NONE, sizeof(tag_kind));
	for (i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		atom = enif_make_atom(env, tags[i].name);
		if (atom >> 6 < TAG_TABLE)
			tag_kind[atom >> 6] = tags[i].kind;
	}
	atom_trace = enif_make_atom(env, "trace");
	atom_discard = enif_make_atom(env, "discard");
	atom_remove = enif_make_atom(env, "remove");
	atom_ok = enif_make_atom(env, "ok");
	atom_trace_status = enif_make_atom(env, "trace_status");
	event_record_init(env);
}

static uint8_t event_kind(const ERL_NIF_TERM argv[])
{
	uint8_t kind = argv[TAG] >> 6 < TAG_TABLE ? tag_kind[argv[TAG] >> 6] : KIND_NONE;

	if (__builtin_expect(TERM_PORT(argv[TRACEE]), 0)) {
		if (kind == RING_IN)
			return RING_PORT_IN;
		if (kind == RING_OUT)
			return RING_PORT_OUT;
	}
	return kind == KIND_NONE ? RING_UNKNOWN : kind;
}

ERL_NIF_TERM event_trace(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	uint64_t state = (uint64_t)TERM_SMALL_VALUE(argv[STATE]);
	struct session_thread *thread = session_thread();
	struct event e = {.env = env, .argv = argv, .thread = thread};
	uint8_t kind = event_kind(argv);
	uint32_t reason;

	(void)argc;
	if (__builtin_expect(state == SESSION_LEARN, 0)) {
		if (kind == RING_CALL || kind == RING_RETURN_TO)
			vm_learn_event(env, kind, argv[TRACEE]);
		return atom_ok;
	}
	e.session = session_enter(thread, state);
	if (!e.session)
		return atom_ok;
	e.ring = &e.session->ring;
	e.now_ns = system_clock_ns();
	if (__builtin_expect(!ring_running(e.ring, e.now_ns), 0)) {
		session_look(e.session, e.now_ns, &reason);
		goto leave;
	}
	e.writer = session_writer(thread, e.session, state, env, argv[TRACEE]);
	if (__builtin_expect(!e.writer, 0))
		/* relaxed: a statistic, read by the reader at the end */
		atomic_fetch_add_explicit(&e.ring->control->unclaimed_discarded, 1,
					  memory_order_relaxed);
	/* relaxed: set before any tracee had this session */
	else if (__builtin_expect(atomic_load_explicit(&e.session->counting, memory_order_relaxed),
				  0))
		ring_discard(e.writer, e.now_ns, kind);
	else
		event_record(&e, kind);
leave:
	session_leave(thread);
	return atom_ok;
}

/*
 * Is the session over, though nothing was written lately that would have shown it? Not inlined: the
 * questions before calls, of which there are two a call, would save registers for it.
 */
static __attribute__((noinline)) void status_look(struct session_thread *thread, uint64_t state)
{
	struct session *session;
	uint32_t reason;

	if (thread->ticks++ % STATUS_TICKS)
		return;
	session = session_enter(thread, state);
	if (!session)
		return;
	session_look(session, system_clock_ns(), &reason);
	session_leave(thread);
}

ERL_NIF_TERM event_enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	uint64_t state = (uint64_t)TERM_SMALL_VALUE(argv[STATE]);
	struct session *session = &sessions[state % SESSION_MAX];
	bool status = argv[TAG] == atom_trace_status;
	uint32_t live = SESSION_OVER;

	(void)env;
	(void)argc;
	if (state == SESSION_LEARN)
		return atom_trace;
	if (status)
		status_look(session_thread(), state);
	/* relaxed: only the number is looked at, no memory behind it */
	if (atomic_load_explicit(&session->state, memory_order_relaxed) == state)
		live = atomic_load_explicit(&session->live, memory_order_relaxed);
	if (live == SESSION_LIVE)
		return atom_trace;
	if (!status)
		return atom_discard;
	/* Taking the tracer off is safe on normal schedulers only. */
	if (live == SESSION_OVER && enif_thread_type() == ERL_NIF_THR_NORMAL_SCHEDULER)
		return atom_remove;
	return atom_trace;
}
