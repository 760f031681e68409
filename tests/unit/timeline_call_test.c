/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by depth. Besides cases worked out by hand, random programs run on a model of the VM's
 * stack (return_to frames, tail calls, catches, untraced functions), which gives both the events and the
 * truth; on OTP 25 (F = 1, k = 0) and on 27 and 29 (F = 2, k = 1).
 */
#include <stdio.h>

#include "call.h"
#include "timeline_feed.h"

struct log {
	struct call_interval calls[FEED_MAX];
	size_t count;
};

struct bench {
	struct log log;
	struct timeline_sink sink;
	struct calls calls;
	struct process process;
	uint64_t now_ns;
};

static void log_call(void *context, const struct call_interval *interval)
{
	struct log *log = context;

	assert_true(log->count < FEED_MAX);
	log->calls[log->count++] = *interval;
}

static struct bench *bench_new(uint32_t frame_words, uint32_t return_slack)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	bench->sink.context = &bench->log;
	bench->sink.call = log_call;
	bench->calls.sink = &bench->sink;
	bench->calls.frame_words = frame_words;
	bench->calls.return_slack = return_slack;
	bench->process.totals.process = PID(1);
	return bench;
}

static void bench_free(struct bench *bench)
{
	call_finish(&bench->calls, &bench->process, bench->now_ns, CALL_OPEN);
	calls_free(&bench->calls);
	free(bench);
}

static void call_at(struct bench *bench, uint32_t mfa, uint32_t depth, uint32_t frame,
		    uint32_t tail)
{
	struct ring_call record = {.mfa = mfa, .depth = depth, .frame = frame, .tail = tail};
	struct event event = feed_vm(++bench->now_ns, RING_CALL, 1, PID(1), &record);

	assert_int_equal(call_event(&bench->calls, &bench->process, &event), 0);
}

static void return_to(struct bench *bench, uint32_t mfa, uint32_t depth)
{
	struct ring_return_to record = {.mfa = mfa, .depth = depth};
	struct event event = feed_vm(++bench->now_ns, RING_RETURN_TO, 1, PID(1), &record);

	call_return_to(&bench->calls, &bench->process, &event);
}

static void value_of(struct bench *bench, uint32_t kind, uint32_t mfa)
{
	struct ring_value record = {.mfa = mfa};
	struct event event = feed_vm(++bench->now_ns, kind, 1, PID(1), &record);

	call_value(&bench->calls, &bench->process, &event);
}

static void expect_call(const struct bench *bench, size_t i, uint64_t id, uint64_t parent,
			uint64_t start_ns, uint64_t end_ns, enum call_end how)
{
	const struct call_interval *call = &bench->log.calls[i];

	assert_true(i < bench->log.count);
	assert_int_equal(call->id, id);
	assert_int_equal(call->parent, parent);
	assert_int_equal(call->start_ns, start_ns);
	assert_int_equal(call->end_ns, end_ns);
	assert_int_equal(call->how, how);
}

#define NONE RING_NO_DEPTH

static void body_calls_nest(void **unused)
{
	struct bench *bench = bench_new(1, 0);

	(void)unused;
	call_at(bench, 1, 10, NONE, 0); /* 1: frame at 11 */
	call_at(bench, 2, 13, 11, 0); /* 2 */
	call_at(bench, 3, 16, 14, 0); /* 3 */
	return_to(bench, 2, 16); /* 4 */
	return_to(bench, 1, 13); /* 5 */
	call_at(bench, 2, 13, 11, 0); /* 6 */
	return_to(bench, 1, 13); /* 7 */
	return_to(bench, 0, 10); /* 8 */
	assert_int_equal(bench->log.count, 4);
	expect_call(bench, 0, 3, 2, 3, 4, CALL_RETURNED);
	expect_call(bench, 1, 2, 1, 2, 5, CALL_RETURNED);
	expect_call(bench, 2, 4, 1, 6, 7, CALL_RETURNED);
	expect_call(bench, 3, 1, 0, 1, 8, CALL_RETURNED);
	assert_int_equal(bench->log.calls[0].level, 2);
	assert_int_equal(bench->log.calls[0].caller, 2);
	assert_int_equal(bench->log.calls[3].caller, RING_NO_INDEX);
	assert_true(bench->log.calls[3].certain);
	bench_free(bench);
}

