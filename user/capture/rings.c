/* SPDX-License-Identifier: Apache-2.0 */
#include "rings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "utf8.h"

#define NAMES_CHUNK_BYTES (1u << 20)
#define NOTE_BYTES	  512
#define CREDIT_BLOCK_MAX  1024
/* Until the drain loop renews it: the tracer may be started before the loop sees the session. */
#define FIRST_LEASE_NS 15000000000ull

/* ---- A file that others can truncate ---- */

static struct {
	void *map;
	size_t bytes;
	volatile sig_atomic_t broken;
} guard;

/* A page of the mapping is gone: put zeros in place of all of it and go on. */
static void guard_handler(int number, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr, start = (uintptr_t)guard.map;

	(void)context;
	if (guard.map && at >= start && at - start < guard.bytes &&
	    mmap(guard.map, guard.bytes, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == guard.map) {
		guard.broken = 1;
		return;
	}
	signal(number, SIG_DFL);
	raise(number);
}

static int guard_install(void *map, size_t bytes)
{
	struct sigaction action = {.sa_sigaction = guard_handler, .sa_flags = SA_SIGINFO};

	guard.map = map;
	guard.bytes = bytes;
	guard.broken = 0;
	return sigaction(SIGBUS, &action, NULL) ? -errno : 0;
}

bool rings_broken(void)
{
	return guard.broken;
}

/* ---- Set-up ---- */

static int room_fault(const struct rings *rings, uint64_t bytes, struct fault *fault)
{
	struct statvfs room;
	uint64_t free_bytes = 0;

	if (!fstatvfs(rings->place.fd, &room))
		free_bytes = (uint64_t)room.f_bavail * room.f_frsize;
	fault_set(fault, -ENOSPC, NULL,
		  "no room for the ring: %s has %" PRIu64 " MB free, %" PRIu64 " MB are needed",
		  rings->place.path, free_bytes >> 20, (bytes + (1 << 20) - 1) >> 20);
	fault_fix(fault, "make room, or take a smaller one: --buffer-size 16M");
	return -ENOSPC;
}

static int session_map(struct rings *rings, uint64_t bytes, int flags)
{
	rings->map =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, rings->place.fd, 0);
	if (rings->map == MAP_FAILED) {
		rings->map = NULL;
		return -errno;
	}
	rings->bytes = bytes;
	return guard_install(rings->map, bytes);
}

int rings_create(struct rings *rings, const struct target *target, uint32_t without,
		 const struct ring_config *config, const struct rings_limits *limits,
		 struct fault *fault)
{
	uint64_t bytes = ring_file_bytes(config), now_ns = clock_ns();
	struct ring_control *control;
	unsigned int nth = 0;
	int error;

	memset(rings, 0, sizeof(*rings));
	rings->place = PLACE_NONE;
	if (!bytes)
		return fault_set(fault, -EINVAL, NULL, "the buffer size is out of range");
	error = place_create(&rings->place, target, PLACE_SESSION, without, &nth, fault);
	if (error)
		return error;
	/* Takes the pages as well: a file with holes could fail later, inside the VM. */
	do
		error = fallocate(rings->place.fd, 0, 0, (off_t)bytes) ? -errno : 0;
	while (error == -EINTR);
	if (error == -ENOSPC || error == -EFBIG || error == -EDQUOT) {
		room_fault(rings, bytes, fault);
		goto failed;
	}
	if (!error)
		error = session_map(rings, bytes, MAP_POPULATE);
	if (!error)
		error = ring_create(&rings->ring, rings->map, bytes, config, now_ns);
	if (error) {
		fault_set(fault, error, NULL, "cannot make the session %s: %s", rings->place.path,
			  strerror(-error));
		goto failed;
	}
	rings->ring.header->target_pid = (uint32_t)target->ns_pid;
	control = rings->ring.control;
	/* relaxed: nobody else has the file before place_give() */
	if (limits->max_events) {
		uint64_t block = limits->max_events / 64;

		if (block > CREDIT_BLOCK_MAX)
			block = CREDIT_BLOCK_MAX;
		atomic_store_explicit(&control->credits, (int64_t)limits->max_events,
				      memory_order_relaxed);
		atomic_store_explicit(&control->credit_block, block ? block : 1,
				      memory_order_relaxed);
	}
	atomic_store_explicit(&control->lease_until_ns, now_ns + FIRST_LEASE_NS,
			      memory_order_relaxed);
	atomic_store_explicit(&control->stop_at_ns, UINT64_MAX, memory_order_relaxed);
	atomic_store_explicit(&control->run, RING_RUN, memory_order_relaxed);
	error = place_give(&rings->place, target, 0600);
	if (!error)
		return 0;
	fault_set(fault, error, "run as root or as the VM's user",
		  "cannot give the session to the VM's user: %s", strerror(-error));
failed:
	rings_close(rings);
	return error;
}

