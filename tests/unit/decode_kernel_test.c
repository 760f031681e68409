/* SPDX-License-Identifier: Apache-2.0 */
/* From the kernel's records to events in time order, and what damaged chunks cost. */
#include "decode_fixture.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kernel_records_come_in_time_order),
		TEST(a_record_later_than_the_window_is_clamped),
		TEST(kernel_losses_come_from_the_counts),
		TEST(a_damaged_kernel_chunk_is_a_loss_between_its_neighbours),
		TEST(a_damaged_vm_chunk_loses_only_its_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
