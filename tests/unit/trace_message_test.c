/* SPDX-License-Identifier: Apache-2.0 */
/* Trace messages, encoded by ei, to the records that the tracer in the VM writes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../trace/trc_maker.h"
#include "trace_message.h"

#define PID(number) (3u | (uint64_t)(number) << 4)

static struct names *names;
static struct event event;
static union message_record record;
static struct message_time message_time;
static uint8_t *kept; /* the message: the event points into it */

static int setup(void **state)
{
	(void)state;
	names = names_new();
	return names ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	names_free(names);
	free(kept);
	kept = NULL;
	return 0;
}

/* Decode it from memory of exactly its size, so that a sanitizer sees what is read beyond. */
static int decode_cut(ei_x_buff *x, uint32_t bytes, uint32_t tail_bytes)
{
	struct message_bytes message;
	uint32_t kind;
	int error;

	free(kept);
	kept = malloc(bytes + 1);
	assert_non_null(kept);
	memcpy(kept, x->buff, bytes - tail_bytes);
	memcpy(kept + bytes - tail_bytes, x->buff + x->index - tail_bytes, tail_bytes);
	message = (struct message_bytes){kept, bytes, tail_bytes};
	memset(&event, 0, sizeof(event));
	memset(&message_time, 0, sizeof(message_time));
	error = message_peek(&message, &kind, &message_time);
	assert_int_equal(message_decode(&message, names, NULL, &record, &event), error);
	if (!error)
		assert_int_equal(kind, event.kind);
	ei_x_free(x);
	return error;
}

static void decode(ei_x_buff *x)
{
	assert_int_equal(decode_cut(x, (uint32_t)x->index, 0), 0);
}

#define MFA_IS(mfa, text)   assert_string_equal(names_mfa(names, mfa), text)
#define ATOM_IS(atom, text) assert_string_equal(names_atom(names, atom), text)

static void calls_come_with_arguments_or_with_their_number(void **state)
{
	ei_x_buff x;

	(void)state;
	trc_message(&x, "trace", 80, "call", 4);
	ei_x_encode_tuple_header(&x, 3);
	ei_x_encode_atom(&x, "lists");
	ei_x_encode_atom(&x, "seq");
	ei_x_encode_list_header(&x, 2);
	ei_x_encode_long(&x, 1);
	ei_x_encode_long(&x, 900);
	ei_x_encode_empty_list(&x);
	decode(&x);
	assert_int_equal(event.kind, RING_CALL);
	assert_int_equal(event.process, PID(80));
	MFA_IS(record.call.mfa, "lists:seq/2");
	assert_int_equal(record.call.depth, RING_NO_DEPTH);
	assert_int_equal(event.flags, RING_F_CAPTURE);
	assert_int_equal((uint8_t)event.etf.data[0], 108);
	assert_int_equal(message_time.clock, MESSAGE_NO_TIME);

	/* With the flag arity, a match specification's message and a time. */
	trc_message(&x, "trace_ts", 80, "call", 6);
	trc_mfa(&x, "lists", "seq", 2);
	ei_x_encode_atom(&x, "said");
	ei_x_encode_longlong(&x, -576460751000000000ll);
	decode(&x);
	MFA_IS(record.call.mfa, "lists:seq/2");
	assert_int_equal(event.etf.bytes, 0);
	assert_int_equal(message_time.clock, MESSAGE_MONOTONIC);
	assert_int_equal(message_time.ns, -576460751000000000ll);

	/* Small numbers are written as a string. */
	trc_message(&x, "trace", 80, "call", 4);
	ei_x_encode_tuple_header(&x, 3);
	ei_x_encode_atom(&x, "lists");
	ei_x_encode_atom(&x, "seq");
	ei_x_encode_string(&x, "abc");
	decode(&x);
	MFA_IS(record.call.mfa, "lists:seq/3");
	assert_int_equal(event.etf.bytes, 6);
}

