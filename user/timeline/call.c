/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gc.h"

/* A search by name looks no further: frames of one function are near the top. */
#define SEARCH_LEVELS 256u
#define MFA_MAX	      (1u << 22)

/* A chain of calls, and the one that is executing in it. */
struct call_frame {
	uint64_t id;
	uint64_t start_ns;
	uint64_t gc_before_ns; /* of the process's collections */
	int64_t begin; /* d0; -1 unknown */
	int64_t limit; /* L */
	uint32_t mfa;
	bool named; /* return_from or exception_from names it, and no other that it may be */
	char *arguments;
	uint32_t argument_bytes;
};

struct call_stack {
	struct call_frame *frames;
	uint32_t count, capacity;
	uint64_t beyond; /* with return_trace: calls on the stack that are not kept */
	bool valued; /* the last that was heard is a return_from or exception_from */
};

const char *call_end_text(enum call_end how)
{
	static const char *const ends[] = {
		[CALL_RETURNED] = "returned",
		[CALL_TAIL] = "tail call",
		[CALL_EXCEPTION] = "exception",
		[CALL_UNSEEN] = "not seen: an upper bound",
		[CALL_EXITED] = "its process exited",
		[CALL_OPEN] = "cut by the end of the recording",
		[CALL_LOST] = "events were lost",
	};

	return (size_t)how < sizeof(ends) / sizeof(*ends) ? ends[how] : "unknown";
}

void calls_free(struct calls *calls)
{
	free(calls->hibernate);
}

static struct call_frame *call_top(const struct process *process)
{
	struct call_stack *stack = process->calls;

	return stack && stack->count ? &stack->frames[stack->count - 1] : NULL;
}

/* Give out the call that executes in the top chain. */
static void call_emit(struct calls *calls, struct process *process, uint64_t ts_ns,
		      enum call_end how, struct text result)
{
	struct call_stack *stack = process->calls;
	const struct call_frame *frame = &stack->frames[stack->count - 1];
	struct call_interval interval = {
		.id = frame->id,
		.process = process->totals.process,
		.mfa = frame->mfa,
		.caller = RING_NO_INDEX,
		.level = stack->count - 1,
		.start_ns = frame->start_ns,
		.end_ns = ts_ns > frame->start_ns ? ts_ns : frame->start_ns,
		.how = how,
		.certain = how != CALL_UNSEEN && how != CALL_LOST,
		.gc_ns = gc_total_ns(process, ts_ns) - frame->gc_before_ns,
		.arguments = {frame->arguments, frame->argument_bytes},
		.result = result,
	};

	if (stack->count > 1) {
		interval.parent = stack->frames[stack->count - 2].id;
		interval.caller = stack->frames[stack->count - 2].mfa;
	}
	/* Without depths it may have ended long ago, unseen: only its name in its end is proof. */
	if (frame->begin < 0 && !frame->named)
		interval.certain = false;
	/* What ended it, and another call of the same depth, may be among the lost events. */
	if (frame->start_ns <= calls->lost_until_ns) {
		if (how != CALL_OPEN && how != CALL_EXITED)
			interval.how = CALL_LOST;
		interval.certain = false;
	}
	if (calls->sink && calls->sink->call)
		calls->sink->call(calls->sink->context, &interval);
}

static void call_pop(struct calls *calls, struct process *process, uint64_t ts_ns,
		     enum call_end how)
{
	struct call_stack *stack = process->calls;

	call_emit(calls, process, ts_ns, how, (struct text){0});
	free(stack->frames[--stack->count].arguments);
}

static void call_begin(struct calls *calls, const struct process *process, struct call_frame *frame,
		       const struct event *event)
{
	frame->id = ++calls->last_id;
	frame->start_ns = event->ts_ns;
	frame->gc_before_ns = gc_total_ns(process, event->ts_ns);
	frame->mfa = event->call->mfa;
	frame->named = false;
	frame->arguments = event->etf.bytes ? malloc(event->etf.bytes) : NULL;
	frame->argument_bytes = frame->arguments ? event->etf.bytes : 0;
	if (frame->arguments)
		memcpy(frame->arguments, event->etf.data, event->etf.bytes);
}

