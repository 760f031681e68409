/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SESSION_H
#define BEAMWEAVE_SESSION_H

/*
 * Sessions inside the VM: which rings are mapped, and each thread's place in them.
 *
 * A tracee's state is a small integer: generation * SESSION_MAX + slot. A process that slept
 * through the end of a session still carries its number; the generation keeps it out of the next
 * session that takes the slot.
 *
 * A callback enters a session, and between enter and leave its ring stays mapped: closing clears
 * the number, makes every thread see that (membarrier), and then waits for the busy words.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <erl_nif.h>

#include "ring.h"

#define SESSION_MAX	   4
#define SESSION_THREAD_MAX 4096

/* The state under which the known nest is traced that tells the frames' sizes (vm.h). */
#define SESSION_LEARN 0

enum session_live {
	SESSION_LIVE = 0,
	SESSION_PAUSED = 1,
	SESSION_OVER = 2, /* for good: tracers are to be removed */
};

enum session_capture { SESSION_CAPTURE_ARGS = 1, SESSION_CAPTURE_RETURN = 2 };

struct session_options {
	uint32_t capture; /* enum session_capture, or-ed */
	uint32_t capture_bytes;
	uint32_t capture_depth;
	bool redact;
};

struct session {
	_Atomic uint64_t state; /* as tracees carry it; 0: closed, nobody may enter */
	_Atomic uint32_t live; /* enum session_live, as last seen on the control page */
	/* A trace port records it: what comes to the NIF is only counted, as discarded. */
	_Atomic bool counting;
	_Atomic uint64_t port_lag_ns; /* of the newest event at the port, by its own time */
	struct session_options options;
	struct ring ring;
};

/* A thread of the VM. Lives in thread-local storage; scheduler threads never end. */
struct session_thread {
	_Atomic uint32_t busy; /* slot + 1 of the session that it is in, 0: none */
	bool listed; /* closing can see its busy word */
	bool dirty;
	uint32_t ticks;
	struct {
		uint64_t state; /* of the session that `writer` belongs to */
		bool claimed;
		bool unidentified; /* its entry lacks the scheduler's data */
		struct ring_writer writer;
	} place[SESSION_MAX];
};

extern struct session sessions[SESSION_MAX];
extern bool session_fence; /* no membarrier here: enter needs a fence of its own */
extern _Thread_local struct session_thread session_self;

/*
 * The calling thread. Where thread-local storage is dynamic its address is a call: the asm keeps
 * the compiler from making that call anew wherever the pointer is used.
 */
static inline struct session_thread *session_thread(void)
{
	struct session_thread *thread = &session_self;

	__asm__("" : "+r"(thread));
	return thread;
}

/* List a thread, once. Returns false when there are too many: it must stay out of sessions. */
bool session_list(struct session_thread *thread);

/* The open session with this number, which stays mapped until session_leave(), or NULL. */
static inline struct session *session_enter(struct session_thread *thread, uint64_t state)
{
	uint32_t slot = (uint32_t)(state % SESSION_MAX);
	struct session *session = &sessions[slot];

	if (__builtin_expect(!thread->listed, 0) && !session_list(thread))
		return NULL;
	/* relaxed: ordered before the load below by the closer's membarrier, or by the fence */
	atomic_store_explicit(&thread->busy, slot + 1, memory_order_relaxed);
	if (__builtin_expect(session_fence, 0))
		atomic_thread_fence(memory_order_seq_cst);
	else /* the compiler must not move them; the closer's membarrier is the processor's fence */
		atomic_signal_fence(memory_order_seq_cst);
	/* acquire: pairs with the release in session_open(), so that `ring` is whole */
	if (__builtin_expect(atomic_load_explicit(&session->state, memory_order_acquire) == state,
			     1))
		return session;
	atomic_store_explicit(&thread->busy, 0, memory_order_release);
	return NULL;
}

static inline void session_leave(struct session_thread *thread)
{
	/* release: all that the callback did to the ring comes before the closer's view of 0 */
	atomic_store_explicit(&thread->busy, 0, memory_order_release);
}

/* Slow path of session_writer(): claim this thread's entry. `env` may be NULL. */
struct ring_writer *session_claim(struct session_thread *thread, struct session *session,
				  ErlNifEnv *env, uint64_t tracee);

/* Find the scheduler's data that an event without a real environment could not show. */
void session_identify(struct session_thread *thread, uint64_t state, ErlNifEnv *env,
		      uint64_t tracee);

/* Enter the scheduler's data in this thread's entry, which is claimed. */
void session_set_scheduler(struct session_thread *thread, uint64_t state, uint64_t esdp,
			   uint32_t number);

/* This thread's writer in a session that it has entered, NULL when the thread table is full. */
static inline struct ring_writer *session_writer(struct session_thread *thread,
						 struct session *session, uint64_t state,
						 ErlNifEnv *env, uint64_t tracee)
{
	uint32_t slot = (uint32_t)(state % SESSION_MAX);

	if (__builtin_expect(thread->place[slot].state != state, 0))
		return session_claim(thread, session, env, tracee);
	if (__builtin_expect(thread->place[slot].unidentified, 0))
		session_identify(thread, state, env, tracee);
	return thread->place[slot].claimed ? &thread->place[slot].writer : NULL;
}

/* The same for a driver's callback, which has no environment. */
static inline struct ring_writer *session_writer_port(struct session_thread *thread,
						      struct session *session, uint64_t state)
{
	uint32_t slot = (uint32_t)(state % SESSION_MAX);

	if (__builtin_expect(thread->place[slot].state != state, 0))
		return session_claim(thread, session, NULL, 0);
	return thread->place[slot].claimed ? &thread->place[slot].writer : NULL;
}

/* Once, when the library is loaded: is there a membarrier? */
void session_init(void);

/* Map a session file. Returns 0 and the number, or -errno (EBUSY: all slots are taken). */
int session_open(const char *path, const struct session_options *options, uint64_t *state);

/*
 * Let nobody enter any more and unmap. Returns 0, -EAGAIN when a callback is still inside (call
 * again), -ENOENT.
 */
int session_close(uint64_t state);

/*
 * Look at the control page: has the session ended? Fills *reason (enum ring_end_reason) when it
 * has, and keeps `live` up to date. For threads that have entered it.
 */
enum session_live session_look(struct session *session, uint64_t now_ns, uint32_t *reason);

/* Make a session file with its ring. Returns 0 or -errno. */
int session_create(const char *path, const struct ring_config *config, uint64_t lease_ns,
		   uint64_t *bytes);

#endif
