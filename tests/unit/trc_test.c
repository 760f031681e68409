/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of OTP's trace ports: files, wrapped sets, chunks and records of a ring, whole and damaged. */
#include "decode_fixture.h"

#include "../trace/trc_maker.h"
#include "terms.h"

#define NS_PER_S 1000000000ull

static FILE *frames;

static int folder_make(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/bwt_trc_test_XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int folder_remove(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

static void frames_begin(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	frames = fopen(path, "w");
	assert_non_null(frames);
}

static struct trace *frames_read(void)
{
	struct trace *trace;

	assert_int_equal(fclose(frames), 0);
	trace = trace_open(path);
	assert_non_null(trace);
	return trace;
}

/* A send of process 80 to 81 at so many ms. */
static void send_put(long number, long long ms)
{
	ei_x_buff x;

	trc_send(&x, 80, 81, number, ms * 1000000);
	trc_frame_put(frames, &x);
}

/* A file of its own with one send. */
static void member_put(const char *name, long number, long long ms)
{
	frames_begin(name);
	send_put(number, ms);
	assert_int_equal(fclose(frames), 0);
}

/* The numbers in the messages of the sends that are left, and their times. */
static long numbers[64];
static uint64_t times_ns[64];
static uint32_t sends;
static uint64_t lost, lost_from_ns, lost_to_ns;
static const char *lost_why;

static void sends_read(struct trace *trace)
{
	struct event event;
	char text[64];

	sends = 0;
	lost = 0;
	while (trace_next(trace, &event) > 0) {
		if (event.kind == EVENT_LOSS) {
			lost += event.loss->count;
			lost_from_ns = event.loss->from_ns;
			lost_to_ns = event.loss->to_ns;
			lost_why = event.loss->why;
		}
		if (event.kind != RING_SEND || sends == 64)
			continue;
		trace_term_text(trace, event.etf, text, sizeof(text));
		assert_int_equal(sscanf(text, "{metric,%ld}", &numbers[sends]), 1);
		times_ns[sends++] = event.ts_ns;
	}
}

#define SENDS_ARE(...)                                                                             \
	do {                                                                                       \
		const long want[] = {__VA_ARGS__};                                                 \
		assert_int_equal(sends, sizeof(want) / sizeof(want[0]));                           \
		for (uint32_t at = 0; at < sends; at++)                                            \
			assert_int_equal(numbers[at], want[at]);                                   \
	} while (0)

static void a_file_is_put_in_the_order_of_its_times(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	frames_begin("a.trc");
	send_put(1, 100);
	send_put(3, 104);
	send_put(2, 101);
	send_put(4, 250);
	/* Later than the window holds things back: given late, and counted. */
	send_put(5, 120);
	send_put(6, 400);
	trace = frames_read();
	sends_read(trace);
	SENDS_ARE(1, 2, 3, 5, 4, 6);
	assert_int_equal(times_ns[0], NS_PER_S);
	assert_int_equal(times_ns[1], NS_PER_S + 1000000);
	assert_int_equal(times_ns[2], NS_PER_S + 4000000);
	assert_int_equal(times_ns[5], NS_PER_S + 300000000);
	assert_int_equal(trace_damage(trace)->clamped_records, 1);
	trace_rewind(trace);
	sends_read(trace);
	SENDS_ARE(1, 2, 3, 5, 4, 6);
	assert_int_equal(trace_threads(trace, &threads), 1);
	assert_int_equal(threads[0].recorded[RING_SEND], 6);
	assert_string_equal(trace_process_text(trace, 3 | 80 << 4), "<0.80.0>");
	assert_null(trace_vm(trace));
	assert_true(trace_by_message(trace));
	assert_true(trace_dateless(trace));
	assert_false(trace_damage(trace)->no_end);
	trace_close(trace);
}

static void what_the_port_dropped_is_a_loss_between_its_neighbours(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	frames_begin("a.trc");
	send_put(1, 100);
	trc_drop_put(frames, 17);
	send_put(2, 107);
	trace = frames_read();
	sends_read(trace);
	SENDS_ARE(1, 2);
	assert_int_equal(lost, 17);
	assert_int_equal(lost_from_ns, NS_PER_S);
	assert_int_equal(lost_to_ns, NS_PER_S + 7000000);
	assert_string_equal(lost_why, "dropped by the trace port");
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].discarded[RING_UNKNOWN], 17);
	trace_close(trace);
}