/* A call without a duration: there are more levels than are kept, or none of which an end is told. */
static void call_point(struct calls *calls, const struct process *process,
		       const struct event *event)
{
	const struct call_frame *top = call_top(process);
	struct call_interval interval = {
		.id = ++calls->last_id,
		.parent = top ? top->id : 0,
		.process = process->totals.process,
		.mfa = event->call->mfa,
		.caller = top ? top->mfa : RING_NO_INDEX,
		.level = top ? CALL_LEVELS : 0,
		.start_ns = event->ts_ns,
		.end_ns = event->ts_ns,
		.how = CALL_LOST,
		.arguments = event->etf,
	};

	if (calls->sink && calls->sink->call)
		calls->sink->call(calls->sink->context, &interval);
}

static int call_push(struct calls *calls, struct process *process, const struct event *event,
		     int64_t begin, int64_t limit)
{
	struct call_stack *stack = process->calls;
	struct call_frame *frame;

	if (!stack) {
		stack = process->calls = calloc(1, sizeof(*stack));
		if (!stack)
			return -ENOMEM;
	}
	if (stack->count == CALL_LEVELS) {
		call_point(calls, process, event);
		stack->beyond += calls->returns;
		return 0;
	}
	stack->beyond = 0;
	stack->valued = false;
	if (stack->count == stack->capacity) {
		uint32_t capacity = stack->capacity ? stack->capacity * 2 : 8;
		struct call_frame *frames =
			realloc(stack->frames, capacity * sizeof(*stack->frames));

		if (!frames)
			return -ENOMEM;
		stack->frames = frames;
		stack->capacity = capacity;
	}
	frame = &stack->frames[stack->count++];
	frame->begin = begin;
	frame->limit = limit;
	call_begin(calls, process, frame, event);
	return 0;
}

int call_event(struct calls *calls, struct process *process, const struct event *event)
{
	const struct ring_call *call = event->call;
	bool scanned = call->tail != 2 && !calls->returns, tail = call->tail == 1;
	int64_t depth = call->depth, nearest = 0;
	struct call_frame *top;

	if (calls->endless) {
		call_point(calls, process, event);
		return 0;
	}
	if (!calls->frame_words || call->depth == RING_NO_DEPTH)
		return call_push(calls, process, event, -1, -1);
	if (call->frame != RING_NO_DEPTH)
		nearest = call->frame;
	else if (depth > CALL_SCAN_WORDS)
		nearest = depth - (CALL_SCAN_WORDS - 1);
	/* A tail call's nearest frame is its own chain's. */
	if (!scanned || tail || nearest > depth)
		nearest = depth;
	while ((top = call_top(process)) && top->limit > nearest)
		call_pop(calls, process, event->ts_ns, CALL_UNSEEN);
	if (top && top->limit == depth && (tail || !scanned) && !calls->returns) {
		call_emit(calls, process, event->ts_ns, CALL_TAIL, (struct text){0});
		free(top->arguments);
		call_begin(calls, process, top, event);
		return 0;
	}
	/*
	 * The scan takes two equal words for a tail call, which one call site that calls itself may also
	 * make. It is one in an unknown chain only where the chain's beginning may have been lost.
	 */
	if (scanned && tail && calls->lost_until_ns)
		return call_push(calls, process, event, depth - calls->frame_words, depth);
	return call_push(calls, process, event, depth, depth + calls->frame_words);
}

/* The level of the nearest call of a function, -1 when it is not among the top ones. */
static int64_t call_find(const struct process *process, uint32_t mfa)
{
	const struct call_stack *stack = process->calls;
	uint32_t i;

	for (i = 0; stack && i < stack->count && i < SEARCH_LEVELS; i++)
		if (stack->frames[stack->count - 1 - i].mfa == mfa)
			return stack->count - 1 - i;
	return -1;
}

