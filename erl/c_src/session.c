/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <errno.h>
#include <string.h>

#include "system.h"
#include "vm.h"

struct session sessions[SESSION_MAX];
bool session_fence;
_Thread_local struct session_thread session_self;

static struct session_thread *_Atomic threads[SESSION_THREAD_MAX];
static _Atomic uint32_t thread_count;

/* Opening and closing are calls of controllers, never of callbacks: a flag is enough. */
static _Atomic uint32_t slot_taken[SESSION_MAX];
static _Atomic uint64_t generation;

void session_init(void)
{
	/* relaxed: loading happens before any callback */
	session_fence = system_barrier_register() != 0;
	atomic_store_explicit(&generation, system_clock_ns() & 0xffffff, memory_order_relaxed);
}

bool session_list(struct session_thread *thread)
{
	uint32_t index;

	/* relaxed, here and below: hands out places; the store of the place publishes */
	if (atomic_load_explicit(&thread_count, memory_order_relaxed) >= SESSION_THREAD_MAX)
		return false;
	index = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed);
	if (index >= SESSION_THREAD_MAX)
		return false;
	thread->listed = true;
	/* seq_cst: before the thread's first busy word, which a closer must not miss */
	atomic_store_explicit(&threads[index], thread, memory_order_seq_cst);
	return true;
}

static enum ring_role thread_role(void)
{
	switch (enif_thread_type()) {
	case ERL_NIF_THR_NORMAL_SCHEDULER:
		return RING_ROLE_NORMAL;
	case ERL_NIF_THR_DIRTY_CPU_SCHEDULER:
		return RING_ROLE_DIRTY_CPU;
	case ERL_NIF_THR_DIRTY_IO_SCHEDULER:
		return RING_ROLE_DIRTY_IO;
	default:
		return RING_ROLE_OTHER;
	}
}

struct ring_writer *session_claim(struct session_thread *thread, struct session *session,
				  ErlNifEnv *env, uint64_t tracee)
{
	/* relaxed: it was entered, so its number stays */
	uint64_t state = atomic_load_explicit(&session->state, memory_order_relaxed);
	uint32_t slot = (uint32_t)(state % SESSION_MAX);
	struct ring_writer *writer = &thread->place[slot].writer;
	enum ring_role role = thread_role();
	uint64_t esdp = 0;
	uint32_t number = 0;

	if (env)
		vm_scheduler(env, tracee, &esdp, &number);
	memset(writer, 0, sizeof(*writer));
	thread->dirty = role == RING_ROLE_DIRTY_CPU || role == RING_ROLE_DIRTY_IO;
	thread->place[slot].claimed =
		!ring_writer_claim(writer, &session->ring, system_tid(), role, number, esdp);
	thread->place[slot].unidentified = thread->place[slot].claimed && !esdp &&
					   role == RING_ROLE_NORMAL;
	thread->place[slot].state = state;
	return thread->place[slot].claimed ? writer : NULL;
}

void session_identify(struct session_thread *thread, uint64_t state, ErlNifEnv *env,
		      uint64_t tracee)
{
	uint64_t esdp = 0;
	uint32_t number = 0;

	vm_scheduler(env, tracee, &esdp, &number);
	if (esdp)
		session_set_scheduler(thread, state, esdp, number);
}

void session_set_scheduler(struct session_thread *thread, uint64_t state, uint64_t esdp,
			   uint32_t number)
{
	struct ring_thread *entry = thread->place[state % SESSION_MAX].writer.thread;

	entry->number = number;
	/* release: a reader that sees the address sees the number */
	__atomic_store_n(&entry->esdp, esdp, __ATOMIC_RELEASE);
	thread->place[state % SESSION_MAX].unidentified = false;
}

static int slot_take(uint32_t *slot)
{
	uint32_t i, expected;

	for (i = 0; i < SESSION_MAX; i++) {
		expected = 0;
		/* acquire: pairs with the release of the close that freed the slot */
		if (atomic_compare_exchange_strong_explicit(&slot_taken[i], &expected, 1,
							    memory_order_acquire,
							    memory_order_relaxed)) {
			*slot = i;
			return 0;
		}
	}
	return -EBUSY;
}

