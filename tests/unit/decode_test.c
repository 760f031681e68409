// SPDX-License-Identifier: Apache-2.0
/* From hand-made chunks to events and accounts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../trace/maker.h"
#include "trace.h"

#define T0 1000000ull

static char directory[64], path[128];
static struct file_writer *file;
static struct maker_ring ring;

static int setup(void **state)
{
	const struct chunk_clock clock = {T0, T0, T0};

	(void)state;
	strcpy(directory, "/tmp/bwt_decode_test_XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/a.bwt", directory);
	file = file_create(path);
	maker_ring_init(&ring, file, 0, 77, RING_ROLE_NORMAL, 1);
	maker_append(file, CHUNK_CLOCK, 0, &clock, sizeof(clock), NULL, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

static struct trace *reopen(void)
{
	struct trace *trace;

	assert_int_equal(file_close(file, true), 0);
	trace = trace_open(path);
	assert_non_null(trace);
	return trace;
}

static void threads_put(uint64_t taken_ns)
{
	struct maker_ring *const rings[] = {&ring};

	maker_threads(file, rings, 1, taken_ns);
}

/* Ten `in` records, at T0 + 10, 20, ... 100 for processes 1 to 10. */
static void ten_put(uint64_t base_ns)
{
	for (uint64_t i = 1; i <= 10; i++)
		maker_run(&ring, base_ns + 10 * i, RING_IN, i, RING_NO_INDEX);
}

#define RUN_BYTES sizeof(struct ring_run)

/* Store a part of the sub-buffer: records first to last, counted from 0, with the header at 0. */
static void part_store(uint32_t first, uint32_t last)
{
	const uint32_t head = sizeof(struct ring_subbuf);
	const uint32_t used = ring.used;

	ring.stored = first ? head + first * (uint32_t)RUN_BYTES : 0;
	ring.used = head + (last + 1) * (uint32_t)RUN_BYTES;
	maker_ring_store(&ring);
	ring.stored = ring.used = used;
}

/* Read all; the processes of the events, in order, and the losses. */
static uint64_t processes[64];
static struct loss losses[8];
static size_t process_count, loss_count;

static void all_read(struct trace *trace)
{
	struct event event;
	uint64_t last = 0;

	process_count = 0;
	loss_count = 0;
	while (trace_next(trace, &event) == 1) {
		assert_true(event.ts_ns >= last);
		last = event.ts_ns;
		if (event.kind == EVENT_LOSS) {
			assert_true(loss_count < 8);
			losses[loss_count++] = *event.loss;
		} else {
			assert_true(process_count < 64);
			processes[process_count++] = event.process;
		}
	}
}

static void processes_are(const uint64_t *wanted, size_t count)
{
	assert_int_equal(process_count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(processes[i], wanted[i]);
}
#define PROCESSES_ARE(...)                                                                         \
	processes_are((const uint64_t[]){__VA_ARGS__},                                             \
		      sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void records_come_as_they_were_written(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;
	struct event event;

	(void)state;
	ten_put(T0);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(event.ts_ns, T0 + 10);
	assert_int_equal(event.kind, RING_IN);
	assert_int_equal(event.tid, 77);
	assert_int_equal(event.cpu, -1);
	assert_int_equal(event.process, 1);
	assert_int_equal(event.run->scheduler, 1);
	assert_int_equal(event.etf.bytes, 0);
	trace_rewind(trace);
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	assert_int_equal(loss_count, 0);
	assert_int_equal(trace_threads(trace, &threads), 1);
	assert_true(threads[0].counted);
	assert_int_equal(threads[0].recorded[RING_IN], 10);
	assert_int_equal(threads[0].role, RING_ROLE_NORMAL);
	assert_false(trace_damage(trace)->no_end);
	trace_close(trace);
}

static void pieces_come_once_whatever_their_order_and_overlap(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	part_store(5, 9);
	part_store(0, 3);
	part_store(3, 6);
	part_store(4, 5);
	part_store(0, 3);
	threads_put(T0 + 500);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	assert_int_equal(loss_count, 0);
	trace_close(trace);
}

static void a_missing_piece_is_counted_where_it_is_missing(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	part_store(0, 3);
	part_store(7, 9);
	maker_ring_begin(&ring, T0 + 1000);
	maker_run(&ring, T0 + 1010, RING_IN, 11, RING_NO_INDEX);
	maker_ring_store(&ring);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 4, 8, 9, 10, 11);
	assert_int_equal(loss_count, 1);
	assert_string_equal(losses[0].why, "damaged");
	assert_int_equal(losses[0].count, 3);
	assert_int_equal(losses[0].counts[RING_IN], 3);
	assert_int_equal(losses[0].from_ns, T0 + 40);
	assert_int_equal(losses[0].to_ns, T0 + 80);
	assert_int_equal(losses[0].ring, 0);
	assert_false(losses[0].kernel);
	trace_close(trace);
}

static void a_missing_end_is_counted_from_the_last_record(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	part_store(0, 3);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 4);
	assert_int_equal(loss_count, 1);
	assert_int_equal(losses[0].count, 6);
	assert_int_equal(losses[0].from_ns, T0 + 40);
	assert_int_equal(losses[0].to_ns, T0 + 5000);
	trace_close(trace);
}

