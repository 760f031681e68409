/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto_syscall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "sanitize.h"
#include "syscalls.h"

struct syscall_thread {
	int32_t tid;
	bool described[2]; /* calls, waits */
	uint64_t end_ns[2]; /* of the newest slice: hostile records may overlap */
	UT_hash_handle hh;
};

enum syscall_track { SYSCALL_CALLS = 0, SYSCALL_WAITS = 1 };

static struct syscall_thread *thread_find(struct perfetto_syscall *syscall, int32_t tid)
{
	struct syscall_thread *thread;

	HASH_FIND(hh, syscall->threads, &tid, sizeof(tid), thread);
	if (thread)
		return thread;
	thread = calloc(1, sizeof(*thread));
	if (!thread) {
		syscall->error = -ENOMEM;
		return NULL;
	}
	thread->tid = tid;
	HASH_ADD(hh, syscall->threads, tid, sizeof(thread->tid), thread);
	return thread;
}

/* Open the BEGIN of a slice for its notes; returns its track, 0 when there is nothing to draw. */
static uint64_t slice_open(struct perfetto_syscall *syscall, int32_t tid, enum syscall_track which,
			   int number, uint64_t start_ns, uint64_t end_ns)
{
	static const enum track_kind kinds[] = {TRACK_SYSCALLS, TRACK_WAITS};
	static const char *const names[] = {"system calls", "waits in"};
	static const char *const categories[] = {"syscall", "wait"};
	struct packets *packets = syscall->erlang->packets;
	uint64_t track = track_uuid(kinds[which], (uint32_t)tid);
	struct syscall_thread *thread = tid > 0 ? thread_find(syscall, tid) : NULL;
	const char *known = syscall_name(number);
	char name[32];

	if (!thread || end_ns < start_ns || start_ns < thread->end_ns[which])
		return 0;
	thread->end_ns[which] = end_ns;
	if (!thread->described[which]) {
		const struct track described = {
			.uuid = track,
			.parent = perfetto_erlang_thread(syscall->erlang, tid),
			.name = names[which],
		};

		track_describe(packets, &described);
		thread->described[which] = true;
	}
	snprintf(name, sizeof(name), "system call %d", number);
	packet_event_open(packets, SEQUENCE_THREADS, start_ns, MARK_BEGIN, track, categories[which],
			  known ? known : name);
	return track;
}

static void slice_close(struct perfetto_syscall *syscall, uint64_t track, uint64_t end_ns)
{
	struct packets *packets = syscall->erlang->packets;

	packet_event_close(packets);
	packet_event_open(packets, SEQUENCE_THREADS, end_ns, MARK_END, track, NULL, NULL);
	packet_event_close(packets);
}

void perfetto_syscall_event(struct perfetto_syscall *syscall, const struct event *event)
{
	const struct probe_syscall *record = event->syscall;
	uint64_t track;

	if (event->kind != EVENT_KERNEL + PROBE_SYSCALL)
		return;
	track = slice_open(syscall, record->tid, SYSCALL_CALLS, record->number, record->enter_ns,
			   event->ts_ns);
	if (!track)
		return;
	packet_note_int(syscall->erlang->packets, "result", record->result);
	packet_note_uint(syscall->erlang->packets, "first argument", record->args[0]);
	slice_close(syscall, track, event->ts_ns);
}

void perfetto_syscall_thread(struct perfetto_syscall *syscall,
			     const struct thread_interval *interval)
{
	struct packets *packets = syscall->erlang->packets;
	char waker[sizeof(interval->waker_comm) + 1];
	uint64_t track;

	if ((interval->state != THREAD_SLEEPING && interval->state != THREAD_BLOCKED) ||
	    interval->syscall < 0)
		return;
	track = slice_open(syscall, interval->tid, SYSCALL_WAITS, interval->syscall,
			   interval->start_ns, interval->end_ns);
	if (!track)
		return;
	packet_note_uint(packets, "first argument", interval->syscall_arg);
	if (interval->process_known && interval->process)
		perfetto_note_process(syscall->erlang, "executing", interval->process,
				      interval->start_ns);
	if (interval->waker_tid > 0) {
		sanitize_copy(waker, sizeof(waker), interval->waker_comm,
			      strnlen(interval->waker_comm, sizeof(interval->waker_comm)));
		packet_note_text(packets, "woken by", waker);
		packet_note_int(packets, "woken by tid", interval->waker_tid);
	}
	if (interval->open)
		packet_note_bool(packets, "cut by the end of the recording", true);
	slice_close(syscall, track, interval->end_ns);
}

void perfetto_syscall_begin(struct perfetto_syscall *syscall, struct perfetto_erlang *erlang)
{
	memset(syscall, 0, sizeof(*syscall));
	syscall->erlang = erlang;
}

void perfetto_syscall_free(struct perfetto_syscall *syscall)
{
	struct syscall_thread *thread, *next;

	HASH_ITER (hh, syscall->threads, thread, next) {
		HASH_DEL(syscall->threads, thread);
		free(thread);
	}
}
