/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small reader for the tracer's tests: makes sessions, and prints all that is in one as Erlang
 * terms, one a line, for file:consult/1.
 *
 *   ring_dump create PATH [POOL-BYTES [overwrite]]
 *   ring_dump read PATH       renews the lease; prints until the tracer has ended
 *   ring_dump count PATH      the same without the events themselves
 *   ring_dump take PATH       prints what is there and leaves: no lease, no waiting
 *   ring_dump state PATH      prints enum ring_tracer_state
 *   ring_dump set PATH run|lease_ms|stop_ms|credits NUMBER
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

#define LEASE_NS 5000000000ull
#define PAUSE_NS 2000000

static const char *const kinds[RING_KINDS] = {
	[RING_UNKNOWN] = "unknown",
	[RING_CALL] = "call",
	[RING_RETURN_TO] = "return_to",
	[RING_RETURN_FROM] = "return_from",
	[RING_EXCEPTION_FROM] = "exception_from",
	[RING_SEND] = "send",
	[RING_SEND_NOPROC] = "send_noproc",
	[RING_RECEIVE] = "'receive'",
	[RING_IN] = "in",
	[RING_OUT] = "out",
	[RING_IN_EXITING] = "in_exiting",
	[RING_OUT_EXITING] = "out_exiting",
	[RING_OUT_EXITED] = "out_exited",
	[RING_GC_MINOR_START] = "gc_minor_start",
	[RING_GC_MINOR_END] = "gc_minor_end",
	[RING_GC_MAJOR_START] = "gc_major_start",
	[RING_GC_MAJOR_END] = "gc_major_end",
	[RING_GC_MAX_HEAP] = "gc_max_heap",
	[RING_SPAWN] = "spawn",
	[RING_SPAWNED] = "spawned",
	[RING_EXIT] = "exit",
	[RING_LINK] = "link",
	[RING_UNLINK] = "unlink",
	[RING_GETTING_LINKED] = "getting_linked",
	[RING_GETTING_UNLINKED] = "getting_unlinked",
	[RING_REGISTER] = "register",
	[RING_UNREGISTER] = "unregister",
	[RING_PORT_OPEN] = "port_open",
	[RING_PORT_CLOSED] = "port_closed",
	[RING_PORT_IN] = "port_in",
	[RING_PORT_OUT] = "port_out",
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int fail(const char *path, int error)
{
	fprintf(stderr, "ring_dump: %s: %s\n", path, strerror(error));
	return 1;
}

static int file_map(const char *path, uint64_t create_bytes, void **map, uint64_t *bytes)
{
	int fd = open(path, create_bytes ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
	struct stat st;
	int rc;

	if (fd < 0)
		return -errno;
	rc = create_bytes ? posix_fallocate(fd, 0, (off_t)create_bytes) : 0;
	if (rc || fstat(fd, &st)) {
		close(fd);
		return rc ? -rc : -errno;
	}
	*bytes = (uint64_t)st.st_size;
	*map = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return *map == MAP_FAILED ? -errno : 0;
}

static int session_make(const char *path, uint64_t pool_bytes, bool overwrite)
{
	struct ring_config config = {
		.mode = overwrite ? RING_OVERWRITE : RING_DISCARD,
		.pool_bytes = pool_bytes,
	};
	struct ring ring;
	uint64_t bytes;
	void *map;
	int rc;

	rc = file_map(path, ring_file_bytes(&config), &map, &bytes);
	if (!rc)
		rc = ring_create(&ring, map, bytes, &config, clock_ns());
	if (rc)
		return fail(path, -rc);
	atomic_store(&ring.control->lease_until_ns, clock_ns() + LEASE_NS);
	return 0;
}

static int session_open(const char *path, struct ring *ring)
{
	uint64_t bytes;
	void *map;
	int rc;

	rc = file_map(path, 0, &map, &bytes);
	return rc ? rc : ring_open(ring, map, bytes);
}

static int session_set(const char *path, const char *what, uint64_t number)
{
	struct ring ring;
	int rc = session_open(path, &ring);

	if (rc)
		return fail(path, -rc);
	if (!strcmp(what, "run"))
		atomic_store(&ring.control->run, (uint32_t)number);
	else if (!strcmp(what, "lease_ms"))
		atomic_store(&ring.control->lease_until_ns, clock_ns() + number * 1000000);
	else if (!strcmp(what, "stop_ms"))
		atomic_store(&ring.control->stop_at_ns, clock_ns() + number * 1000000);
	else if (!strcmp(what, "credits"))
		atomic_store(&ring.control->credits, (int64_t)number);
	else
		return fail(what, EINVAL);
	return 0;
}

static int session_state(const char *path)
{
	struct ring ring;
	int rc = session_open(path, &ring);

	if (rc)
		return fail(path, -rc);
	printf("%u", atomic_load(&ring.control->tracer));
	return 0;
}

static void print_bytes(const void *data, uint32_t bytes)
{
	const uint8_t *byte = data;

	printf("<<");
	for (uint32_t i = 0; i < bytes; i++)
		printf("%s%u", i ? "," : "", byte[i]);
	printf(">>");
}

static void print_shape(const struct ring_shape *shape)
{
	printf(", fingerprint => %" PRIu64 ", atom1 => %u, atom2 => %u, arity => %u, type => %u",
	       shape->fingerprint, shape->atom[0], shape->atom[1], shape->arity, shape->type);
}

/* Fixed bytes of a record's kind, behind which a capture may stand. */
static uint32_t print_fields(const struct ring_record *record)
{
	const void *raw = record;

	switch (record->kind) {
	case RING_CALL: {
		const struct ring_call *call = raw;

		printf(", mfa => %u, depth => %u, frame => %u, tail => %u", call->mfa, call->depth,
		       call->frame, call->tail);
		return sizeof(*call);
	}
	case RING_RETURN_TO: {
		const struct ring_return_to *back = raw;

		printf(", mfa => %u, depth => %u", back->mfa, back->depth);
		return sizeof(*back);
	}
	case RING_RETURN_FROM:
	case RING_EXCEPTION_FROM:
	case RING_EXIT:
	case RING_PORT_CLOSED: {
		const struct ring_value *value = raw;

		printf(", mfa => %u, depth => %u", value->mfa, value->depth);
		print_shape(&value->shape);
		return sizeof(*value);
	}
	case RING_SEND:
	case RING_SEND_NOPROC: {
		const struct ring_send *send = raw;

		printf(", to => %" PRIu64 ", name => %u", send->to, send->name);
		print_shape(&send->shape);
		return sizeof(*send);
	}
	case RING_RECEIVE: {
		const struct ring_receive *receive = raw;

		print_shape(&receive->shape);
		return sizeof(*receive);
	}
	case RING_IN:
	case RING_OUT:
	case RING_IN_EXITING:
	case RING_OUT_EXITING:
	case RING_OUT_EXITED: {
		const struct ring_run *run = raw;

		printf(", mfa => %u, scheduler => %u", run->mfa, run->scheduler);
		return sizeof(*run);
	}
	case RING_GC_MINOR_START:
	case RING_GC_MINOR_END:
	case RING_GC_MAJOR_START:
	case RING_GC_MAJOR_END:
	case RING_GC_MAX_HEAP: {
		const struct ring_gc *gc = raw;

		printf(", heap_size => %" PRIu64 ", heap_block_size => %" PRIu64
		       ", old_heap_size => %" PRIu64 ", stack_size => %" PRIu64
		       ", bin_old_vheap_block_size => %" PRIu64,
		       gc->heap_size, gc->heap_block_size, gc->old_heap_size, gc->stack_size,
		       gc->bin_old_vheap_block_size);
		return sizeof(*gc);
	}
	case RING_SPAWN:
	case RING_SPAWNED: {
		const struct ring_spawn *spawn = raw;

		printf(", other => %" PRIu64 ", mfa => %u, initial => %u", spawn->other, spawn->mfa,
		       spawn->initial);
		return sizeof(*spawn);
	}
	case RING_LINK:
	case RING_UNLINK:
	case RING_GETTING_LINKED:
	case RING_GETTING_UNLINKED: {
		const struct ring_peer *peer = raw;

		printf(", other => %" PRIu64, peer->other);
		return sizeof(*peer);
	}
	case RING_REGISTER:
	case RING_UNREGISTER:
	case RING_PORT_IN:
	case RING_PORT_OUT: {
		const struct ring_name *name = raw;

		printf(", name => %u", name->name);
		return sizeof(*name);
	}
	case RING_PORT_OPEN: {
		const struct ring_port_open *port = raw;

		printf(", owner => %" PRIu64 ", driver => %u", port->owner, port->driver);
		return sizeof(*port);
	}
	default: {
		const struct ring_other *other = raw;

		printf(", tag => %u", other->tag);
		return sizeof(*other);
	}
	}
}

static void print_record(const struct ring_record *record, uint32_t thread, uint64_t base_ns)
{
	const char *kind = record->kind < RING_KINDS ? kinds[record->kind] : NULL;
	const struct ring_capture *capture;
	const struct ring_term *term = (const struct ring_term *)record;
	uint32_t fixed;

	printf("{event, %" PRIu64 ", %u, %s, %u, %" PRIu64 ", #{bytes => %u",
	       base_ns + record->delta_ns, thread, kind ? kind : "unknown", record->flags,
	       record->process, record->bytes);
	if (record->flags & RING_F_TERM) {
		printf(", tail => %u, term => ", term->tail_bytes);
		print_bytes(term + 1, term->bytes);
		printf("}}.\n");
		return;
	}
	fixed = print_fields(record);
	if (record->flags & RING_F_CAPTURE) {
		capture = (const struct ring_capture *)((const uint8_t *)record + fixed);
		printf(", capture => ");
		print_bytes(capture + 1, capture->bytes);
	}
	printf("}}.\n");
}

static int fragment_print(void *context, const struct ring_fragment *fragment)
{
	const uint8_t *data = fragment->data;
	uint32_t at = fragment->from ? 0 : (uint32_t)sizeof(struct ring_subbuf);
	const struct ring_record *record;

	if (context)
		return 0;
	while (at + sizeof(*record) <= fragment->bytes) {
		record = (const struct ring_record *)(data + at);
		if (record->bytes < sizeof(*record) || at + record->bytes > fragment->bytes) {
			printf("{broken, %u}.\n", fragment->thread);
			break;
		}
		print_record(record, fragment->thread, fragment->base_ns);
		at += record->bytes;
	}
	return 0;
}

static void print_entry(const struct ring_dict_entry *entry)
{
	const struct ring_dict_mfa *mfa = (const struct ring_dict_mfa *)(entry + 1);

	if (entry->type == RING_DICT_MFA && entry->bytes >= sizeof(*mfa)) {
		printf("{mfa, %" PRIu64 ", %u, %u, %u}.\n", entry->key, mfa->module, mfa->function,
		       mfa->arity);
		return;
	}
	printf("{dict, %u, %" PRIu64 ", ", entry->type, entry->key);
	print_bytes(entry + 1, entry->bytes);
	printf("}.\n");
}

static void drain(struct ring_reader *reader, bool *counts_only)
{
	const struct ring_dict_entry *entry;
	uint64_t offset, position;
	const void *data;
	int64_t bytes;

	while (ring_drain(reader, 64 << 20, fragment_print, counts_only) > 0)
		;
	while ((bytes = ring_dict_drain(reader, &data, &offset)) > 0) {
		position = 0;
		while (ring_dict_next(data, (uint64_t)bytes, &position, &entry))
			print_entry(entry);
	}
}

static void print_end(const struct ring *ring)
{
	const struct ring_vm *vm = &ring->header->vm;
	uint32_t threads = atomic_load(&ring->control->thread_count);
	const struct ring_thread *thread;

	printf("{vm, %u, #{release => %u, frame_words => %u, slack => %u, scan => %u, pid_bit => ",
	       ring->header->vm_valid, vm->otp_release, vm->frame_words, vm->return_slack,
	       vm->scan);
	print_bytes(vm->pid_bit, sizeof(vm->pid_bit));
	printf(", target => %u, current_process => %u}}.\n", ring->header->target_pid,
	       vm->esdp_current_process);
	for (uint32_t i = 0; i < threads && i < ring->thread_max; i++) {
		thread = &ring->threads[i];
		printf("{thread, %u, #{tid => %u, role => %u, number => %u, esdp => %" PRIu64
		       "}}.\n",
		       i, atomic_load(&thread->tid), thread->role, thread->number, thread->esdp);
		for (int kind = 0; kind < RING_KINDS; kind++) {
			if (atomic_load(&thread->recorded[kind]) ||
			    atomic_load(&thread->discarded[kind]))
				printf("{count, %u, %s, %" PRIu64 ", %" PRIu64 "}.\n", i,
				       kinds[kind] ? kinds[kind] : "unknown",
				       atomic_load(&thread->recorded[kind]),
				       atomic_load(&thread->discarded[kind]));
		}
	}
	printf("{ended, %u, %u, %" PRIu64 ", %" PRIu64 "}.\n", atomic_load(&ring->control->tracer),
	       atomic_load(&ring->control->end_reason), atomic_load(&ring->control->names_done),
	       atomic_load(&ring->control->names_total));
}

static int session_read(const char *path, bool wait, bool *counts_only)
{
	struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct ring_reader *reader;
	struct ring ring;
	int rc;

	rc = session_open(path, &ring);
	if (rc)
		return fail(path, -rc);
	reader = ring_reader_new(&ring, (uint32_t)getpid(), clock_ns());
	if (!reader)
		return fail(path, errno);
	while (wait && atomic_load(&ring.control->tracer) != RING_TRACER_ENDED) {
		if (atomic_load(&ring.control->run) == RING_RUN)
			atomic_store(&ring.control->lease_until_ns, clock_ns() + LEASE_NS);
		drain(reader, counts_only);
		nanosleep(&pause, NULL);
	}
	drain(reader, counts_only);
	print_end(&ring);
	ring_reader_free(reader);
	return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc >= 3 && !strcmp(argv[1], "create"))
		return session_make(argv[2], argc > 3 ? strtoull(argv[3], NULL, 0) : 16 << 20,
				    argc > 4 && !strcmp(argv[4], "overwrite"));
	if (argc == 3 && !strcmp(argv[1], "read"))
		return session_read(argv[2], true, NULL);
	if (argc == 3 && !strcmp(argv[1], "count"))
		return session_read(argv[2], true, &(bool){true});
	if (argc == 3 && !strcmp(argv[1], "take"))
		return session_read(argv[2], false, NULL);
	if (argc == 3 && !strcmp(argv[1], "state"))
		return session_state(argv[2]);
	if (argc == 5 && !strcmp(argv[1], "set"))
		return session_set(argv[2], argv[3], strtoull(argv[4], NULL, 0));
	fprintf(stderr, "usage: ring_dump create|read|count|take|state|set PATH ...\n");
	return 2;
}
