/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "live_calls.h"
#include "live_terms.h"
#include "moment.h"

#define LINE_BYTES (1u << 20)
#define ARGS_SHOWN 4096 /* of a call's arguments, and of a value */
#define ARGS_KEPT  256 /* of them, to be said again when the call returns */

#define DIM   "\033[2m"
#define BOLD  "\033[1m"
#define RED   "\033[31m"
#define GREEN "\033[32m"
#define CYAN  "\033[36m"
#define PLAIN "\033[0m"

struct live {
	struct trace *trace;
	struct sink *sink;
	enum live_format format;
	struct live_calls *calls;
	char *line;
};

struct live *live_new(struct trace *trace, struct sink *sink, enum live_format format)
{
	struct live *live = calloc(1, sizeof(*live));

	if (!live)
		return NULL;
	live->trace = trace;
	live->sink = sink;
	live->format = format;
	live->calls = live_calls_new();
	live->line = malloc(LINE_BYTES);
	if (live->calls && live->line)
		return live;
	live_free(live);
	return NULL;
}

void live_free(struct live *live)
{
	if (!live)
		return;
	live_calls_free(live->calls);
	free(live->line);
	free(live);
}

static void colour(const struct live *live, struct text_builder *text, const char *code)
{
	if (live->format == LIVE_COLOUR)
		text_add(text, code);
}

/* ---- Calls ---- */

/* "mod:fun" of "mod:fun/2", then the arguments in parentheses; the whole without arguments. */
static void call_add(struct live *live, uint32_t mfa, const char *args, struct text_builder *text)
{
	const char *name = trace_mfa(live->trace, mfa);
	const char *slash = strrchr(name, '/');

	colour(live, text, CYAN);
	if (args && *args && slash) {
		text_format(text, "%.*s", (int)(slash - name), name);
		colour(live, text, PLAIN);
		text_add(text, args);
	} else {
		text_add(text, name);
		colour(live, text, PLAIN);
	}
}

static void value_add(struct live *live, const struct event *event, struct text_builder *text)
{
	char buffer[ARGS_SHOWN];

	if (!event->etf.bytes) {
		lines_shape(live->trace, &event->value->shape, text);
		return;
	}
	trace_term_text(live->trace, event->etf, buffer, sizeof(buffer));
	text_add(text, buffer);
}

static void return_add(struct live *live, const struct event *event, const struct live_call *call,
		       struct text_builder *text)
{
	bool raised = event->kind == RING_EXCEPTION_FROM;

	call_add(live, event->value->mfa, call ? call->args : NULL, text);
	colour(live, text, raised ? RED : GREEN);
	text_add(text, raised ? " raised " : " -> ");
	colour(live, text, PLAIN);
	value_add(live, event, text);
	if (!call)
		return;
	colour(live, text, DIM);
	text_add(text, " <");
	lines_duration(event->ts_ns - call->start_ns, text);
	text_add(text, ">");
	colour(live, text, PLAIN);
}

static void text_line(struct live *live, const struct event *event, const struct live_call *call,
		      const char *args, struct text_builder *text)
{
	colour(live, text, DIM);
	text_add(text, MOMENT_TIME(live->trace, event->ts_ns));
	colour(live, text, PLAIN);
	text_add(text, " ");
	if (event->process) {
		colour(live, text, BOLD);
		lines_text_process(live->trace, event->process, event->ts_ns, text);
		colour(live, text, PLAIN);
		text_add(text, "  ");
	}
	switch (event->kind) {
	case RING_CALL:
		call_add(live, event->call->mfa, args, text);
		break;
	case RING_RETURN_FROM:
	case RING_EXCEPTION_FROM:
		return_add(live, event, call, text);
		break;
	case EVENT_LOSS:
		colour(live, text, RED);
		lines_text_event(live->trace, event, text);
		colour(live, text, PLAIN);
		break;
	default:
		lines_text_event(live->trace, event, text);
	}
}

static void json_line(struct live *live, const struct event *event, const struct live_call *call,
		      struct text_builder *text)
{
	lines_json(live->trace, event, text);
	if (!call || !text->used)
		return;
	text->used--;
	text_format(text, ",\"duration_ns\":%" PRIu64 "}", event->ts_ns - call->start_ns);
}

void live_forget(struct live *live, uint64_t process)
{
	live_calls_forget(live->calls, process);
}

bool live_event(struct live *live, const struct event *event)
{
	struct live_call call, *ended = NULL;
	char args[ARGS_SHOWN] = "";
	struct text_builder text;

	/* Where a call came back to is said by its return, when it is asked for. */
	if (event->kind == RING_RETURN_TO)
		return false;
	if (event->kind == RING_CALL) {
		if (live->format != LIVE_JSON)
			live_terms_args(live->trace, event, args, sizeof(args));
		live_calls_begin(live->calls, event->process, event->call->mfa, event->ts_ns,
				 strlen(args) < ARGS_KEPT ? args : "");
	} else if (event->kind == RING_RETURN_FROM || event->kind == RING_EXCEPTION_FROM) {
		if (live_calls_end(live->calls, event->process, event->value->mfa, &call))
			ended = &call;
	} else if (event->kind == EVENT_LOSS) {
		/* Which of the calls that are open have ended meanwhile is not known. */
		live_calls_clear(live->calls);
	}
	/* The line's end has its place. */
	text_begin(&text, live->line, LINE_BYTES - 1);
	if (live->format == LIVE_JSON)
		json_line(live, event, ended, &text);
	else
		text_line(live, event, ended, args, &text);
	text_finish(&text);
	text.data[text.used++] = '\n';
	sink_put(live->sink, text.data, text.used);
	return event->kind != EVENT_LOSS;
}
