/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stress of the ring: several threads of one process write, readers in other processes (or one
 * thread, for ThreadSanitizer) take it out of a real shared-memory file, and every record must
 * arrive once, in its thread's order, or be counted by its kind, with the exact time of the loss.
 *
 * A record's number n says all about it (kind, time, size, content), and a writer tries the numbers
 * 1..N in order. So the check needs no word of the ring's to know what is missing: it is what the
 * headers of the sub-buffers must have counted.
 *
 * Usage: stress VARIANT [RECORDS [THREADS]], where VARIANT is one of the table at the end.
 * Exit: 0 pass, 1 fail, 2 usage.
 */

#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct ring ring;
static struct stress_shared *shared;
static struct stress_variant variant;
static uint64_t records = 200000;
static int file = -1;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void pause_us(uint64_t us)
{
	struct timespec pause = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	nanosleep(&pause, NULL);
}

/* ---- Writing ----------------------------------------------------------------------------- */

static void record_fill(struct ring_record *record, uint64_t n)
{
	uint64_t *body = (uint64_t *)(record + 1);

	for (uint32_t i = 0; i < (stress_bytes(n) - sizeof(*record)) / 8; i++)
		body[i] = n * (i + 1);
}

static void *writer_run(void *argument)
{
	uint32_t number = (uint32_t)(uintptr_t)argument;
	struct stress_writer *result = &shared->writers[number];
	struct ring_writer writer;

	if (ring_writer_claim(&writer, &ring, number + 1, RING_ROLE_NORMAL, number, 0))
		return NULL;
	for (uint64_t n = 1; n <= records; n++) {
		uint64_t now_ns = stress_time(n);
		enum ring_kind kind = stress_kind(n);
		struct ring_record *record;

		/* A reservation that is given up must leave no trace. */
		if (n % 97 == 0 && writer.credits &&
		    writer.limit - writer.position >= STRESS_BYTES_MAX)
			ring_reserve(&writer, now_ns, RING_GC_MAX_HEAP, STRESS_BYTES_MAX, 1);
		record = ring_reserve(&writer, now_ns, kind, STRESS_BYTES_MAX, n);
		if (record) {
			record_fill(record, n);
			record->bytes = (uint16_t)stress_bytes(n);
			ring_commit(&writer, record);
			result->recorded[kind]++;
		} else {
			result->discarded[kind]++;
		}
		if (variant.burst && n % variant.burst == 0)
			pause_us(variant.pause_us);
	}
	result->done = 1;
	return NULL;
}

