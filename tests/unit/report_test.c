/* SPDX-License-Identifier: Apache-2.0 */

/* Reports: moments, sections fed by hand, and whole ones. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lines.h"
#include "moment.h"
#include "report.h"
#include "report_feed.h"
#include "report_fixture.h"
#include "section.h"

/* The text of a report, to be freed. */
static char *report_text(struct fixture *fixture, const char *section, bool json, int expect)
{
	struct report_options options = fixture->options;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	options.section = report_section(section);
	options.json = json;
	assert_int_equal(report_print(fixture->trace, &options, out), expect);
	fclose(out);
	return text;
}

/* ---- Moments ---- */

static void moments_are_wall_clock_times(void **state)
{
	struct fixture *fixture = *state;
	char text[MOMENT_TEXT];

	assert_string_equal(moment_time(text, fixture->trace, MS(1234)), "14:03:06.234000");
	assert_string_equal(moment_seconds(text, fixture->trace, START), "14:03:05");
	assert_string_equal(moment_date(text, fixture->trace, START), "2026-11-30 14:03:05");
	assert_string_equal(moment_iso(text, fixture->trace, MS(1)),
			    "2026-11-30T14:03:05.001000+00:00");
}

static void moments_are_parsed_as_people_type_them(void **state)
{
	struct fixture *fixture = *state;
	uint64_t ts_ns = 0;

	assert_int_equal(moment_parse(fixture->trace, "14:03:06", &ts_ns), 0);
	assert_int_equal(ts_ns, MS(1000));
	assert_int_equal(moment_parse(fixture->trace, "14:03:06.25", &ts_ns), 0);
	assert_int_equal(ts_ns, MS(1250));
	assert_int_equal(moment_parse(fixture->trace, "14:04", &ts_ns), 0);
	assert_int_equal(ts_ns, MS(55000));
	assert_int_equal(moment_parse(fixture->trace, "13:03:05", &ts_ns), 0);
	assert_int_equal(ts_ns, 0); /* before the clock began */
	assert_int_equal(moment_parse(fixture->trace, "+1.5s", &ts_ns), 0);
	assert_int_equal(ts_ns, MS(1500));
	assert_int_equal(moment_parse(fixture->trace, "1001000000007ns", &ts_ns), 0);
	assert_int_equal(ts_ns, MS(1000) + 7);
	assert_int_equal(moment_parse(fixture->trace, "24:00", &ts_ns), -EINVAL);
	assert_int_equal(moment_parse(fixture->trace, "14:60", &ts_ns), -EINVAL);
	assert_int_equal(moment_parse(fixture->trace, "14:03:05x", &ts_ns), -EINVAL);
	assert_int_equal(moment_parse(fixture->trace, "14", &ts_ns), -EINVAL);
	assert_int_equal(moment_parse(fixture->trace, "1ms", &ts_ns), -EINVAL);
	assert_int_equal(moment_parse(fixture->trace, "", &ts_ns), -EINVAL);
}

/* ---- Sections, fed by hand ---- */

static uint64_t number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return (uint64_t)json_integer_value(value);
}