static void ends_of_calls(void **state)
{
	ei_x_buff x;

	(void)state;
	trc_message(&x, "trace", 80, "return_to", 4);
	ei_x_encode_atom(&x, "undefined");
	decode(&x);
	assert_int_equal(event.kind, RING_RETURN_TO);
	assert_int_equal(record.return_to.mfa, RING_NO_INDEX);
	assert_int_equal(record.return_to.depth, RING_NO_DEPTH);

	trc_message(&x, "trace", 80, "return_from", 5);
	trc_mfa(&x, "m", "f", 1);
	ei_x_encode_tuple_header(&x, 2);
	ei_x_encode_atom(&x, "ok");
	ei_x_encode_long(&x, 5);
	decode(&x);
	assert_int_equal(event.kind, RING_RETURN_FROM);
	MFA_IS(record.value.mfa, "m:f/1");
	assert_int_equal(record.value.shape.type, RING_T_TUPLE);
	assert_int_equal(record.value.shape.arity, 2);
	ATOM_IS(record.value.shape.atom[0], "ok");
	assert_int_equal(record.value.shape.atom[1], 0);

	trc_message(&x, "trace", 80, "exception_from", 5);
	trc_mfa(&x, "m", "f", 1);
	ei_x_encode_tuple_header(&x, 2);
	ei_x_encode_atom(&x, "error");
	ei_x_encode_atom(&x, "badarg");
	decode(&x);
	assert_int_equal(event.kind, RING_EXCEPTION_FROM);
	ATOM_IS(record.value.shape.atom[0], "error");
	ATOM_IS(record.value.shape.atom[1], "badarg");

	trc_message(&x, "trace", 80, "exit", 4);
	ei_x_encode_atom(&x, "normal");
	decode(&x);
	assert_int_equal(event.kind, RING_EXIT);
	ATOM_IS(record.value.shape.atom[0], "normal");
	assert_int_equal(record.value.mfa, RING_NO_INDEX);
}

static uint64_t sent_to(void (*to)(ei_x_buff *x))
{
	ei_x_buff x;

	trc_message(&x, "trace", 80, "send", 5);
	ei_x_encode_atom(&x, "hello");
	to(&x);
	decode(&x);
	assert_int_equal(event.kind, RING_SEND);
	ATOM_IS(record.send.shape.atom[0], "hello");
	return record.send.to;
}

static void to_pid(ei_x_buff *x)
{
	trc_pid(x, "a@b", 81, 0);
}

static void to_far_pid(ei_x_buff *x)
{
	trc_pid(x, "c@d", 81, 0);
}

static void to_port(ei_x_buff *x)
{
	trc_port(x, 5);
}

static void to_name(ei_x_buff *x)
{
	ei_x_encode_atom(x, "server");
}

static void to_far_name(ei_x_buff *x)
{
	ei_x_encode_tuple_header(x, 2);
	ei_x_encode_atom(x, "server");
	ei_x_encode_atom(x, "c@d");
}

static void receivers_are_pids_ports_and_names(void **state)
{
	ei_x_buff x;

	(void)state;
	assert_int_equal(sent_to(to_pid), PID(81));
	assert_int_equal(sent_to(to_port), 5 << 4 | 7);
	/* As the tracer in the VM has it: a pid of another node is no word here. */
	assert_int_equal(sent_to(to_far_pid), 0);
	assert_int_equal(record.send.name, 0);
	assert_int_equal(sent_to(to_name), 0);
	ATOM_IS(record.send.name, "server");
	assert_int_equal(sent_to(to_far_name), 0);
	ATOM_IS(record.send.name, "server");

	trc_message(&x, "trace", 80, "send_to_non_existing_process", 5);
	ei_x_encode_long(&x, 1);
	trc_pid(&x, "a@b", 82, 1);
	decode(&x);
	assert_int_equal(event.kind, RING_SEND_NOPROC);
	assert_int_equal(record.send.to, PID(82) | 1 << 19);
}

