/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TESTS_TRC_MAKER_H
#define BEAMWEAVE_TESTS_TRC_MAKER_H

/* Trace messages as a VM sends them to a trace port, encoded by ei, and the frames around them. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <ei.h>

#define TRC_MAKER __attribute__((unused)) static

TRC_MAKER void trc_pid(ei_x_buff *x, const char *node, unsigned number, unsigned serial)
{
	erlang_pid pid = {.num = number, .serial = serial, .creation = 7};

	strcpy(pid.node, node);
	ei_x_encode_pid(x, &pid);
}

TRC_MAKER void trc_port(ei_x_buff *x, unsigned id)
{
	erlang_port port = {.id = id, .creation = 7};

	strcpy(port.node, "a@b");
	ei_x_encode_port(x, &port);
}

/* {M, F, Arity} */
TRC_MAKER void trc_mfa(ei_x_buff *x, const char *module, const char *function, long arity)
{
	ei_x_encode_tuple_header(x, 3);
	ei_x_encode_atom(x, module);
	ei_x_encode_atom(x, function);
	ei_x_encode_long(x, arity);
}

/* Begin {trace, <0.Pid.0>, Tag, ...}, or trace_ts, of so many elements in all. */
TRC_MAKER void trc_message(ei_x_buff *x, const char *form, unsigned pid, const char *tag,
			   long arity)
{
	ei_x_new(x);
	ei_x_encode_tuple_header(x, arity);
	ei_x_encode_atom(x, form);
	trc_pid(x, "a@b", pid, 0);
	ei_x_encode_atom(x, tag);
}

/* A whole {trace_ts, <0.Pid.0>, send, {metric, Number}, <0.To.0>, Monotonic}. */
TRC_MAKER void trc_send(ei_x_buff *x, unsigned pid, unsigned to, long number, long long time_ns)
{
	trc_message(x, "trace_ts", pid, "send", 6);
	ei_x_encode_tuple_header(x, 2);
	ei_x_encode_atom(x, "metric");
	ei_x_encode_long(x, number);
	trc_pid(x, "a@b", to, 0);
	ei_x_encode_longlong(x, time_ns);
}

TRC_MAKER void trc_number_put(FILE *to, uint32_t number)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		putc((int)(number >> shift & 0xff), to);
}

/* Write it as a frame, and free it. */
TRC_MAKER void trc_frame_put(FILE *to, ei_x_buff *x)
{
	putc(0, to);
	trc_number_put(to, (uint32_t)x->index + 1);
	putc(131, to);
	fwrite(x->buff, 1, (size_t)x->index, to);
	ei_x_free(x);
}

TRC_MAKER void trc_drop_put(FILE *to, uint32_t dropped)
{
	putc(1, to);
	trc_number_put(to, dropped);
}

#endif
