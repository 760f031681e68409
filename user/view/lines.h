/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_LINES_H
#define BEAMWEAVE_LINES_H

/* A recording as lines, one event each, in time order: for people, or JSON for machines. */

#include <stdint.h>
#include <stdio.h>

#include "text.h"
#include "trace.h"

enum lines_format {
	LINES_TEXT = 0,
	LINES_JSON = 1,
};

/*
 * Write the events of from_ns to to_ns (0, UINT64_MAX: all) of `trace`, read from its start, to `out`.
 * Returns 0 or -errno: what reading gave, or -EPIPE, -ENOSPC and the like of `out`.
 */
int lines_write(struct trace *trace, FILE *out, enum lines_format format, uint64_t from_ns,
		uint64_t to_ns);

/* One event without its line's end, into a text that was begun. */
void lines_text(struct trace *trace, const struct event *event, struct text_builder *text);
void lines_json(struct trace *trace, const struct event *event, struct text_builder *text);

/* What happened, without time, place and process. */
void lines_text_event(struct trace *trace, const struct event *event, struct text_builder *text);
/* "<0.123.0> name", with the name that it had then. */
void lines_text_process(struct trace *trace, uint64_t word, uint64_t ts_ns,
			struct text_builder *text);
/* The part of a line that tells of one of the kernel's events. */
void lines_text_kernel(const struct event *event, struct text_builder *text);
/* "12.3 us", "1500.0 ms", "12.0 s" */
void lines_duration(uint64_t ns, struct text_builder *text);
/* "127.0.0.1:80 - 127.0.0.1:40000" */
void lines_endpoints(uint16_t family, const uint8_t *local, uint16_t local_port,
		     const uint8_t *remote, uint16_t remote_port, struct text_builder *text);

/* Texts that both share. */
#define LINES_ADDRESS 64
/* "127.0.0.1:80", "[::1]:80", ":80" for other families. */
const char *lines_address(char buffer[static LINES_ADDRESS], uint16_t family,
			  const uint8_t address[16], uint16_t port);
/* "ESTABLISHED", ...: a TCP_* state; "?" for an unknown one. */
const char *lines_tcp_state(uint8_t state);
/* "R", "S", "D", "T", ...: where a thread went; "R+" when it was preempted. */
const char *lines_task_state(uint32_t state);
/* "{metric,...}/3", "ok", "<<...>>": a shape as a person reads it. */
void lines_shape(struct trace *trace, const struct ring_shape *shape, struct text_builder *text);
const char *lines_shape_type(uint8_t type);
/* "normal", "dirty_cpu", "dirty_io", "other": an enum ring_role. */
const char *lines_role(uint32_t role);
/* "#Port<0.5>" or "<0.1.0>", remembering nothing. */
void lines_process(struct trace *trace, uint64_t word, struct text_builder *text);

#endif