static void a_million_tail_calls_keep_one_chain(void **unused)
{
	struct bench *bench = bench_new(1, 0);
	struct ring_call record = {.mfa = 1, .depth = 11, .frame = 11, .tail = 1};
	struct event event = feed_vm(0, RING_CALL, 1, PID(1), &record);
	int i;

	(void)unused;
	bench->sink.call = NULL;
	call_at(bench, 1, 10, NONE, 0);
	for (i = 0; i < 1000000; i++) {
		event.ts_ns = ++bench->now_ns;
		assert_int_equal(call_event(&bench->calls, &bench->process, &event), 0);
	}
	bench->sink.call = log_call;
	return_to(bench, 0, 10);
	expect_call(bench, 0, 1000001, 0, 1000001, 1000002, CALL_RETURNED);
	assert_int_equal(bench->log.calls[0].level, 0);
	bench_free(bench);
}

static void what_was_thrown_past_a_catch_ends_unseen(void **unused)
{
	struct bench *bench = bench_new(1, 0);

	(void)unused;
	call_at(bench, 1, 10, NONE, 0); /* catches in a frame of its own */
	call_at(bench, 2, 14, 11, 0);
	call_at(bench, 3, 18, 15, 0); /* throws; caught in 1, no event */
	call_at(bench, 4, 14, 11, 0); /* as deep as 2 was: 2 and 3 are gone */
	return_to(bench, 1, 14);
	return_to(bench, 0, 10);
	assert_int_equal(bench->log.count, 4);
	expect_call(bench, 0, 3, 2, 3, 4, CALL_UNSEEN);
	expect_call(bench, 1, 2, 1, 2, 4, CALL_UNSEEN);
	assert_false(bench->log.calls[0].certain);
	expect_call(bench, 2, 4, 1, 4, 5, CALL_RETURNED);
	expect_call(bench, 3, 1, 0, 1, 6, CALL_RETURNED);
	bench_free(bench);
}

static void the_scan_tells_what_depth_alone_does_not(void **unused)
{
	struct bench *bench = bench_new(1, 0);

	(void)unused;
	call_at(bench, 1, 10, NONE, 0); /* 1: frame at 11 */
	call_at(bench, 2, 14, 11, 0); /* 2: frame at 15; throws, caught in 1 */
	call_at(bench, 3, 15, 11, 0); /* 3: exactly where a tail call of 2 would be: is none */
	call_at(bench, 4, 30, 11, 0); /* 4: 3's frame is gone as well */
	return_to(bench, 1, 30); /* 5 */
	return_to(bench, 0, 10); /* 6 */
	assert_int_equal(bench->log.count, 4);
	expect_call(bench, 0, 2, 1, 2, 3, CALL_UNSEEN);
	expect_call(bench, 1, 3, 1, 3, 4, CALL_UNSEEN);
	expect_call(bench, 2, 4, 1, 4, 5, CALL_RETURNED);
	expect_call(bench, 3, 1, 0, 1, 6, CALL_RETURNED);
	bench_free(bench);
}

static void a_stack_that_was_thrown_away_shows_at_the_next_call(void **unused)
{
	struct bench *bench = bench_new(1, 0);

	(void)unused;
	call_at(bench, 1, 10, NONE, 0);
	call_at(bench, 2, 20, 11, 0);
	call_at(bench, 3, 50, NONE, 0); /* the whole stack was looked at: nothing is below */
	call_at(bench, 4, 200, NONE, 0); /* 64 words were: 3 may be there */
	assert_int_equal(bench->log.count, 2);
	call_finish(&bench->calls, &bench->process, 9, CALL_EXITED);
	assert_int_equal(bench->log.count, 4);
	expect_call(bench, 2, 4, 3, 4, 9, CALL_EXITED);
	expect_call(bench, 3, 3, 0, 3, 9, CALL_EXITED);
	bench_free(bench);
}