/* Three sub-buffers of ten records, of which the middle one is not in the file. */
static void middle_missing(void)
{
	ten_put(T0);
	maker_ring_store(&ring);
	maker_ring_begin(&ring, T0 + 1000);
	ten_put(T0 + 1000);
	ring.stored = ring.used;
	maker_ring_begin(&ring, T0 + 2000);
	ten_put(T0 + 2000);
	maker_ring_store(&ring);
	threads_put(T0 + 5000);
}

static void a_missing_subbuffer_is_damage_with_a_reader(void **state)
{
	struct trace *trace;

	(void)state;
	middle_missing();
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 20);
	assert_int_equal(loss_count, 1);
	assert_string_equal(losses[0].why, "damaged");
	assert_int_equal(losses[0].count, 10);
	assert_int_equal(losses[0].from_ns, T0 + 100);
	assert_int_equal(losses[0].to_ns, T0 + 2000);
	trace_close(trace);
}

static void a_missing_subbuffer_was_overwritten_without_one(void **state)
{
	const char meta[] = "{\"options\":{\"mode\":\"overwrite\"}}";
	struct trace *trace;

	(void)state;
	maker_append(file, CHUNK_META, 0, meta, sizeof(meta) - 1, NULL, 0);
	middle_missing();
	trace = reopen();
	all_read(trace);
	assert_int_equal(loss_count, 1);
	assert_string_equal(losses[0].why, "overwritten");
	assert_int_equal(losses[0].count, 10);
	trace_close(trace);
}

static void what_was_overwritten_before_the_first_is_counted_from_the_start(void **state)
{
	const char meta[] = "{\"options\":{\"mode\":\"overwrite\"}}";
	struct trace *trace;

	(void)state;
	maker_append(file, CHUNK_META, 0, meta, sizeof(meta) - 1, NULL, 0);
	ten_put(T0);
	ring.stored = ring.used;
	maker_ring_begin(&ring, T0 + 1000);
	ten_put(T0 + 1000);
	maker_ring_store(&ring);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 10);
	assert_int_equal(loss_count, 1);
	assert_string_equal(losses[0].why, "overwritten");
	assert_int_equal(losses[0].count, 10);
	assert_int_equal(losses[0].from_ns, T0);
	assert_int_equal(losses[0].to_ns, T0 + 1000);
	trace_close(trace);
}

static void what_an_earlier_reader_took_is_not_lost(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	ten_put(T0);
	ring.stored = ring.used;
	maker_ring_discard(&ring, RING_CALL, 4, T0 - 500, T0 - 400);
	maker_ring_begin(&ring, T0 + 1000);
	ten_put(T0 + 1000);
	/* It had the header and the first three records of this sub-buffer too. */
	part_store(3, 9);
	maker_ring_begin(&ring, T0 + 2000);
	ten_put(T0 + 2000);
	maker_ring_store(&ring);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 17);
	assert_int_equal(loss_count, 0);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].recorded[RING_IN], 17);
	assert_int_equal(threads[0].discarded[RING_CALL], 0);
	trace_close(trace);
}