int session_open(const char *path, const struct session_options *options, uint64_t *state)
{
	struct session *session;
	uint64_t bytes = 0;
	void *map = NULL;
	uint32_t slot, room;
	int rc;

	rc = slot_take(&slot);
	if (rc)
		return rc;
	session = &sessions[slot];
	rc = system_map(path, &map, &bytes);
	if (rc)
		goto release;
	rc = ring_open(&session->ring, map, bytes);
	if (rc)
		goto unmap;
	session->options = *options;
	room = (session->ring.subbuf_bytes - (uint32_t)sizeof(struct ring_subbuf)) / 2;
	if (session->options.capture_bytes > room)
		session->options.capture_bytes = room;
	session->ring.header->target_pid = system_pid();
	/* relaxed, here and below: published with the number */
	atomic_store_explicit(&session->live, SESSION_LIVE, memory_order_relaxed);
	atomic_store_explicit(&session->counting, false, memory_order_relaxed);
	atomic_store_explicit(&session->port_lag_ns, 0, memory_order_relaxed);
	*state = (atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed) + 1) *
			 SESSION_MAX +
		 slot;
	/* release: a callback that sees the number sees the ring */
	atomic_store_explicit(&session->state, *state, memory_order_release);
	return 0;

unmap:
	system_unmap(map, bytes);
release:
	atomic_store_explicit(&slot_taken[slot], 0, memory_order_release);
	return rc;
}

static bool slot_busy(uint32_t slot)
{
	/* seq_cst: after the number was cleared */
	uint32_t i, count = atomic_load_explicit(&thread_count, memory_order_seq_cst);
	struct session_thread *thread;

	for (i = 0; i < count && i < SESSION_THREAD_MAX; i++) {
		/* seq_cst: pairs with session_list(); one not listed yet will find the number cleared */
		thread = atomic_load_explicit(&threads[i], memory_order_seq_cst);
		/* acquire: what the callback did to the ring is done */
		if (thread && atomic_load_explicit(&thread->busy, memory_order_acquire) == slot + 1)
			return true;
	}
	return false;
}

int session_close(uint64_t state)
{
	uint32_t slot = (uint32_t)(state % SESSION_MAX);
	struct session *session = &sessions[slot];
	/* relaxed: opening and closing are one controller's */
	uint64_t open = atomic_load_explicit(&session->state, memory_order_relaxed);

	/* A close that had to be put off finds the number cleared and `live` still at over. */
	if (open != state &&
	    (open || !atomic_load_explicit(&slot_taken[slot], memory_order_relaxed)))
		return -ENOENT;
	atomic_store_explicit(&session->live, SESSION_OVER, memory_order_relaxed);
	/* seq_cst: before the busy words are read */
	atomic_store_explicit(&session->state, 0, memory_order_seq_cst);
	if (session_fence)
		atomic_thread_fence(memory_order_seq_cst);
	else if (system_barrier())
		return -EAGAIN;
	if (slot_busy(slot))
		return -EAGAIN;
	system_unmap(session->ring.map, session->ring.bytes);
	memset(&session->ring, 0, sizeof(session->ring));
	/* release: the slot's next owner sees it empty */
	atomic_store_explicit(&slot_taken[slot], 0, memory_order_release);
	return 0;
}

enum session_live session_look(struct session *session, uint64_t now_ns, uint32_t *reason)
{
	const struct ring_control *control = session->ring.control;
	/* relaxed, here and below: each look is a look at one word, and a later one corrects it */
	uint32_t run = atomic_load_explicit(&control->run, memory_order_relaxed);
	enum session_live live = SESSION_OVER;

	if (run == RING_STOPPED) {
		/* A writer that found all credits spent has said so. */
		*reason = atomic_load_explicit(&control->end_reason, memory_order_relaxed);
		if (*reason != RING_END_EVENTS)
			*reason = RING_END_ASKED;
	} else if (now_ns >= atomic_load_explicit(&control->stop_at_ns, memory_order_relaxed)) {
		*reason = RING_END_TIME;
	} else if (now_ns >= atomic_load_explicit(&control->lease_until_ns, memory_order_relaxed)) {
		*reason = RING_END_LEASE;
	} else {
		live = run == RING_PAUSED ? SESSION_PAUSED : SESSION_LIVE;
	}
	/* relaxed: a hint for enabled(); what is over stays over */
	if (atomic_load_explicit(&session->live, memory_order_relaxed) != SESSION_OVER)
		atomic_store_explicit(&session->live, live, memory_order_relaxed);
	return live;
}

int session_create(const char *path, const struct ring_config *config, uint64_t lease_ns,
		   uint64_t *bytes)
{
	uint64_t now_ns = system_clock_ns();
	struct ring ring;
	void *map = NULL;
	int rc;

	*bytes = ring_file_bytes(config);
	if (!*bytes)
		return -EINVAL;
	rc = system_create(path, *bytes, &map);
	if (rc)
		return rc;
	rc = ring_create(&ring, map, *bytes, config, now_ns);
	if (rc)
		system_unlink(path);
	else /* release: a writer that finds the lease finds the ring made */
		atomic_store_explicit(&ring.control->lease_until_ns, now_ns + lease_ns,
				      memory_order_release);
	system_unmap(map, *bytes);
	return rc;
}
