/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A line holds at most one captured term (a record is at most 64 KiB) with each byte escaped, or a
 * sample; a longer sample is left out.
 */
#define LINE_BYTES (1u << 20)

static int line_put(struct text_builder *text, FILE *out)
{
	text_finish(text);
	if (fwrite(text->data, 1, text->used, out) != text->used || putc('\n', out) == EOF)
		return errno ? -errno : -EIO;
	return 0;
}

int lines_write(struct trace *trace, FILE *out, enum lines_format format, uint64_t from_ns,
		uint64_t to_ns)
{
	struct text_builder text;
	struct event event;
	char *line = malloc(LINE_BYTES);
	int found = 0, error = 0;

	if (!line)
		return -ENOMEM;
	errno = 0;
	trace_rewind(trace);
	while (!error && (found = trace_next(trace, &event)) > 0 && event.ts_ns <= to_ns) {
		if (event.ts_ns < from_ns)
			continue;
		text_begin(&text, line, LINE_BYTES);
		if (format == LINES_JSON)
			lines_json(trace, &event, &text);
		else
			lines_text(trace, &event, &text);
		error = line_put(&text, out);
	}
	if (!error && found < 0)
		error = found;
	if (!error && fflush(out))
		error = -errno;
	free(line);
	return error;
}

/* ---- Texts that both formats share ---- */

const char *lines_address(char buffer[static LINES_ADDRESS], uint16_t family,
			  const uint8_t address[16], uint16_t port)
{
	char host[INET6_ADDRSTRLEN] = "";

	if ((family == AF_INET || family == AF_INET6) &&
	    !inet_ntop(family, address, host, sizeof(host)))
		host[0] = 0;
	snprintf(buffer, LINES_ADDRESS, family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, port);
	return buffer;
}

const char *lines_tcp_state(uint8_t state)
{
	static const char *const names[] = {
		"?",	     "ESTABLISHED", "SYN_SENT",	    "SYN_RECV",	  "FIN_WAIT1",
		"FIN_WAIT2", "TIME_WAIT",   "CLOSE",	    "CLOSE_WAIT", "LAST_ACK",
		"LISTEN",    "CLOSING",	    "NEW_SYN_RECV",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

const char *lines_task_state(uint32_t state)
{
	if (state & 0x100)
		return "R+";
	if (state & 0x80)
		return "I";
	switch (state & 0x7f) {
	case 0:
		return "R";
	case 0x01:
		return "S";
	case 0x02:
		return "D";
	case 0x04:
		return "T";
	case 0x08:
		return "t";
	case 0x10:
		return "X";
	case 0x20:
		return "Z";
	case 0x40:
		return "P";
	default:
		return "?";
	}
}

const char *lines_role(uint32_t role)
{
	switch (role) {
	case RING_ROLE_NORMAL:
		return "normal";
	case RING_ROLE_DIRTY_CPU:
		return "dirty_cpu";
	case RING_ROLE_DIRTY_IO:
		return "dirty_io";
	default:
		return "other";
	}
}

static const struct {
	const char *name, *text;
} shape_types[] = {
	[RING_T_OTHER] = {"other", "_"},
	[RING_T_ATOM] = {"atom", NULL},
	[RING_T_TUPLE] = {"tuple", NULL},
	[RING_T_LIST] = {"list", "[...]"},
	[RING_T_BINARY] = {"binary", "<<...>>"},
	[RING_T_INTEGER] = {"integer", "integer"},
	[RING_T_PID] = {"pid", "pid"},
	[RING_T_MAP] = {"map", "#{...}"},
	[RING_T_FLOAT] = {"float", "float"},
	[RING_T_REF] = {"reference", "reference"},
	[RING_T_PORT] = {"port", "port"},
	[RING_T_FUN] = {"fun", "fun"},
	[RING_T_NIL] = {"nil", "[]"},
};
#define SHAPE_TYPES (sizeof(shape_types) / sizeof(*shape_types))

const char *lines_shape_type(uint8_t type)
{
	return shape_types[type < SHAPE_TYPES ? type : RING_T_OTHER].name;
}

static void shape_atom(struct trace *trace, uint32_t atom, struct text_builder *text)
{
	const char *name = trace_atom(trace, atom);

	text_add_atom(text, name, strlen(name));
}

void lines_shape(struct trace *trace, const struct ring_shape *shape, struct text_builder *text)
{
	uint32_t shown = 0;

	if (shape->type == RING_T_ATOM) {
		shape_atom(trace, shape->atom[0], text);
		return;
	}
	if (shape->type != RING_T_TUPLE) {
		text_add(text, shape_types[shape->type < SHAPE_TYPES ? shape->type : 0].text);
		return;
	}
	text_add(text, "{");
	for (uint32_t i = 0; i < 2 && i < shape->arity && shape->atom[i]; i++) {
		text_add(text, i ? "," : "");
		shape_atom(trace, shape->atom[i], text);
		shown++;
	}
	for (; shown < shape->arity && shown < 4; shown++)
		text_add(text, shown ? ",_" : "_");
	text_add(text, shape->arity > shown ? ",...}" : "}");
	if (shape->arity > shown)
		text_format(text, "/%u", shape->arity);
}

void lines_process(struct trace *trace, uint64_t word, struct text_builder *text)
{
	char buffer[48];

	trace_process_put(trace, word, buffer, sizeof(buffer));
	text_add(text, buffer);
}