static void discarded_events_are_losses_with_their_times_and_kinds(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	ten_put(T0);
	maker_ring_discard(&ring, RING_CALL, 4, T0 + 110, T0 + 150);
	maker_ring_discard(&ring, RING_SEND, 2, T0 + 160, T0 + 170);
	maker_ring_begin(&ring, T0 + 1000);
	ten_put(T0 + 1000);
	maker_ring_store(&ring);
	maker_ring_discard(&ring, RING_CALL, 1, T0 + 1200, T0 + 1200);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 20);
	assert_int_equal(loss_count, 2);
	assert_string_equal(losses[0].why, "discarded");
	assert_int_equal(losses[0].from_ns, T0 + 110);
	assert_int_equal(losses[0].to_ns, T0 + 170);
	assert_int_equal(losses[0].counts[RING_CALL], 4);
	assert_int_equal(losses[0].counts[RING_SEND], 2);
	assert_int_equal(losses[0].count, 6);
	assert_int_equal(losses[1].from_ns, T0 + 1200);
	assert_int_equal(losses[1].to_ns, T0 + 1200);
	assert_int_equal(losses[1].count, 1);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].discarded[RING_CALL], 5);
	assert_int_equal(threads[0].discarded[RING_SEND], 2);
	trace_close(trace);
}

static void counts_taken_too_early_are_no_last_word(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	threads_put(T0);
	ten_put(T0);
	maker_ring_store(&ring);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 10);
	assert_int_equal(loss_count, 0);
	trace_threads(trace, &threads);
	assert_false(threads[0].counted);
	assert_int_equal(threads[0].recorded[RING_IN], 10);
	assert_int_equal(threads[0].tid, 77);
	trace_close(trace);
}

static void events_of_threads_without_an_entry_are_a_loss(void **state)
{
	struct chunk_threads head = {
		.count = 0, .kinds = RING_KINDS, .unclaimed_discarded = 9, .taken_ns = T0 + 50};
	struct trace *trace;

	(void)state;
	maker_append(file, CHUNK_THREADS, 0, &head, sizeof(head), NULL, 0);
	trace = reopen();
	all_read(trace);
	assert_int_equal(loss_count, 1);
	assert_int_equal(losses[0].ring, LOSS_UNCLAIMED);
	assert_int_equal(losses[0].count, 9);
	assert_int_equal(losses[0].counts[RING_UNKNOWN], 9);
	assert_int_equal(losses[0].from_ns, T0);
	assert_int_equal(losses[0].to_ns, T0 + 50);
	trace_close(trace);
}

static void a_length_that_makes_no_sense_costs_the_rest_of_its_piece(void **state)
{
	static const uint16_t lengths[] = {0, 8, 20, 25, 4096};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct trace *trace;

		ten_put(T0);
		((struct ring_record *)(ring.subbuf + sizeof(struct ring_subbuf) + 3 * RUN_BYTES))
			->bytes = lengths[i];
		part_store(0, 5);
		part_store(6, 9);
		threads_put(T0 + 5000);
		trace = reopen();
		all_read(trace);
		PROCESSES_ARE(1, 2, 3, 7, 8, 9, 10);
		assert_int_equal(trace_damage(trace)->damaged_records, 1);
		assert_int_equal(loss_count, 1);
		assert_int_equal(losses[0].count, 3);
		assert_int_equal(losses[0].from_ns, T0 + 30);
		/* Known only from the counts at the end: somewhere between here and there. */
		assert_int_equal(losses[0].to_ns, T0 + 70);
		trace_close(trace);
		unlink(path);
		assert_int_equal(rmdir(directory), 0);
		assert_int_equal(setup(state), 0);
	}
	file_close(file, false);
}