int rings_open(struct rings *rings, const char *path, struct fault *fault)
{
	struct stat status;
	int error;

	memset(rings, 0, sizeof(*rings));
	error = place_open(&rings->place, path, fault);
	if (error)
		return error;
	error = fstat(rings->place.fd, &status) ? -errno : 0;
	if (!error && status.st_size < (off_t)sizeof(struct ring_header))
		error = -EINVAL;
	if (!error)
		error = session_map(rings, (uint64_t)status.st_size, 0);
	if (!error)
		error = ring_open(&rings->ring, rings->map, rings->bytes);
	if (!error)
		return 0;
	fault_set(fault, error, NULL,
		  error == -EINVAL   ? "%.300s is no session of beamweave"
		  : error == -EPROTO ? "the session %.300s was made by another version"
				     : "cannot open the session %.300s",
		  path);
	/* A file that is not ours stays. */
	place_close(&rings->place);
	rings_close(rings);
	return error;
}

int rings_attach(struct rings *rings, struct fault *fault)
{
	rings->reader = ring_reader_new(&rings->ring, (uint32_t)getpid(), clock_ns());
	if (rings->reader)
		return 0;
	if (errno == EBUSY)
		return fault_set(fault, -EBUSY, NULL, "the session %s is being read by another",
				 rings->place.path);
	return fault_set(fault, -errno, NULL, "cannot read the session %s: %s", rings->place.path,
			 strerror(errno));
}

void rings_close(struct rings *rings)
{
	ring_reader_free(rings->reader);
	if (rings->map) {
		/* A tracer that comes too late finds that it is over. */
		if (rings->ring.control)
			rings_stop(rings);
		guard.map = NULL;
		munmap(rings->map, rings->bytes);
	}
	place_remove(&rings->place);
	memset(rings, 0, sizeof(*rings));
	rings->place = PLACE_NONE;
}

/* ---- Control ---- */

void rings_lease(struct rings *rings, uint64_t now_ns)
{
	/* relaxed: a time by itself */
	atomic_store_explicit(&rings->ring.control->lease_until_ns, now_ns + RINGS_LEASE_NS,
			      memory_order_relaxed);
}

void rings_stop(struct rings *rings)
{
	/* relaxed: writers look at every event, the controller ten times a second */
	atomic_store_explicit(&rings->ring.control->run, RING_STOPPED, memory_order_relaxed);
}

uint32_t rings_tracer(const struct rings *rings)
{
	/* acquire: with RING_TRACER_ON the VM's description, with _ENDED all records are visible */
	return atomic_load_explicit(&rings->ring.control->tracer, memory_order_acquire);
}

uint32_t rings_end_reason(const struct rings *rings)
{
	/* relaxed: read after rings_tracer() gave _ENDED, whose acquire it stands behind */
	return atomic_load_explicit(&rings->ring.control->end_reason, memory_order_relaxed);
}

uint64_t rings_heartbeat_ns(const struct rings *rings)
{
	/* relaxed: a time by itself, written by the controller at each of its looks */
	return atomic_load_explicit(&rings->ring.control->heartbeat_ns, memory_order_relaxed);
}