static void a_threads_states_add_up_to_the_window(void **state)
{
	static const char *const keys[] = {"running_ns", "runnable_ns", "sleeping_ns",
					   "blocked_ns", "stopped_ns",	"unknown_ns"};
	struct fixture *fixture = *state;
	struct timeline_sink sink = {0}, none = {0};
	struct thread_interval intervals[] = {
		{.tid = 7, .state = THREAD_RUNNING, .start_ns = MS(0), .end_ns = MS(1500)},
		{.tid = 7, .state = THREAD_STOPPED, .start_ns = MS(1500), .end_ns = MS(1550)},
		{.tid = 7, .state = THREAD_SLEEPING, .start_ns = MS(1550), .end_ns = MS(3000)},
		{.tid = 7,
		 .state = THREAD_RUNNABLE,
		 .preempted = true,
		 .start_ns = MS(3000),
		 .end_ns = MS(9000),
		 .open = true},
	};
	const uint64_t expect_ms[] = {500, 1000, 1450, 0, 50, 0};
	void *threads;
	json_t *json, *thread;

	/* a window from 1 s to 4 s, cut into the first and the last interval */
	fixture->report.from_ns = MS(1000);
	fixture->report.to_ns = MS(4000);
	fixture->report.whole = false;
	fixture->report.timeline = timeline_new(fixture->trace, &none, 1);
	assert_int_equal(timeline_run((struct timeline *)fixture->report.timeline), 0);
	threads = section_threads.open(&fixture->report, &sink);
	for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++)
		sink.thread(sink.context, &intervals[i]);
	json = section_threads.json(threads);
	thread = json_array_get(json_object_get(json, "threads"), 0);
	assert_int_equal(number(thread, "tid"), 7);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_int_equal(number(thread, keys[i]), expect_ms[i] * 1000000);
	assert_int_equal(number(json, "duration_ns"), 3 * SECOND);
	assert_int_equal(number(thread, "preemptions"), 1);
	assert_int_equal(number(thread, "switches"), 1);
	json_decref(json);
	section_threads.close(threads);
	timeline_free((struct timeline *)fixture->report.timeline);
}

static void the_parts_of_calls_add_up(void **state)
{
	static const char *const parts[] = {"on_cpu",	"gc",	   "run_queue", "waiting",
					    "runnable", "blocked", "unknown"};
	struct fixture *fixture = *state;
	struct timeline_sink sink = {0};
	void *calls = section_calls.open(&fixture->report, &sink);
	json_t *json, *call, *slowest;
	uint64_t sum = 0;

	for (uint64_t i = 1; i <= 20; i++) {
		struct call_interval interval = {.id = i,
						 .process = PID(100),
						 .mfa = 5,
						 .caller = i == 1 ? RING_NO_INDEX : 6,
						 .start_ns = MS(i),
						 .end_ns = MS(i) + i * 1000,
						 .how = i == 20 ? CALL_OPEN : CALL_RETURNED,
						 .certain = true,
						 .gc_ns = i * 100};

		sink.call(sink.context, &interval);
	}
	json = section_calls.json(calls);
	call = json_array_get(json_object_get(json, "calls"), 0);
	assert_int_equal(json_array_size(json_object_get(json, "calls")), 1);
	assert_int_equal(number(call, "count"), 20);
	assert_int_equal(number(call, "open"), 1);
	assert_int_equal(number(call, "total_ns"), 210000);
	assert_int_equal(number(call, "p50_ns"), 10000);
	assert_int_equal(number(call, "p90_ns"), 18000);
	assert_int_equal(number(call, "p99_ns"), 20000);
	assert_int_equal(number(call, "max_ns"), 20000);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		sum += (uint64_t)json_integer_value(
			json_object_get(json_object_get(call, "parts_ns"), parts[i]));
	assert_int_equal(sum, 210000);
	assert_int_equal(number(json_object_get(call, "parts_ns"), "gc"), 21000);
	/* most callers first */
	assert_int_equal(number(json_array_get(json_object_get(call, "callers"), 0), "count"), 19);
	slowest = json_object_get(call, "slowest");
	assert_int_equal(json_array_size(slowest), 10);
	assert_int_equal(number(json_array_get(slowest, 0), "duration_ns"), 20000);
	assert_int_equal(number(json_array_get(slowest, 9), "duration_ns"), 11000);
	json_decref(json);
	section_calls.close(calls);
}