static void kinds_that_are_not_known_are_skipped_and_counted(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	maker_run(&ring, T0 + 10, RING_IN, 1, RING_NO_INDEX);
	maker_ring_put(&ring, T0 + 20, 40, 32, 2);
	maker_run(&ring, T0 + 30, RING_IN, 3, RING_NO_INDEX);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 3);
	assert_int_equal(loss_count, 0);
	assert_int_equal(trace_damage(trace)->unknown_records, 1);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].recorded[40], 1);
	trace_close(trace);
}

static void a_record_too_short_for_its_kind_is_damage(void **state)
{
	struct trace *trace;

	(void)state;
	maker_ring_put(&ring, T0 + 10, RING_CALL, 24, 1);
	maker_run(&ring, T0 + 20, RING_IN, 2, RING_NO_INDEX);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(2);
	assert_int_equal(trace_damage(trace)->damaged_records, 1);
	assert_int_equal(loss_count, 1);
	assert_int_equal(losses[0].counts[RING_CALL], 1);
	trace_close(trace);
}

static void captures_stay_inside_their_records(void **state)
{
	struct trace *trace;
	struct event event;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct ring_call *call =
			maker_ring_put(&ring, T0 + 10, RING_CALL, sizeof(*call) + 16, 1);
		struct ring_capture *capture = (struct ring_capture *)(call + 1);

		call->h.flags = RING_F_CAPTURE;
		capture->bytes = (uint32_t[]){3, 9, 0xffffffff}[i];
		memcpy(capture + 1,
		       "\x83"
		       "a\x07",
		       3);
	}
	maker_call(&ring, T0 + 10, 1, 0, 0)->flags = RING_F_CAPTURE;
	maker_ring_store(&ring);
	trace = reopen();
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(event.etf.bytes, 3);
	assert_memory_equal(event.etf.data,
			    "\x83"
			    "a\x07",
			    3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(trace_next(trace, &event), 1);
		assert_int_equal(event.kind, RING_CALL);
		assert_int_equal(event.etf.bytes, 0);
	}
	assert_int_equal(trace_damage(trace)->damaged_records, 3);
	trace_close(trace);
}

static void time_that_goes_back_in_a_thread_stands_still(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	maker_ring_begin(&ring, T0 + 50);
	maker_run(&ring, T0 + 60, RING_IN, 11, RING_NO_INDEX);
	maker_run(&ring, T0 + 200, RING_IN, 12, RING_NO_INDEX);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 12);
	assert_int_equal(trace_damage(trace)->clamped_records, 1);
	assert_int_equal(loss_count, 0);
	trace_close(trace);
}

static void own_processes_are_left_out_and_counted(void **state)
{
	struct maker_dict dict = {.file = file};
	struct trace *trace;

	(void)state;
	maker_dict_put(&dict, RING_DICT_OWN, 4, NULL, 0, NULL, 0);
	ten_put(T0);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	/* The dictionary may come last: its entries hold from the start. */
	maker_dict_store(&dict);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 5, 6, 7, 8, 9, 10);
	assert_int_equal(trace_own_events(trace, RING_IN), 1);
	assert_int_equal(trace_own_events(trace, RING_OUT), 0);
	trace_close(trace);
}

static void entries_of_the_dictionary_may_lie_across_chunks(void **state)
{
	struct maker_dict dict = {.file = file};
	struct chunk_dict head = {0};
	struct trace *trace;
	char text[200];

	(void)state;
	memset(text, 'a', sizeof(text));
	maker_dict_put(&dict, RING_DICT_ATOM, 5, text, sizeof(text), NULL, 0);
	maker_dict_text(&dict, RING_DICT_ATOM, 6, "six");
	head.offset = 64;
	maker_append(file, CHUNK_DICT, 0, &head, sizeof(head), dict.bytes + 64, dict.used - 64);
	head.offset = 0;
	maker_append(file, CHUNK_DICT, 0, &head, sizeof(head), dict.bytes, 64);
	trace = reopen();
	assert_int_equal(strlen(trace_atom(trace, 5)), sizeof(text));
	assert_string_equal(trace_atom(trace, 6), "six");
	trace_close(trace);
}