static void return_from_ends_a_call_by_its_name(void **unused)
{
	struct bench *bench = bench_new(1, 0);

	(void)unused;
	/* frames of return_trace take 3 words each and stay over tail calls; there are no others */
	bench->calls.returns = true;
	call_at(bench, 1, 10, NONE, 0); /* 1 */
	call_at(bench, 2, 13, NONE, 0); /* 2: tail-called by 1 */
	call_at(bench, 3, 20, NONE, 0); /* 3: called by 2 */
	value_of(bench, RING_EXCEPTION_FROM, 3); /* 4: caught by 2 */
	value_of(bench, RING_RETURN_FROM, 2); /* 5 */
	value_of(bench, RING_RETURN_FROM, 1); /* 6 */
	assert_int_equal(bench->log.count, 3);
	expect_call(bench, 0, 3, 2, 3, 4, CALL_EXCEPTION);
	expect_call(bench, 1, 2, 1, 2, 5, CALL_RETURNED);
	expect_call(bench, 2, 1, 0, 1, 6, CALL_RETURNED);
	bench_free(bench);
}

static void return_from_of_calls_that_are_not_kept_ends_no_other(void **unused)
{
	struct bench *bench = bench_new(1, 0);
	uint32_t i;

	(void)unused;
	bench->calls.returns = true;
	for (i = 0; i < CALL_LEVELS + 3; i++)
		call_at(bench, 1, 10 + 3 * i, NONE, 0);
	assert_int_equal(bench->log.count, 3);
	for (i = 0; i < 3; i++)
		value_of(bench, RING_RETURN_FROM, 1);
	assert_int_equal(bench->log.count, 3);
	value_of(bench, RING_RETURN_FROM, 1);
	expect_call(bench, 3, CALL_LEVELS, CALL_LEVELS - 1, CALL_LEVELS, CALL_LEVELS + 7,
		    CALL_RETURNED);
	bench->sink.call = NULL;
	bench_free(bench);
}

static void deep_recursion_is_bounded_and_every_call_counted(void **unused)
{
	struct bench *bench = bench_new(1, 0);
	uint32_t i;

	(void)unused;
	for (i = 0; i < CALL_LEVELS + 100; i++)
		call_at(bench, 1, 10 + 2 * i, i ? 9 + 2 * i : NONE, 0);
	assert_int_equal(bench->log.count, 100);
	assert_int_equal(bench->log.calls[99].how, CALL_LOST);
	assert_int_equal(bench->log.calls[99].start_ns, bench->log.calls[99].end_ns);
	bench->log.count = 0;
	for (i = 0; i < 100; i++)
		return_to(bench, 1, 10 + 2 * (CALL_LEVELS + 99 - i));
	assert_int_equal(bench->log.count, 0); /* those that were not kept */
	return_to(bench, 1, 10 + 2 * (CALL_LEVELS - 1));
	assert_int_equal(bench->log.count, 1);
	assert_int_equal(bench->log.calls[0].how, CALL_RETURNED);
	bench->sink.call = NULL;
	bench_free(bench);
}

static void a_loss_makes_ends_doubtful(void **unused)
{
	struct bench *bench = bench_new(1, 0);
	struct loss loss = {.from_ns = 2, .to_ns = 5, .count = 1};

	(void)unused;
	loss.counts[RING_CALL] = 1;
	call_at(bench, 1, 10, NONE, 0);
	bench->now_ns = 2;
	call_loss(&bench->calls, &loss);
	return_to(bench, 0, 10);
	bench->now_ns = 6;
	call_at(bench, 1, 10, NONE, 0);
	return_to(bench, 0, 10);
	expect_call(bench, 0, 1, 0, 1, 3, CALL_LOST);
	assert_false(bench->log.calls[0].certain);
	expect_call(bench, 1, 2, 0, 7, 8, CALL_RETURNED);
	assert_true(bench->log.calls[1].certain);
	bench_free(bench);
}