static void stalls_of_all_schedulers_at_once_are_one_burst(void **state)
{
	struct fixture *fixture = *state;
	struct timeline_sink sink = {0};
	void *stalls = section_stalls.open(&fixture->report, &sink);
	struct stall stall = {.tid = 1001,
			      .role = RING_ROLE_NORMAL,
			      .number = 1,
			      .start_ns = MS(100),
			      .end_ns = MS(150),
			      .cause = STALL_STOPPED,
			      .mfa = RING_NO_INDEX,
			      .syscall = -1,
			      .certain = true,
			      .evidence = "state T"};
	json_t *json, *group, *list;

	sink.stall(sink.context, &stall);
	stall.tid = 1002;
	stall.number = 2;
	stall.start_ns = MS(101);
	stall.end_ns = MS(151);
	sink.stall(sink.context, &stall);
	stall.start_ns = MS(500);
	stall.end_ns = MS(510);
	sink.stall(sink.context, &stall);
	stall.cause = STALL_PREEMPTED;
	memcpy(stall.by_comm, "0123456789abcdef", 16); /* not terminated */
	stall.by_tid = 9;
	sink.stall(sink.context, &stall);
	json = section_stalls.json(stalls);
	list = json_object_get(json, "groups");
	assert_int_equal(json_array_size(list), 2);
	group = json_array_get(list, 0);
	assert_string_equal(json_string_value(json_object_get(group, "cause")), "stopped");
	assert_int_equal(number(group, "count"), 3);
	assert_int_equal(number(group, "total_ns"), 110000000);
	assert_int_equal(number(group, "p50_ns"), 50000000);
	list = json_object_get(group, "bursts");
	assert_int_equal(json_array_size(list), 2);
	assert_int_equal(number(json_array_get(list, 0), "start_ns"), MS(100));
	assert_int_equal(number(json_array_get(list, 0), "duration_ns"), 51000000);
	assert_int_equal(number(json_array_get(list, 0), "threads"), 2);
	list = json_object_get(json, "stalls");
	assert_int_equal(json_array_size(list), 4);
	/* longest first, then the earliest */
	assert_int_equal(number(json_object_get(json_array_get(list, 0), "thread"), "number"), 1);
	assert_string_equal(json_string_value(json_object_get(
				    json_object_get(json_array_get(list, 3), "detail"), "by")),
			    "0123456789abcdef");
	json_decref(json);
	section_stalls.close(stalls);
}

static void a_stall_over_a_gap_is_not_certain(void **state)
{
	struct fixture *fixture = *state;
	struct timeline_sink sink = {0};
	void *stalls = section_stalls.open(&fixture->report, &sink);
	struct stall stall = {.tid = 1,
			      .start_ns = MS(100),
			      .end_ns = MS(150),
			      .cause = STALL_STOPPED,
			      .mfa = RING_NO_INDEX,
			      .syscall = -1,
			      .certain = true};
	json_t *json;

	gap_add(&fixture->report.gaps, MS(120), MS(130), 3, true);
	sink.stall(sink.context, &stall);
	json = section_stalls.json(stalls);
	assert_true(json_is_false(
		json_object_get(json_array_get(json_object_get(json, "stalls"), 0), "certain")));
	json_decref(json);
	section_stalls.close(stalls);
}