static void tids_are_translated_into_the_initial_namespace(void **state)
{
	static const struct chunk_task tasks[] = {{5001, 5000, 77, 0, "1_scheduler"}};
	const struct trace_thread *threads;
	struct trace *trace;
	struct event event;

	(void)state;
	maker_append(file, CHUNK_TASKS, 0, tasks, sizeof(tasks), NULL, 0);
	ten_put(T0);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(event.tid, 5001);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].tid, 5001);
	trace_close(trace);
}

/* ---- The kernel ---- */

static void migrate_put(struct maker_cpu *cpu, uint64_t ts_ns, int32_t tid)
{
	struct probe_migrate *record = maker_cpu_put(cpu, ts_ns, PROBE_MIGRATE, sizeof(*record));

	record->tid = tid;
}

static void kernel_records_come_in_time_order(void **state)
{
	struct maker_cpu *cpu = calloc(1, sizeof(*cpu));
	static const int order[] = {2, 0, 1, 5, 3, 4};
	struct trace *trace;
	struct event event;

	(void)state;
	cpu->file = file;
	cpu->cpu = 3;
	for (int i = 0; i < 600; i++) {
		int at = i / 6 * 6 + order[i % 6];

		migrate_put(cpu, T0 + (uint64_t)at, at);
		if (i % 7 == 0)
			maker_cpu_store(cpu);
	}
	maker_cpu_store(cpu);
	maker_cpu_counts(cpu);
	trace = reopen();
	for (int i = 0; i < 600; i++) {
		assert_int_equal(trace_next(trace, &event), 1);
		assert_int_equal(event.ts_ns, T0 + (uint64_t)i);
		assert_int_equal(event.migrate->tid, i);
		assert_int_equal(event.tid, i);
		assert_int_equal(event.cpu, 3);
		assert_int_equal(event.kind, EVENT_KERNEL + PROBE_MIGRATE);
	}
	assert_int_equal(trace_next(trace, &event), 0);
	assert_int_equal(trace_damage(trace)->clamped_records, 0);
	trace_close(trace);
	free(cpu);
}

static void a_record_later_than_the_window_is_clamped(void **state)
{
	struct maker_cpu *cpu = calloc(1, sizeof(*cpu));
	struct trace *trace;
	struct event event;
	int count = 0;

	(void)state;
	cpu->file = file;
	for (int i = 1; i <= 300; i++)
		migrate_put(cpu, T0 + (uint64_t)i, i);
	migrate_put(cpu, T0, 0);
	maker_cpu_store(cpu);
	trace = reopen();
	for (uint64_t last = 0; trace_next(trace, &event) == 1; last = event.ts_ns, count++)
		assert_true(event.ts_ns >= last);
	assert_int_equal(count, 301);
	assert_int_equal(trace_damage(trace)->clamped_records, 1);
	trace_close(trace);
	free(cpu);
}

static void kernel_losses_come_from_the_counts(void **state)
{
	struct maker_cpu *cpu = calloc(1, sizeof(*cpu));
	const struct probe_counts *counts;
	struct trace *trace;

	(void)state;
	cpu->file = file;
	cpu->cpu = 1;
	migrate_put(cpu, T0 + 10, 1);
	maker_cpu_store(cpu);
	cpu->counts.generated[PROBE_SWITCH] = 8;
	cpu->counts.discarded[PROBE_SWITCH] = 8;
	cpu->counts.loss_first_ns = T0 + 20;
	cpu->counts.loss_last_ns = T0 + 30;
	maker_cpu_counts(cpu);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 1);
	assert_int_equal(loss_count, 1);
	assert_true(losses[0].kernel);
	assert_string_equal(losses[0].why, "discarded");
	assert_int_equal(losses[0].ring, 1);
	assert_int_equal(losses[0].counts[PROBE_SWITCH], 8);
	assert_int_equal(losses[0].from_ns, T0 + 20);
	assert_int_equal(losses[0].to_ns, T0 + 30);
	assert_int_equal(trace_kernel_counts(trace, &counts), 2);
	assert_int_equal(counts[1].discarded[PROBE_SWITCH], 8);
	trace_close(trace);
	free(cpu);
}