static void writers_run(uint32_t threads)
{
	pthread_t ids[STRESS_THREADS];

	for (uint32_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, writer_run, (void *)(uintptr_t)i))
			die("pthread_create");
	for (uint32_t i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* What a recorder does: append, and only then say that it is stored. */
static int fragment_store(void *context, const struct ring_fragment *fragment)
{
	struct stress_log *log = shared->log;
	uint64_t used = atomic_load_explicit(&shared->log_used, memory_order_relaxed);
	uint64_t count = atomic_load_explicit(&shared->log_count, memory_order_relaxed);

	(void)context;
	if (count == STRESS_LOG_MAX || used + fragment->bytes > shared->data_bytes) {
		fprintf(stderr, "stress: the log is full\n");
		return -ENOSPC;
	}
	/* Now and then a recorder's disk says no: the fragment has to come again. */
	if (variant.fail_every && ++shared->fn_calls % variant.fail_every == 0)
		return -EAGAIN;
	log[count] = (struct stress_log){.thread = fragment->thread,
					 .from = fragment->from,
					 .sequence = fragment->sequence,
					 .base_ns = fragment->base_ns,
					 .bytes = fragment->bytes,
					 .data = used};
	memcpy(shared->data + used, fragment->data, fragment->bytes);
	atomic_store_explicit(&shared->log_used, used + fragment->bytes, memory_order_relaxed);
	atomic_store_explicit(&shared->log_count, count + 1, memory_order_release);
	if (variant.slow_us)
		pause_us(variant.slow_us);
	return 0;
}

static void reader_run(void)
{
	uint32_t pid = (uint32_t)getpid(), next;
	struct ring_reader *reader;
	int last = 0;

	if (variant.handover_us)
		atomic_store(&ring.control->next_reader_pid, pid);
	reader = ring_reader_new(&ring, pid, 1);
	if (!reader)
		die("ring_reader_new");
	for (;;) {
		int ended = atomic_load_explicit(&shared->ended, memory_order_acquire);
		int64_t bytes = ring_drain(reader, 256 << 10, fragment_store, NULL);

		if (bytes < 0 && bytes != -EAGAIN) {
			fprintf(stderr, "stress: drain: %s\n", strerror((int)-bytes));
			exit(1);
		}
		next = atomic_load_explicit(&ring.control->next_reader_pid, memory_order_acquire);
		if (next && next != pid && !ended)
			break;
		/* Three drains without anything after the end: nothing was left behind. */
		last = ended && !bytes ? last + 1 : 0;
		if (last == 3)
			break;
		if (!bytes)
			pause_us(100);
	}
	ring_reader_free(reader);
}

static void *reader_thread(void *argument)
{
	reader_run();
	return argument;
}

/* A child that does not outlive us, however we end. */
static pid_t child_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static pid_t reader_fork(void)
{
	pid_t pid = child_fork();

	if (!pid) {
		/* A mapping of its own, at another address. */
		void *map = mmap(NULL, ring.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

		if (map == MAP_FAILED || ring_open(&ring, map, ring.bytes))
			die("ring_open");
		reader_run();
		_exit(0);
	}
	return pid;
}

/* ---- The run ----------------------------------------------------------------------------- */

static void session_make(uint32_t threads)
{
	struct ring_config config = {.mode = variant.mode,
				     .pool_bytes = variant.pool_bytes,
				     .subbuf_bytes = 4096 << (records % 2),
				     .thread_max = STRESS_THREADS,
				     .mfa_slots = 64,
				     .atom_slots = 64,
				     .dict_bytes = 4096};
	uint64_t bytes = ring_file_bytes(&config);
	char name[64];
	void *map;

	snprintf(name, sizeof(name), "/beamweave-stress-%d", (int)getpid());
	file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file < 0 || shm_unlink(name) || ftruncate(file, (off_t)bytes))
		die("shm_open");
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED || ring_create(&ring, map, bytes, &config, 1))
		die("ring_create");
	atomic_store(&ring.control->lease_until_ns, UINT64_MAX);

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("mmap");
	shared->data_bytes = (uint64_t)threads * records * 80 + (64 << 20);
	shared->data = mmap(NULL, shared->data_bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	shared->log = mmap(NULL, STRESS_LOG_MAX * sizeof(struct stress_log), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shared->data == MAP_FAILED || shared->log == MAP_FAILED)
		die("mmap");
}

static int status_ok(int status)
{
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static int run_in_threads(uint32_t threads)
{
	pthread_t reader;

	if (pthread_create(&reader, NULL, reader_thread, NULL))
		die("pthread_create");
	writers_run(threads);
	atomic_store_explicit(&shared->ended, 1, memory_order_release);
	pthread_join(reader, NULL);
	return 0;
}

static int run_in_processes(uint32_t threads)
{
	pid_t writer, reader, next, ended;
	unsigned int seed = 1, readers = 1;
	int status, failed = 0;

	writer = child_fork();
	if (!writer) {
		writers_run(threads);
		_exit(0);
	}
	reader = reader_fork();
	for (;;) {
		ended = waitpid(writer, &status, WNOHANG);
		if (ended == writer)
			break;
		pause_us(variant.kill_us ? (uint64_t)(rand_r(&seed) % variant.kill_us) : 2000);
		/* One successor at a time: the reader has to be there to see it. */
		if (variant.handover_us &&
		    atomic_load(&ring.control->reader_pid) == (uint32_t)reader) {
			next = reader_fork();
			waitpid(reader, &status, 0);
			failed |= !status_ok(status);
			reader = next;
			readers++;
		}
		if (variant.crash_us && readers++ * 2000 > variant.crash_us)
			kill(writer, SIGKILL);
		if (!variant.kill_us)
			continue;
		kill(reader, SIGKILL);
		waitpid(reader, &status, 0);
		failed |= !WIFSIGNALED(status);
		reader = reader_fork();
		readers++;
	}
	failed |= !status_ok(status) && !variant.crash_us;
	atomic_store_explicit(&shared->ended, 1, memory_order_release);
	waitpid(reader, &status, 0);
	failed |= !status_ok(status);
	if (variant.kill_us || variant.handover_us)
		printf("readers %u\n", readers);
	return failed;
}

static const struct stress_variant variants[] = {
	{.name = "plain", .pool_bytes = 1 << 20},
	{.name = "paced", .pool_bytes = 4 << 20, .burst = 500, .pause_us = 100},
	{.name = "slow", .pool_bytes = 256 << 10, .slow_us = 200},
	{.name = "tiny", .pool_bytes = 16 << 10},
	{.name = "failing", .pool_bytes = 1 << 20, .fail_every = 7},
	{.name = "killed", .pool_bytes = 256 << 10, .burst = 500, .pause_us = 100, .kill_us = 3000},
	{.name = "killed-roomy",
	 .pool_bytes = 64 << 20,
	 .burst = 500,
	 .pause_us = 100,
	 .kill_us = 3000,
	 .lossless = 1},
	{.name = "handover",
	 .pool_bytes = 64 << 20,
	 .burst = 500,
	 .pause_us = 100,
	 .handover_us = 2000,
	 .lossless = 1},
	{.name = "crash", .pool_bytes = 1 << 20, .burst = 500, .pause_us = 100, .crash_us = 20000},
	{.name = "overwrite", .mode = RING_OVERWRITE, .pool_bytes = 256 << 10},
	{.name = "overwrite-slow", .mode = RING_OVERWRITE, .pool_bytes = 64 << 10, .slow_us = 200},
	{.name = "overwrite-killed",
	 .mode = RING_OVERWRITE,
	 .pool_bytes = 64 << 10,
	 .burst = 500,
	 .pause_us = 100,
	 .kill_us = 3000},
	{.name = "thread", .pool_bytes = 256 << 10, .reader_thread = 1},
	{.name = "thread-tiny", .pool_bytes = 16 << 10, .reader_thread = 1},
	{.name = "thread-overwrite",
	 .mode = RING_OVERWRITE,
	 .pool_bytes = 64 << 10,
	 .reader_thread = 1},
};

int main(int argc, char **argv)
{
	uint32_t threads = 4;
	int failed;

	for (size_t i = 0; argc > 1 && i < sizeof(variants) / sizeof(variants[0]); i++)
		if (!strcmp(argv[1], variants[i].name))
			variant = variants[i];
	if (argc > 2)
		records = strtoull(argv[2], NULL, 10);
	if (argc > 3)
		threads = (uint32_t)strtoul(argv[3], NULL, 10);
	if (!variant.name || !records || !threads || threads > STRESS_THREADS) {
		fprintf(stderr, "usage: stress VARIANT [RECORDS [THREADS]]\n");
		return 2;
	}
	session_make(threads);
	failed = variant.reader_thread ? run_in_threads(threads) : run_in_processes(threads);
	failed |= stress_check(&ring, shared, &variant, threads, records);
	printf("%s: %s\n", variant.name, failed ? "FAILED" : "ok");
	return failed;
}