static void a_message_has_one_fingerprint_on_both_sides(void **state)
{
	uint64_t sent, arity;
	ei_x_buff x;

	(void)state;
	trc_send(&x, 80, 81, 5, 0);
	decode(&x);
	sent = record.send.shape.fingerprint;
	ATOM_IS(record.send.shape.atom[0], "metric");

	trc_message(&x, "trace", 81, "receive", 4);
	ei_x_encode_tuple_header(&x, 2);
	ei_x_encode_atom(&x, "metric");
	ei_x_encode_long(&x, 5);
	decode(&x);
	assert_int_equal(event.kind, RING_RECEIVE);
	assert_int_equal(event.process, PID(81));
	assert_int_equal(record.receive.shape.fingerprint, sent);

	trc_send(&x, 80, 81, 6, 0);
	decode(&x);
	assert_int_not_equal(record.send.shape.fingerprint, sent);

	/* The same list, as a string and as cells. */
	trc_message(&x, "trace", 81, "receive", 4);
	ei_x_encode_string(&x, "ab");
	decode(&x);
	sent = record.receive.shape.fingerprint;
	arity = record.receive.shape.type;
	assert_int_equal(arity, RING_T_LIST);
	trc_message(&x, "trace", 81, "receive", 4);
	ei_x_encode_list_header(&x, 2);
	ei_x_encode_long(&x, 'a');
	ei_x_encode_long(&x, 'b');
	ei_x_encode_empty_list(&x);
	decode(&x);
	assert_int_equal(record.receive.shape.fingerprint, sent);
}

static void scheduling_and_collections(void **state)
{
	ei_x_buff x;

	(void)state;
	trc_message(&x, "trace_ts", 80, "in", 6);
	trc_mfa(&x, "gen_server", "loop", 7);
	ei_x_encode_long(&x, 3);
	ei_x_encode_tuple_header(&x, 3);
	ei_x_encode_long(&x, 1796);
	ei_x_encode_long(&x, 89000);
	ei_x_encode_long(&x, 123456);
	decode(&x);
	assert_int_equal(event.kind, RING_IN);
	MFA_IS(record.run.mfa, "gen_server:loop/7");
	assert_int_equal(record.run.scheduler, 3);
	assert_int_equal(message_time.clock, MESSAGE_SYSTEM);
	assert_int_equal(message_time.ns, 1796089000123456000ll);

	trc_message(&x, "trace", 80, "out_exited", 4);
	ei_x_encode_long(&x, 0);
	decode(&x);
	assert_int_equal(event.kind, RING_OUT_EXITED);
	assert_int_equal(record.run.mfa, RING_NO_INDEX);

	trc_message(&x, "trace_ts", 80, "gc_major_end", 5);
	ei_x_encode_list_header(&x, 3);
	ei_x_encode_tuple_header(&x, 2);
	ei_x_encode_atom(&x, "wordsize");
	ei_x_encode_long(&x, 8);
	ei_x_encode_tuple_header(&x, 2);
	ei_x_encode_atom(&x, "bin_old_vheap_block_size");
	ei_x_encode_long(&x, 46422);
	ei_x_encode_tuple_header(&x, 2);
	ei_x_encode_atom(&x, "heap_size");
	ei_x_encode_longlong(&x, 1ll << 40);
	ei_x_encode_empty_list(&x);
	ei_x_encode_tuple_header(&x, 2);
	ei_x_encode_longlong(&x, -5);
	ei_x_encode_long(&x, 77);
	decode(&x);
	assert_int_equal(event.kind, RING_GC_MAJOR_END);
	assert_int_equal(record.gc.heap_size, 1ll << 40);
	assert_int_equal(record.gc.bin_old_vheap_block_size, 46422);
	assert_int_equal(record.gc.stack_size, 0);
	assert_int_equal(message_time.clock, MESSAGE_MONOTONIC);
	assert_int_equal(message_time.ns, -5);
}