static void messages_are_counted_by_pair_and_by_receiver(void **state)
{
	struct fixture *fixture = *state;
	struct timeline_sink sink = {0};
	void *messages = section_messages.open(&fixture->report, &sink);
	json_t *json, *pair, *receiver;

	for (uint64_t i = 0; i < 10; i++) {
		struct message message = {.from = PID(1),
					  .to = PID(2),
					  .sent_ns = MS(i),
					  .fetched_ns = i < 8 ? MS(i) + (i + 1) * 1000 : 0,
					  .ran_ns = MS(i) + 500,
					  .shape = {.type = RING_T_BINARY}};

		sink.message(sink.context, &message);
	}
	/* one whose send was not seen, one to nobody */
	sink.message(sink.context, &(struct message){.to = PID(2),
						     .fetched_ns = MS(20),
						     .shape = {.type = RING_T_NIL}});
	sink.message(
		sink.context,
		&(struct message){.from = PID(1), .to = PID(3), .sent_ns = MS(21), .noproc = true});
	json = section_messages.json(messages);
	assert_int_equal(json_array_size(json_object_get(json, "pairs")), 3);
	pair = json_array_get(json_object_get(json, "pairs"), 0);
	assert_int_equal(number(pair, "count"), 10);
	assert_int_equal(number(pair, "unmatched"), 2);
	assert_int_equal(number(json_object_get(pair, "fetched_ns"), "p50"), 4000);
	assert_int_equal(number(json_object_get(pair, "fetched_ns"), "max"), 8000);
	assert_int_equal(number(json_object_get(pair, "to_run_ns"), "p99"), 500);
	assert_true(json_is_null(json_object_get(pair, "handled_ns")));
	assert_int_equal(json_array_size(json_object_get(json, "receivers")), 1);
	receiver = json_array_get(json_object_get(json, "receivers"), 0);
	assert_int_equal(number(receiver, "arrived"), 11);
	assert_int_equal(number(receiver, "fetched"), 9);
	assert_int_equal(number(receiver, "longest_wait_ns"), 8000);
	assert_int_equal(json_array_size(json_object_get(receiver, "by_tag")), 2);
	assert_int_equal(number(json_array_get(json_object_get(receiver, "by_tag"), 0), "count"),
			 10);
	json_decref(json);
	section_messages.close(messages);
}

static void gc_event(struct timeline_sink *sink, uint32_t kind, uint64_t ts_ns)
{
	struct event event = {.kind = kind, .ts_ns = ts_ns, .tid = 7, .process = PID(1)};

	sink->event(sink->context, &event);
}

static void a_switch(struct timeline_sink *sink, uint64_t ts_ns, int32_t prev, int32_t next)
{
	struct probe_switch record = {.prev_tid = prev, .next_tid = next};
	struct event event = {.kind = EVENT_KERNEL + PROBE_SWITCH, .ts_ns = ts_ns};

	record.flags = (prev == 7 ? PROBE_PREV_TARGET : 0) | (next == 7 ? PROBE_NEXT_TARGET : 0);
	event.sched_switch = &record;
	sink->event(sink->context, &event);
}

static void a_gc_is_known_by_its_time_on_a_cpu(void **state)
{
	struct fixture *fixture = *state;
	struct timeline_sink sink = {0};
	void *gcs = section_gc.open(&fixture->report, &sink);
	struct gc_interval gc = {
		.process = PID(1), .tid = 7, .major = true, .start_ns = MS(100), .end_ns = MS(140)};
	json_t *json, *row;

	/* from 100 to 140, but another task had the CPU from 110 to 135 */
	gc_event(&sink, RING_GC_MAJOR_START, MS(100));
	a_switch(&sink, MS(110), 7, 9);
	a_switch(&sink, MS(135), 9, 7);
	gc_event(&sink, RING_GC_MAJOR_END, MS(140));
	sink.gc(sink.context, &gc);
	/* a second one that had the CPU all the time */
	gc_event(&sink, RING_GC_MINOR_START, MS(150));
	gc_event(&sink, RING_GC_MINOR_END, MS(152));
	gc.major = false;
	gc.start_ns = MS(150);
	gc.end_ns = MS(152);
	gc.reclaimed_words = 5;
	sink.gc(sink.context, &gc);
	json = section_gc.json(gcs);
	row = json_array_get(json_object_get(json, "processes"), 0);
	assert_int_equal(number(row, "major"), 1);
	assert_int_equal(number(row, "minor"), 1);
	assert_int_equal(number(row, "total_ns"), 42000000);
	assert_int_equal(number(row, "max_ns"), 40000000);
	assert_int_equal(number(row, "on_cpu_ns"), 17000000);
	assert_int_equal(number(row, "reclaimed_words"), 5);
	json_decref(json);
	/* over a loss of the kernel's records it is not known */
	gap_add(&fixture->report.gaps, MS(151), MS(153), 1, true);
	sink.gc(sink.context, &gc);
	json = section_gc.json(gcs);
	row = json_array_get(json_object_get(json, "processes"), 0);
	assert_true(json_is_null(json_object_get(row, "on_cpu_ns")));
	json_decref(json);
	section_gc.close(gcs);
}