uint32_t rings_fill_permille(const struct rings *rings)
{
	return ring_fill_permille(rings->reader);
}

bool rings_vm(const struct rings *rings, struct ring_vm *vm)
{
	uint32_t state = rings_tracer(rings);

	if (state == RING_TRACER_NONE || !*(volatile uint32_t *)&rings->ring.header->vm_valid)
		return false;
	memcpy(vm, &rings->ring.header->vm, sizeof(*vm));
	return true;
}

/* ---- Draining ---- */

static int fragment_store(void *context, const struct ring_fragment *fragment)
{
	struct chunk_vm head = {.sequence = fragment->sequence,
				.base_ns = fragment->base_ns,
				.from = fragment->from,
				.bytes = fragment->bytes};

	return file_append(context, CHUNK_VM, fragment->thread, &head, sizeof(head), fragment->data,
			   fragment->bytes);
}

int64_t rings_drain(struct rings *rings, struct file_writer *writer, uint64_t max_bytes)
{
	return ring_drain(rings->reader, max_bytes, fragment_store, writer);
}

/* Where to cut so that every entry is whole in its chunk. */
static uint64_t names_cut(const uint8_t *data, uint64_t bytes)
{
	uint64_t position = 0, cut = 0;
	const struct ring_dict_entry *entry;

	if (bytes <= NAMES_CHUNK_BYTES)
		return bytes;
	while (ring_dict_next(data, bytes, &position, &entry) > 0) {
		uint64_t start = (uint64_t)((const uint8_t *)entry - data);

		if (position > NAMES_CHUNK_BYTES && start < NAMES_CHUNK_BYTES)
			return start;
		if (position > NAMES_CHUNK_BYTES)
			break;
		cut = position;
	}
	/* Without an entry it is a hole, where any slot is a place to cut. */
	return cut ? cut : NAMES_CHUNK_BYTES;
}

/* Lines that the node's side left for the user: a time, then the text. */
static void notes_show(const void *data, uint64_t bytes, rings_note_fn note, void *context)
{
	const struct ring_dict_entry *entry;
	uint64_t position = 0;
	char text[NOTE_BYTES];

	while (ring_dict_next(data, bytes, &position, &entry) > 0) {
		const char *payload = (const char *)(entry + 1);
		size_t length = entry->bytes;

		if (entry->type != RING_DICT_NOTE || length <= sizeof(uint64_t))
			continue;
		length -= sizeof(uint64_t);
		if (length >= sizeof(text))
			length = sizeof(text) - 1;
		memcpy(text, payload + sizeof(uint64_t), length);
		text[length] = 0;
		utf8_clean(text);
		note(context, text);
	}
}

int rings_write_names(struct file_writer *writer, const void *data, uint64_t bytes, uint64_t offset,
		      rings_note_fn note, void *context)
{
	const uint8_t *at = data;

	if (bytes)
		notes_show(data, bytes, note, context);
	for (uint64_t left = bytes; left;) {
		struct chunk_dict head = {.offset = offset};
		uint64_t part = names_cut(at, left);
		int error;

		error = file_append(writer, CHUNK_DICT, 0, &head, sizeof(head), at, (uint32_t)part);
		if (error)
			return error;
		at += part;
		offset += part;
		left -= part;
	}
	return 0;
}

int64_t rings_drain_names(struct rings *rings, struct file_writer *writer, rings_note_fn note,
			  void *context)
{
	const void *data;
	uint64_t offset;
	int64_t bytes = ring_dict_drain(rings->reader, &data, &offset);
	int error = 0;

	if (bytes > 0)
		error = rings_write_names(writer, data, (uint64_t)bytes, offset, note, context);
	return error ? error : bytes;
}

static uint32_t thread_count(const struct rings *rings)
{
	/* acquire: entries below it are claimed; each is filled in once its tid is there */
	uint32_t count =
		atomic_load_explicit(&rings->ring.control->thread_count, memory_order_acquire);

	return count < rings->ring.thread_max ? count : rings->ring.thread_max;
}