static void without_depths_names_must_do(void **unused)
{
	struct bench *bench = bench_new(0, 0);

	(void)unused;
	call_at(bench, 1, NONE, NONE, 2);
	call_at(bench, 2, NONE, NONE, 2);
	call_at(bench, 3, NONE, NONE, 2); /* tail-called by 2: nobody says so */
	return_to(bench, 1, NONE);
	return_to(bench, 9, NONE);
	assert_int_equal(bench->log.count, 3);
	expect_call(bench, 0, 3, 2, 3, 4, CALL_RETURNED);
	expect_call(bench, 1, 2, 1, 2, 4, CALL_UNSEEN);
	expect_call(bench, 2, 1, 0, 1, 5, CALL_RETURNED);
	assert_false(bench->log.calls[2].certain);
	bench_free(bench);
}

/* ---- Random programs on a model of the VM's stack ------------------------------------------- */

#define MODEL_WORDS 4096
#define FUNCTIONS   12

struct model {
	struct bench *bench;
	uint64_t random;
	uint32_t budget;
	/* the stack, from its start: 0 data, 1 return address, 2 return_to frame */
	uint8_t words[MODEL_WORDS];
	uint32_t addresses[MODEL_WORDS];
	uint32_t depth;
	/* truth, by call id */
	struct {
		uint64_t parent, end_ns;
		uint32_t mfa;
		bool tail; /* a tail call took its place */
	} truth[FEED_MAX];
	uint64_t last_id;
	uint64_t live[FEED_MAX]; /* ids of traced calls that are executing, outermost first */
	uint32_t live_count;
	bool exception;
	uint32_t site;
};

static uint32_t model_random(struct model *model, uint32_t below)
{
	model->random ^= model->random << 13;
	model->random ^= model->random >> 7;
	model->random ^= model->random << 17;
	return (uint32_t)(model->random >> 20) % below;
}

static void model_push(struct model *model, uint8_t what, uint32_t address)
{
	assert_true(model->depth + 1 < MODEL_WORDS);
	model->depth++;
	model->words[model->depth] = what;
	model->addresses[model->depth] = address;
}

/* Entry of a traced function: what the VM and the tracer's scan do. */
static bool model_enter(struct model *model, uint32_t mfa)
{
	uint32_t F = model->bench->calls.frame_words, i, frame = NONE, last;
	/* the return_to frame is on top: a tail call of its chain */
	bool tail = model->words[model->depth] == 2;

	last = model->depth < CALL_SCAN_WORDS ? model->depth : CALL_SCAN_WORDS;
	if (tail) {
		frame = model->depth;
	} else {
		for (i = 1; i < last; i++) {
			if (model->words[model->depth - i] == 2) {
				frame = model->depth - i;
				break;
			}
		}
	}
	call_at(model->bench, mfa, model->depth, frame, tail);
	model->last_id++;
	assert_true(model->last_id < FEED_MAX);
	model->truth[model->last_id].mfa = mfa;
	if (tail) {
		uint64_t replaced = model->live[--model->live_count];

		model->truth[replaced].end_ns = model->bench->now_ns;
		model->truth[replaced].tail = true;
	}
	model->truth[model->last_id].parent = model->live_count ? model->live[model->live_count - 1]
								: 0;
	model->live[model->live_count++] = model->last_id;
	if (!tail)
		for (i = 0; i < F; i++)
			model_push(model, i + 1 == F ? 2 : 0, 0);
	return !tail;
}

/* The function on top returns: through its return_to frame, when there is one. */
static void model_leave(struct model *model)
{
	uint32_t F = model->bench->calls.frame_words;

	if (model->words[model->depth] != 2)
		return;
	model->depth -= F;
	/* the event comes with the address on top, k words further down the stack than d0 */
	return_to(model->bench, 0, model->depth + model->bench->calls.return_slack);
	model->truth[model->live[--model->live_count]].end_ns = model->bench->now_ns;
}

static void model_run(struct model *model, uint32_t function);