static void spawns_say_what_really_starts(void **state)
{
	ei_x_buff x;

	(void)state;
	trc_message(&x, "trace", 80, "spawn", 5);
	trc_pid(&x, "a@b", 81, 0);
	trc_mfa(&x, "m", "loop", 0);
	decode(&x);
	assert_int_equal(event.kind, RING_SPAWN);
	assert_int_equal(record.spawn.other, PID(81));
	MFA_IS(record.spawn.mfa, "m:loop/0");
	assert_int_equal(record.spawn.initial, RING_NO_INDEX);

	/* proc_lib:init_p(Parent, Ancestors, gen, init_it, [gen_server, P, P, store, [], []]) */
	trc_message(&x, "trace", 81, "spawned", 5);
	trc_pid(&x, "a@b", 80, 0);
	ei_x_encode_tuple_header(&x, 3);
	ei_x_encode_atom(&x, "proc_lib");
	ei_x_encode_atom(&x, "init_p");
	ei_x_encode_list_header(&x, 5);
	trc_pid(&x, "a@b", 80, 0);
	ei_x_encode_empty_list(&x);
	ei_x_encode_atom(&x, "gen");
	ei_x_encode_atom(&x, "init_it");
	ei_x_encode_list_header(&x, 6);
	ei_x_encode_atom(&x, "gen_server");
	trc_pid(&x, "a@b", 80, 0);
	trc_pid(&x, "a@b", 80, 0);
	ei_x_encode_atom(&x, "store");
	ei_x_encode_empty_list(&x);
	ei_x_encode_empty_list(&x);
	ei_x_encode_empty_list(&x);
	ei_x_encode_empty_list(&x);
	decode(&x);
	assert_int_equal(event.kind, RING_SPAWNED);
	assert_int_equal(record.spawn.other, PID(80));
	MFA_IS(record.spawn.mfa, "proc_lib:init_p/5");
	MFA_IS(record.spawn.initial, "store:init/1");
}

static void links_names_and_ports(void **state)
{
	ei_x_buff x;

	(void)state;
	trc_message(&x, "trace", 80, "getting_linked", 4);
	trc_port(&x, 9);
	decode(&x);
	assert_int_equal(event.kind, RING_GETTING_LINKED);
	assert_int_equal(record.peer.other, 9 << 4 | 7);

	trc_message(&x, "trace", 80, "register", 4);
	ei_x_encode_atom(&x, "store");
	decode(&x);
	assert_int_equal(event.kind, RING_REGISTER);
	ATOM_IS(record.name.name, "store");

	/* What a port does: in and out have its operation, not a function. */
	ei_x_new(&x);
	ei_x_encode_tuple_header(&x, 4);
	ei_x_encode_atom(&x, "trace");
	trc_port(&x, 9);
	ei_x_encode_atom(&x, "in");
	ei_x_encode_atom(&x, "command");
	decode(&x);
	assert_int_equal(event.kind, RING_PORT_IN);
	assert_int_equal(event.process, 9 << 4 | 7);
	ATOM_IS(record.name.name, "command");

	ei_x_new(&x);
	ei_x_encode_tuple_header(&x, 5);
	ei_x_encode_atom(&x, "trace");
	trc_port(&x, 9);
	ei_x_encode_atom(&x, "open");
	trc_pid(&x, "a@b", 80, 0);
	ei_x_encode_atom(&x, "tcp_inet");
	decode(&x);
	assert_int_equal(event.kind, RING_PORT_OPEN);
	assert_int_equal(record.port_open.owner, PID(80));
	ATOM_IS(record.port_open.driver, "tcp_inet");
}

static void what_is_not_known_keeps_its_tag(void **state)
{
	ei_x_buff x;

	(void)state;
	trc_message(&x, "trace", 80, "teleported", 4);
	ei_x_encode_long(&x, 1);
	decode(&x);
	assert_int_equal(event.kind, RING_UNKNOWN);
	assert_int_equal(event.process, PID(80));
	ATOM_IS(record.other.tag, "teleported");

	ei_x_new(&x);
	ei_x_encode_tuple_header(&x, 4);
	ei_x_encode_atom(&x, "seq_trace");
	ei_x_encode_long(&x, 17);
	ei_x_encode_atom(&x, "info");
	ei_x_encode_longlong(&x, 99);
	decode(&x);
	assert_int_equal(event.kind, RING_UNKNOWN);
	assert_int_equal(event.process, 0);
	ATOM_IS(record.other.tag, "seq_trace");
	assert_int_equal(message_time.ns, 99);
}