/* A thread's entry as plain values, each read once. */
static void thread_copy(const struct ring_thread *from, struct ring_thread *to)
{
	memset(to, 0, sizeof(*to));
	/* acquire: whoever sees the tid sees role, number and esdp, written before it */
	atomic_init(&to->tid, atomic_load_explicit(&from->tid, memory_order_acquire));
	to->role = from->role;
	to->number = from->number;
	to->esdp = from->esdp;
	/* relaxed: counters that go on while we read; each is true of some moment by itself */
	atomic_init(&to->sequence, atomic_load_explicit(&from->sequence, memory_order_relaxed));
	atomic_init(&to->loss_first_ns,
		    atomic_load_explicit(&from->loss_first_ns, memory_order_relaxed));
	atomic_init(&to->loss_last_ns,
		    atomic_load_explicit(&from->loss_last_ns, memory_order_relaxed));
	for (size_t kind = 0; kind < RING_KINDS; kind++) {
		atomic_init(&to->recorded[kind],
			    atomic_load_explicit(&from->recorded[kind], memory_order_relaxed));
		atomic_init(&to->discarded[kind],
			    atomic_load_explicit(&from->discarded[kind], memory_order_relaxed));
	}
}

int rings_write_threads(struct rings *rings, struct file_writer *writer, uint64_t now_ns)
{
	const struct ring_control *control = rings->ring.control;
	struct chunk_threads head = {.count = thread_count(rings), .kinds = RING_KINDS};
	struct ring_thread *threads;
	int error;

	threads = aligned_alloc(RING_CACHE_LINE, (head.count + 1) * sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	for (uint32_t i = 0; i < head.count; i++)
		thread_copy(&rings->ring.threads[i], &threads[i]);
	/* relaxed: as those of the threads */
	head.unclaimed_discarded =
		atomic_load_explicit(&control->unclaimed_discarded, memory_order_relaxed);
	head.dict_discarded = atomic_load_explicit(&control->dict_discarded, memory_order_relaxed);
	head.taken_ns = now_ns;
	error = file_append(writer, CHUNK_THREADS, 0, &head, sizeof(head), threads,
			    head.count * (uint32_t)sizeof(*threads));
	free(threads);
	return error;
}

void rings_counts(const struct rings *rings, struct rings_counts *counts)
{
	const struct ring_control *control = rings->ring.control;
	uint32_t count = thread_count(rings);

	memset(counts, 0, sizeof(*counts));
	for (uint32_t i = 0; i < count; i++) {
		const struct ring_thread *thread = &rings->ring.threads[i];

		/* relaxed: a sum of counters that go on, for the progress and, once the tracer has
		 * ended, for the summary */
		for (size_t kind = 0; kind < RING_KINDS; kind++) {
			uint64_t recorded =
				atomic_load_explicit(&thread->recorded[kind], memory_order_relaxed);

			counts->by_kind[kind] += recorded;
			counts->recorded += recorded;
			counts->discarded += atomic_load_explicit(&thread->discarded[kind],
								  memory_order_relaxed);
		}
	}
	/* relaxed: counters of many writers, shown as they are now */
	counts->discarded +=
		atomic_load_explicit(&control->unclaimed_discarded, memory_order_relaxed);
	counts->names_done = atomic_load_explicit(&control->names_done, memory_order_relaxed);
	counts->names_total = atomic_load_explicit(&control->names_total, memory_order_relaxed);
}

void rings_new_threads(struct rings *rings, rings_thread_fn fn, void *context)
{
	uint32_t count = thread_count(rings);

	for (; rings->threads_seen < count; rings->threads_seen++) {
		const struct ring_thread *thread = &rings->ring.threads[rings->threads_seen];
		/* acquire: with the tid role, number and esdp are there */
		uint32_t tid = atomic_load_explicit(&thread->tid, memory_order_acquire);

		/* Claimed, but not filled in yet: it comes at the next call. */
		if (!tid)
			break;
		fn(context, tid, thread->role, thread->number, thread->esdp);
	}
}