static void a_cut_within_a_message_is_said_and_the_rest_is_read(void **state)
{
	struct trace *trace;
	long whole;

	(void)state;
	for (long cut = 1; cut < 77; cut += 5) {
		frames_begin("a.trc");
		send_put(1, 100);
		send_put(2, 101);
		fflush(frames);
		whole = ftell(frames);
		send_put(3, 102);
		fflush(frames);
		assert_int_equal(ftruncate(fileno(frames), whole + cut), 0);
		trace = frames_read();
		sends_read(trace);
		SENDS_ARE(1, 2);
		assert_int_equal(trace_damage(trace)->truncated_bytes, cut);
		assert_int_equal(lost, 1);
		assert_string_equal(lost_why, "damaged");
		trace_close(trace);
	}
}

static void rubbish_between_frames_is_passed_over(void **state)
{
	struct trace *trace;

	(void)state;
	frames_begin("a.trc");
	send_put(1, 100);
	fwrite("\x07rubbish", 1, 8, frames);
	send_put(2, 101);
	/* A length that reaches beyond all that follows. */
	fwrite("\0\x7f\xff\xff\xff\x83\x68\x04\x64\0\x05trace", 1, 16, frames);
	send_put(3, 102);
	trace = frames_read();
	sends_read(trace);
	SENDS_ARE(1, 2, 3);
	assert_int_equal(lost, 2);
	assert_int_equal(trace_damage(trace)->damaged_records, 2);
	assert_int_equal(trace_damage(trace)->skipped_bytes, 24);
	assert_int_equal(trace_damage(trace)->truncated_bytes, 0);
	trace_close(trace);
}

static void a_message_beyond_the_limit_keeps_its_ends(void **state)
{
	static char content[3000000];
	struct trace *trace;
	struct event event;
	ei_x_buff x;

	(void)state;
	frames_begin("a.trc");
	send_put(1, 100);
	trc_message(&x, "trace_ts", 80, "receive", 5);
	ei_x_encode_binary(&x, content, sizeof(content));
	ei_x_encode_longlong(&x, 101000000);
	trc_frame_put(frames, &x);
	send_put(2, 102);
	trace = frames_read();
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(event.kind, RING_RECEIVE);
	assert_int_equal(event.flags & RING_F_CUT, RING_F_CUT);
	assert_int_equal(event.receive->shape.type, RING_T_BINARY);
	assert_int_equal(event.ts_ns, NS_PER_S + 1000000);
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(event.kind, RING_SEND);
	trace_close(trace);
}

static void without_times_the_order_is_kept(void **state)
{
	struct trace *trace;
	struct event event;
	ei_x_buff x;

	(void)state;
	frames_begin("a.trc");
	for (long i = 0; i < 3; i++) {
		trc_message(&x, "trace", 80, "receive", 4);
		ei_x_encode_long(&x, i);
		trc_frame_put(frames, &x);
	}
	trace = frames_read();
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(trace_next(trace, &event), 1);
		assert_int_equal(event.ts_ns, NS_PER_S + i * 1000);
		assert_int_equal(event.etf.data[1], i);
	}
	trace_close(trace);
}

static void a_wrapped_set_is_read_from_the_gap_on(void **state)
{
	static const char *const given[] = {"w0.trc", "w1.trc", "w3.trc", "w4.trc"};
	const char *const *notes;
	struct trace *trace;

	(void)state;
	member_put("w0.trc", 3, 103);
	member_put("w1.trc", 4, 104);
	member_put("w3.trc", 1, 101);
	member_put("w4.trc", 2, 102);
	member_put("w.trc", 9, 109);
	member_put("w01.trc", 9, 109);
	member_put("other.trc", 9, 109);
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, given[i]);
		trace = trace_open(path);
		assert_non_null(trace);
		sends_read(trace);
		SENDS_ARE(1, 2, 3, 4);
		assert_int_equal(trace_notes(trace, &notes), 2);
		assert_string_equal(notes[0], "wN.trc is a wrapped set of 4 files, read in the "
					      "order 3 4 0 1");
		trace_close(trace);
	}
	snprintf(path, sizeof(path), "%s/other.trc", directory);
	trace = trace_open(path);
	sends_read(trace);
	SENDS_ARE(9);
	trace_close(trace);
}

/* Two gaps: these are no wrapped set, and each is read by itself. */
static void files_with_numbers_are_not_always_a_set(void **state)
{
	struct trace *trace;

	(void)state;
	member_put("day1.trc", 1, 101);
	member_put("day3.trc", 3, 103);
	member_put("day5.trc", 5, 105);
	trace = trace_open(path);
	sends_read(trace);
	SENDS_ARE(5);
	trace_close(trace);
}