static void pid_words_are_made_as_they_are_read(void **state)
{
	struct ring_vm vm = {.otp_release = 27};
	char text[48];

	(void)state;
	/* A made-up permutation: number at 4..31 backwards, serial above. */
	memset(vm.pid_bit, 0xff, sizeof(vm.pid_bit));
	for (uint8_t bit = 0; bit < 28; bit++)
		vm.pid_bit[31 - bit] = bit;
	for (uint8_t bit = 0; bit < 32; bit++)
		vm.pid_bit[32 + bit] = 32 + bit;
	names_set_vm(names, &vm);
	names_process_put(names, message_pid_word(&vm, 0xabcdef, 12345), text, sizeof(text));
	assert_string_equal(text, "<0.11259375.12345>");
}

/* The whole message cut anywhere, in memory of that size: an error or what was there. */
static void cut_anywhere_nothing_is_read_beyond(void **state)
{
	ei_x_buff x;
	int whole;

	(void)state;
	trc_send(&x, 80, 81, 5, 1234567890123ll);
	whole = x.index;
	ei_x_free(&x);
	for (int bytes = 1; bytes < whole; bytes++) {
		trc_send(&x, 80, 81, 5, 1234567890123ll);
		if (!decode_cut(&x, (uint32_t)bytes, 0)) {
			assert_int_equal(event.kind, RING_SEND);
			assert_int_equal(event.flags & RING_F_CUT, RING_F_CUT);
		}
	}
	/* With its middle left out it still has its time. */
	trc_send(&x, 80, 81, 5, 1234567890123ll);
	assert_int_equal(decode_cut(&x, 60, 16), 0);
	assert_int_equal(event.kind, RING_SEND);
	assert_int_equal(message_time.clock, MESSAGE_MONOTONIC);
	assert_int_equal(message_time.ns, 1234567890123ll);
}

static void deep_and_endless_terms_end(void **state)
{
	uint32_t depth = 200000;
	ei_x_buff x;

	(void)state;
	trc_message(&x, "trace", 80, "receive", 4);
	for (uint32_t i = 0; i < depth; i++)
		ei_x_encode_tuple_header(&x, 1);
	ei_x_encode_long(&x, 1);
	decode(&x);
	assert_int_equal(record.receive.shape.type, RING_T_TUPLE);
	/* A list that says it has four milliards of elements. */
	trc_message(&x, "trace", 80, "receive", 4);
	ei_x_append_buf(&x, "\x6c\xff\xff\xff\xff", 5);
	decode(&x);
	assert_int_equal(event.flags & RING_F_CUT, RING_F_CUT);
	trc_message(&x, "other", 80, "receive", 4);
	ei_x_encode_long(&x, 1);
	assert_int_equal(decode_cut(&x, (uint32_t)x.index, 0), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_come_with_arguments_or_with_their_number,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ends_of_calls, setup, teardown),
		cmocka_unit_test_setup_teardown(receivers_are_pids_ports_and_names, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_message_has_one_fingerprint_on_both_sides, setup,
						teardown),
		cmocka_unit_test_setup_teardown(scheduling_and_collections, setup, teardown),
		cmocka_unit_test_setup_teardown(spawns_say_what_really_starts, setup, teardown),
		cmocka_unit_test_setup_teardown(links_names_and_ports, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_known_keeps_its_tag, setup, teardown),
		cmocka_unit_test_setup_teardown(pid_words_are_made_as_they_are_read, setup,
						teardown),
		cmocka_unit_test_setup_teardown(cut_anywhere_nothing_is_read_beyond, setup,
						teardown),
		cmocka_unit_test_setup_teardown(deep_and_endless_terms_end, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