/* ---- Whole reports of a recording in which nothing happened ---- */

static void every_section_prints_what_it_lacks(void **state)
{
	struct fixture *fixture = *state;

	for (size_t i = 0; report_sections()[i]; i++) {
		const char *name = report_section_name(report_sections()[i]);
		char *text = report_text(fixture, name, false, 0);
		json_t *json;

		lines_fit(text);
		assert_memory_equal(text, "beamweave.bwt: a@b?[31m (pid 42)", 32);
		free(text);
		text = report_text(fixture, name, true, 0);
		json = json_loads(text, 0, NULL);
		assert_int_equal(number(json, "schema"), 1);
		assert_true(json_is_null(json_object_get(json, "damage")));
		assert_null(strchr(text, '\033'));
		json_decref(json);
		free(text);
	}
}

static void what_was_not_looked_at_is_told_with_its_mending(void **state)
{
	struct fixture *fixture = *state;
	char *text = report_text(fixture, "findings", false, 0);

	assert_non_null(strstr(text, "no CAP_BPF. To have them: run as root"));
	/* calls were traced: that is no lack */
	assert_null(strstr(text, "-c MODULE"));
	free(text);
	text = report_text(fixture, "findings", true, 0);
	assert_non_null(strstr(text, "\"beamweave record -p 42 --messages\""));
	assert_non_null(strstr(text, "\"run as root\""));
	free(text);
	text = report_text(fixture, "calls", false, 0);
	assert_non_null(strstr(text, "function calls were recorded, but there were none"));
	free(text);
	text = report_text(fixture, "stalls", false, 0);
	assert_non_null(strstr(text, "Not recorded: the kernel's scheduling of the VM's threads "
				     "(no CAP_BPF)"));
	free(text);
}

static void runs_of_probes_that_the_kernel_left_out_are_told(void **state)
{
	char *text = report_text(*state, "summary", false, 0);

	assert_non_null(strstr(text, "the kernel left out 7 runs of probes"));
	free(text);
}

static void what_a_port_does_is_left_out_when_the_vm_does_not_tell(void **state)
{
	struct fixture *fixture = *state;
	struct ring_name record = {0};
	struct event event = {.kind = RING_PORT_IN, .ts_ns = START, .cpu = -1, .name = &record};
	struct text_builder text;
	char line[200];

	text_begin(&text, line, sizeof(line));
	lines_text(fixture->trace, &event, &text);
	text_finish(&text);
	assert_string_equal(line, "14:03:05.000000  -         port on a scheduler");
}

static void a_full_disk_is_an_error(void **state)
{
	struct fixture *fixture = *state;
	struct report_options options = fixture->options;
	FILE *full = fopen("/dev/full", "w");

	assert_non_null(full);
	options.json = false;
	assert_int_equal(report_print(fixture->trace, &options, full), -ENOSPC);
	fclose(full);
}

#define RECORDED(test) cmocka_unit_test_setup_teardown(test, recording_open, recording_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECORDED(moments_are_wall_clock_times),
		RECORDED(moments_are_parsed_as_people_type_them),
		RECORDED(a_threads_states_add_up_to_the_window),
		RECORDED(the_parts_of_calls_add_up),
		RECORDED(stalls_of_all_schedulers_at_once_are_one_burst),
		RECORDED(a_stall_over_a_gap_is_not_certain),
		RECORDED(messages_are_counted_by_pair_and_by_receiver),
		RECORDED(a_gc_is_known_by_its_time_on_a_cpu),
		RECORDED(every_section_prints_what_it_lacks),
		RECORDED(what_was_not_looked_at_is_told_with_its_mending),
		RECORDED(runs_of_probes_that_the_kernel_left_out_are_told),
		RECORDED(what_a_port_does_is_left_out_when_the_vm_does_not_tell),
		RECORDED(a_full_disk_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