static void what_is_neither_is_refused(void **state)
{
	(void)state;
	frames_begin("a.trc");
	fwrite("\0\0\0\0\x05hello", 1, 10, frames);
	fclose(frames);
	assert_null(trace_open(path));
	assert_int_equal(errno, EINVAL);
}

/* ---- In recordings ---- */

/* A frame cut into chunks of 7 bytes each, which came 1 ms apart. */
static void chunks_are_one_stream(void **state)
{
	struct chunk_trc head = {.received_ns = T0 + 5 * NS_PER_S};
	struct trace *trace;
	char *data = NULL;
	size_t bytes = 0;

	(void)state;
	frames = open_memstream(&data, &bytes);
	send_put(1, 100);
	send_put(2, 101);
	fclose(frames);
	for (size_t at = 0; at < bytes; at += 7) {
		head.offset = at;
		maker_append(file, CHUNK_TRC, 0, &head, sizeof(head), data + at,
			     bytes - at < 7 ? (uint32_t)(bytes - at) : 7);
		head.received_ns += 1000000;
	}
	free(data);
	trace = reopen();
	sends_read(trace);
	SENDS_ARE(1, 2);
	/* No samples of the VM's clock: the time at which its last byte came. */
	assert_int_equal(times_ns[0], T0 + 5 * NS_PER_S + (bytes / 2 - 1) / 7 * 1000000);
	assert_int_equal(times_ns[1], T0 + 5 * NS_PER_S + (bytes - 1) / 7 * 1000000);
	trace_close(trace);
}

static void record_put(long number, uint64_t arrived_ns, long long sent_ms)
{
	struct ring_term *term;
	ei_x_buff x;

	trc_send(&x, 80, 81, number, sent_ms * 1000000);
	term = maker_ring_put(&ring, arrived_ns, RING_SEND,
			      (sizeof(*term) + (size_t)x.index + 7) & ~(size_t)7, 0);
	term->h.flags = RING_F_TERM;
	term->bytes = (uint32_t)x.index;
	term->tail_bytes = 0;
	memcpy(term + 1, x.buff, (size_t)x.index);
	ei_x_free(&x);
}

static void records_of_a_ring_get_their_own_times(void **state)
{
	/* The VM's clock began 3 s before ours and runs a thousandth slower. */
	struct ring_dict_clock clock = {.per_second = 1000000000};
	static struct maker_dict dict;
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	dict.file = file;
	clock.clock_ns = 10 * NS_PER_S;
	clock.erlang = 13000000000;
	maker_dict_put(&dict, RING_DICT_CLOCK, 0, &clock, sizeof(clock), NULL, 0);
	clock.clock_ns = 20 * NS_PER_S;
	clock.erlang = 22990000000;
	maker_dict_put(&dict, RING_DICT_CLOCK, 0, &clock, sizeof(clock), NULL, 0);
	maker_dict_store(&dict);
	record_put(2, 15 * NS_PER_S, 13000 + 999);
	record_put(1, 15 * NS_PER_S + 10, 13000);
	record_put(3, 15 * NS_PER_S + 20, 13000 + 1998);
	/* A time after its arrival is nonsense. */
	record_put(4, 15 * NS_PER_S + 30, 90000);
	maker_ring_store(&ring);
	threads_put(30 * NS_PER_S);
	trace = reopen();
	sends_read(trace);
	assert_int_equal(lost, 0);
	SENDS_ARE(1, 2, 3, 4);
	assert_int_equal(times_ns[0], 10 * NS_PER_S);
	assert_int_equal(times_ns[1], 11 * NS_PER_S);
	assert_int_equal(times_ns[2], 12 * NS_PER_S);
	assert_int_equal(times_ns[3], 15 * NS_PER_S + 30);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].recorded[RING_SEND], 4);
	trace_close(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_is_put_in_the_order_of_its_times,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(
			what_the_port_dropped_is_a_loss_between_its_neighbours, folder_make,
			folder_remove),
		cmocka_unit_test_setup_teardown(a_cut_within_a_message_is_said_and_the_rest_is_read,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(rubbish_between_frames_is_passed_over, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(a_message_beyond_the_limit_keeps_its_ends,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(without_times_the_order_is_kept, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(a_wrapped_set_is_read_from_the_gap_on, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(files_with_numbers_are_not_always_a_set,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(what_is_neither_is_refused, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(chunks_are_one_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(records_of_a_ring_get_their_own_times, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