/* Turn one bit of the file in the middle of a chunk's payload. */
static void chunk_damage(uint32_t number)
{
	struct file_reader reader;
	uint8_t byte;

	assert_int_equal(file_open(&reader, path), 0);
	FILE *raw = fopen(path, "r+b");
	assert_int_equal(
		fseek(raw,
		      (long)(reader.chunks[number].offset + reader.chunks[number].header.bytes / 2),
		      SEEK_SET),
		0);
	assert_int_equal(fread(&byte, 1, 1, raw), 1);
	byte ^= 0x10;
	fseek(raw, -1, SEEK_CUR);
	assert_int_equal(fwrite(&byte, 1, 1, raw), 1);
	fclose(raw);
	file_reader_close(&reader);
}

static void a_damaged_kernel_chunk_is_a_loss_between_its_neighbours(void **state)
{
	struct maker_cpu *cpu = calloc(1, sizeof(*cpu));
	struct trace *trace;

	(void)state;
	cpu->file = file;
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 10; j++)
			migrate_put(cpu, T0 + (uint64_t)(100 * i + j), 1);
		maker_cpu_store(cpu);
	}
	maker_cpu_counts(cpu);
	assert_int_equal(file_close(file, true), 0);
	chunk_damage(2);
	trace = trace_open(path);
	all_read(trace);
	assert_int_equal(process_count, 20);
	assert_int_equal(trace_damage(trace)->damaged_chunks, 1);
	assert_int_equal(loss_count, 1);
	assert_true(losses[0].kernel);
	assert_string_equal(losses[0].why, "damaged");
	assert_int_equal(losses[0].counts[PROBE_MIGRATE], 10);
	assert_int_equal(losses[0].from_ns, T0 + 9);
	assert_int_equal(losses[0].to_ns, T0 + 200);
	trace_close(trace);
	free(cpu);
}

static void a_damaged_vm_chunk_loses_only_its_records(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	part_store(0, 2);
	part_store(3, 5);
	part_store(6, 9);
	threads_put(T0 + 500);
	assert_int_equal(file_close(file, true), 0);
	chunk_damage(2);
	trace = trace_open(path);
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 7, 8, 9, 10);
	assert_int_equal(loss_count, 1);
	assert_int_equal(losses[0].count, 3);
	assert_int_equal(losses[0].from_ns, T0 + 30);
	assert_int_equal(losses[0].to_ns, T0 + 70);
	trace_close(trace);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_come_as_they_were_written),
		TEST(pieces_come_once_whatever_their_order_and_overlap),
		TEST(a_missing_piece_is_counted_where_it_is_missing),
		TEST(a_missing_end_is_counted_from_the_last_record),
		TEST(a_missing_subbuffer_is_damage_with_a_reader),
		TEST(a_missing_subbuffer_was_overwritten_without_one),
		TEST(what_was_overwritten_before_the_first_is_counted_from_the_start),
		TEST(what_an_earlier_reader_took_is_not_lost),
		TEST(discarded_events_are_losses_with_their_times_and_kinds),
		TEST(counts_taken_too_early_are_no_last_word),
		TEST(events_of_threads_without_an_entry_are_a_loss),
		TEST(a_length_that_makes_no_sense_costs_the_rest_of_its_piece),
		TEST(kinds_that_are_not_known_are_skipped_and_counted),
		TEST(a_record_too_short_for_its_kind_is_damage),
		TEST(captures_stay_inside_their_records),
		TEST(time_that_goes_back_in_a_thread_stands_still),
		TEST(own_processes_are_left_out_and_counted),
		TEST(entries_of_the_dictionary_may_lie_across_chunks),
		TEST(tids_are_translated_into_the_initial_namespace),
		TEST(kernel_records_come_in_time_order),
		TEST(a_record_later_than_the_window_is_clamped),
		TEST(kernel_losses_come_from_the_counts),
		TEST(a_damaged_kernel_chunk_is_a_loss_between_its_neighbours),
		TEST(a_damaged_vm_chunk_loses_only_its_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