void call_return_to(struct calls *calls, struct process *process, const struct event *event)
{
	const struct ring_return_to *record = event->return_to;
	int64_t depth = (int64_t)record->depth - calls->return_slack, level;
	struct call_frame *top = call_top(process);

	if (!top)
		return;
	if (!calls->frame_words || record->depth == RING_NO_DEPTH) {
		level = call_find(process, record->mfa);
		/* The call that returns here has been named already. */
		if (!process->calls->valued)
			call_pop(calls, process, event->ts_ns, CALL_RETURNED);
		process->calls->valued = false;
		while (level >= 0 && process->calls->count > level + 1)
			call_pop(calls, process, event->ts_ns, CALL_UNSEEN);
		return;
	}
	while ((top = call_top(process)) && (top->begin >= depth || top->begin < 0))
		call_pop(calls, process, event->ts_ns,
			 top->begin == depth ? CALL_RETURNED : CALL_UNSEEN);
}

/*
 * Is there no other call of the same function on the stack? A match specification may trace the end of
 * some calls of a function and not of others.
 */
static bool call_alone(const struct call_stack *stack, uint32_t level)
{
	if (level > SEARCH_LEVELS)
		return false;
	for (uint32_t i = 0; i < level; i++)
		if (stack->frames[i].mfa == stack->frames[level].mfa)
			return false;
	return true;
}

void call_value(struct calls *calls, struct process *process, const struct event *event)
{
	const struct ring_value *record = event->value;
	enum call_end how = event->kind == RING_EXCEPTION_FROM ? CALL_EXCEPTION : CALL_RETURNED;
	struct call_stack *stack = process->calls;
	int64_t level;

	calls->returns = true;
	if (stack && stack->beyond) {
		stack->beyond--;
		return;
	}
	level = call_find(process, record->mfa);
	if (level < 0)
		return;
	while (stack->count > level + 1)
		call_pop(calls, process, event->ts_ns, CALL_UNSEEN);
	stack->valued = record->depth == RING_NO_DEPTH;
	stack->frames[level].named = call_alone(stack, (uint32_t)level);
	call_emit(calls, process, event->ts_ns, how, event->etf);
	free(stack->frames[--stack->count].arguments);
}

/* Is it erlang:hibernate/3? Asked once for each function. */
static bool call_is_hibernate(struct calls *calls, uint32_t mfa)
{
	if (!calls->trace || mfa >= MFA_MAX)
		return false;
	if (mfa >= calls->hibernate_count) {
		uint32_t count = (mfa + 1024) & ~1023u;
		uint8_t *grown = realloc(calls->hibernate, count);

		if (!grown)
			return false;
		memset(grown + calls->hibernate_count, 0, count - calls->hibernate_count);
		calls->hibernate = grown;
		calls->hibernate_count = count;
	}
	if (!calls->hibernate[mfa]) {
		const char *text = trace_mfa(calls->trace, mfa);

		calls->hibernate[mfa] = strcmp(text, "erlang:hibernate/3") ? 1 : 2;
	}
	return calls->hibernate[mfa] == 2;
}

void call_out(struct calls *calls, struct process *process, const struct event *event)
{
	if (!call_top(process) || !call_is_hibernate(calls, event->run->mfa))
		return;
	while (call_top(process))
		call_pop(calls, process, event->ts_ns, CALL_UNSEEN);
}

void call_loss(struct calls *calls, const struct loss *loss)
{
	static const uint8_t kinds[] = {RING_UNKNOWN,	  RING_CALL,	       RING_RETURN_TO,
					RING_RETURN_FROM, RING_EXCEPTION_FROM, RING_EXIT,
					RING_OUT};

	if (loss_may_hold(loss, kinds, sizeof(kinds)) && loss->to_ns > calls->lost_until_ns)
		calls->lost_until_ns = loss->to_ns;
}

void call_finish(struct calls *calls, struct process *process, uint64_t ts_ns, enum call_end how)
{
	if (!process->calls)
		return;
	while (call_top(process))
		call_pop(calls, process, ts_ns, how);
	free(process->calls->frames);
	free(process->calls);
	process->calls = NULL;
}