/* Call a function from a body: frame words, return address. */
static void model_body(struct model *model, bool catches)
{
	uint32_t depth = model->depth, live = model->live_count,
		 F = model->bench->calls.frame_words;
	uint32_t slots = model_random(model, 4) + catches, i;

	for (i = 0; i < slots; i++)
		model_push(model, 0, 0);
	model_push(model, 1, ++model->site);
	model_run(model, model_random(model, FUNCTIONS));
	if (model->exception && catches) {
		uint32_t nearest = depth + slots + 1;

		model->exception = false;
		/* next_catch(): an event only where the frame nearest the catch is traced */
		if (model->words[nearest + F] == 2 && model->depth >= nearest + F) {
			return_to(model->bench, 0, nearest + model->bench->calls.return_slack);
		} else {
			model->bench->now_ns++;
		}
		while (model->live_count > live)
			model->truth[model->live[--model->live_count]].end_ns =
				model->bench->now_ns;
	}
	if (!model->exception) {
		memset(model->words + depth + 1, 0, MODEL_WORDS - depth - 1);
		model->depth = depth;
	}
}

/* Functions 0 to 7 are traced. */
static void model_run(struct model *model, uint32_t function)
{
	while (true) {
		uint32_t calls = model_random(model, 3), i;

		if (function < 8)
			model_enter(model, function);
		for (i = 0; i < calls && model->budget; i++) {
			model->budget--;
			model_body(model, model_random(model, 3) == 0);
			if (model->exception)
				return;
		}
		if (model->budget && model_random(model, 8) == 0) {
			model->exception = true;
			return;
		}
		if (!model->budget || model_random(model, 2)) {
			model_leave(model);
			return;
		}
		model->budget--;
		function = model_random(model, FUNCTIONS); /* a tail call */
	}
}

static void random_programs(uint32_t frame_words, uint32_t return_slack)
{
	uint64_t seed, calls = 0, wrong_parents = 0, wrong_ends = 0, doubtful = 0;

	for (seed = 1; seed <= 1000; seed++) {
		struct model *model = calloc(1, sizeof(*model));
		struct bench *bench = bench_new(frame_words, return_slack);
		size_t i;

		model->bench = bench;
		model->random = seed * 0x9e3779b97f4a7c15ULL;
		model->budget = 40;
		model_push(model, 1, 0);
		model_body(model, true); /* a catch around it all */
		call_finish(&bench->calls, &bench->process, bench->now_ns, CALL_OPEN);
		assert_int_equal(bench->log.count, model->last_id);
		for (i = 0; i < bench->log.count; i++) {
			const struct call_interval *call = &bench->log.calls[i];

			calls++;
			assert_int_equal(call->mfa, model->truth[call->id].mfa);
			assert_true((call->how == CALL_TAIL) == model->truth[call->id].tail);
			wrong_parents += call->parent != model->truth[call->id].parent;
			if (call->certain && call->how != CALL_OPEN)
				wrong_ends += call->end_ns != model->truth[call->id].end_ns;
			else if (call->end_ns < model->truth[call->id].end_ns)
				wrong_ends++; /* not even an upper bound */
			else
				doubtful++;
		}
		bench_free(bench);
		free(model);
	}
	assert_true(calls > 5000);
	assert_true(doubtful > 0 && doubtful < calls / 2);
	assert_int_equal(wrong_parents, 0);
	assert_int_equal(wrong_ends, 0);
}

static void random_programs_of_otp_25(void **unused)
{
	(void)unused;
	random_programs(1, 0);
}

static void random_programs_of_otp_27(void **unused)
{
	(void)unused;
	random_programs(2, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(body_calls_nest),
		cmocka_unit_test(a_million_tail_calls_keep_one_chain),
		cmocka_unit_test(what_was_thrown_past_a_catch_ends_unseen),
		cmocka_unit_test(the_scan_tells_what_depth_alone_does_not),
		cmocka_unit_test(a_stack_that_was_thrown_away_shows_at_the_next_call),
		cmocka_unit_test(return_from_ends_a_call_by_its_name),
		cmocka_unit_test(return_from_of_calls_that_are_not_kept_ends_no_other),
		cmocka_unit_test(deep_recursion_is_bounded_and_every_call_counted),
		cmocka_unit_test(a_loss_makes_ends_doubtful),
		cmocka_unit_test(without_depths_names_must_do),
		cmocka_unit_test(random_programs_of_otp_25),
		cmocka_unit_test(random_programs_of_otp_27),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
