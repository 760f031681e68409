/* SPDX-License-Identifier: Apache-2.0 */
/* Words to texts, and names at their moments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../trace/maker.h"
#include "names.h"

static struct names *names;

static int setup(void **state)
{
	(void)state;
	names = names_new();
	return !names;
}

static int teardown(void **state)
{
	(void)state;
	names_free(names);
	return 0;
}

/* One entry as the dictionary would hold it. */
static void add(enum ring_dict_type type, uint64_t key, const void *head, size_t head_bytes,
		const void *tail, size_t tail_bytes)
{
	static _Alignas(8) uint8_t buffer[65536];
	struct ring_dict_entry *entry = (struct ring_dict_entry *)buffer;

	entry->type = (uint16_t)type;
	entry->bytes = (uint16_t)(head_bytes + tail_bytes);
	entry->key = key;
	memcpy(entry + 1, head, head_bytes);
	if (tail_bytes)
		memcpy((uint8_t *)(entry + 1) + head_bytes, tail, tail_bytes);
	assert_int_equal(names_add(names, entry), 0);
}

static void atom(uint32_t key, const char *text)
{
	add(RING_DICT_ATOM, key, text, strlen(text), NULL, 0);
}

static void timed(enum ring_dict_type type, uint64_t key, uint64_t ts_ns, const char *text)
{
	add(type, key, &ts_ns, sizeof(ts_ns), text, strlen(text));
}

static void mfa(uint32_t index, uint32_t module, uint32_t function, uint32_t arity)
{
	struct ring_dict_mfa payload = {module, function, arity, 0};

	add(RING_DICT_MFA, index, &payload, sizeof(payload), NULL, 0);
}

static void learn(uint64_t ts_ns, uint32_t kind, uint64_t process, uint32_t name)
{
	struct ring_name record = {.name = name};
	struct event event = {.ts_ns = ts_ns, .kind = kind, .process = process, .name = &record};

	assert_int_equal(names_learn(names, &event), 0);
}

/* The words are those that a VM of OTP 25 had for these texts. */
static void pids_and_ports_print_as_the_vm_prints_them(void **state)
{
	(void)state;
	assert_string_equal(names_process(names, 0x3), "<0.0.0>");
	assert_string_equal(names_process(names, 0x800000013), "<0.1.0>");
	assert_string_equal(names_process(names, 0x1000000023), "<0.2.0>");
	assert_string_equal(names_process(names, 0xe4810009c903), "<0.7312.1>");
	assert_string_equal(names_process(names, 0x7), "#Port<0.0>");
	assert_string_equal(names_process(names, 0x1800000037), "#Port<0.3>");
	assert_string_equal(names_process(names, 0x3800000077), "#Port<0.7>");
	assert_string_equal(names_process(names, 0x12b), "0x12b");
}

static void the_vm_says_how_its_pids_are_read(void **state)
{
	struct ring_vm vm = {.otp_release = 27};

	(void)state;
	/* Number in bits 8 to 35 from the top down, serial in bits 36 to 43. */
	memset(vm.pid_bit, 0xff, sizeof(vm.pid_bit));
	for (uint8_t bit = 0; bit < 28; bit++)
		vm.pid_bit[8 + bit] = 27 - bit;
	for (uint8_t bit = 0; bit < 8; bit++)
		vm.pid_bit[36 + bit] = 32 + bit;
	names_set_vm(names, &vm);
	/* number 5 = bits 0 and 2, at 35 and 33; serial 3 */
	assert_string_equal(names_process(names, 1ull << 35 | 1ull << 33 | 3ull << 36 | 3),
			    "<0.5.3>");
	/* Ports are not described, and 27's are not read as 25's. */
	assert_string_equal(names_process(names, 0x37), "0x37");
}

static void functions_print_as_their_language_writes_them(void **state)
{
	(void)state;
	atom(1, "lists");
	atom(2, "map");
	atom(3, "Elixir.MyApp.Cache");
	atom(4, "get");
	atom(5, "valid?");
	atom(6, "hello world");
	atom(7, "Hello");
	atom(8, "-init/1-fun-0-");
	atom(9, "it's");
	atom(10, "receive");
	atom(11, "caf\xc3\xa9");
	mfa(0, 1, 2, 2);
	mfa(1, 3, 4, 1);
	mfa(2, 3, 5, 0);
	mfa(3, 6, 7, 255);
	mfa(4, 1, 8, 3);
	mfa(5, 3, 8, 3);
	mfa(6, 9, 10, 0);
	mfa(7, 11, 4, 0);
	mfa(8, 99, 4, 0);
	assert_string_equal(names_mfa(names, 0), "lists:map/2");
	assert_string_equal(names_mfa(names, 1), "MyApp.Cache.get/1");
	assert_string_equal(names_mfa(names, 2), "MyApp.Cache.valid?/0");
	assert_string_equal(names_mfa(names, 3), "'hello world':'Hello'/255");
	assert_string_equal(names_mfa(names, 4), "lists:'-init/1-fun-0-'/3");
	assert_string_equal(names_mfa(names, 5), "MyApp.Cache.\"-init/1-fun-0-\"/3");
	assert_string_equal(names_mfa(names, 6), "'it\\'s':'receive'/0");
	assert_string_equal(names_mfa(names, 7), "caf\xc3\xa9:get/0");
	assert_string_equal(names_mfa(names, 12345), "?");
	assert_string_equal(names_atom(names, 99), "?");
}

static void texts_come_out_harmless(void **state)
{
	(void)state;
	atom(1, "red\x1b[31m");
	atom(2, "\xff\xc0\x80");
	atom(3, "a\xc2\x9b"
		"b");
	atom(4, "\xe2\x80\xaegnp");
	assert_string_equal(names_atom(names, 1), "red\xef\xbf\xbd[31m");
	assert_string_equal(names_atom(names, 2), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	assert_string_equal(names_atom(names, 3), "a\xef\xbf\xbd"
						  "b");
	assert_string_equal(names_atom(names, 4), "\xef\xbf\xbdgnp");
}

static void a_name_is_right_at_each_moment(void **state)
{
	const uint64_t first = maker_pid(1, 0), second = maker_pid(2, 0);

	(void)state;
	atom(7, "holder");
	/* The events come ring by ring, not in time order. */
	learn(500, RING_REGISTER, second, 7);
	learn(100, RING_REGISTER, first, 7);
	learn(400, RING_UNREGISTER, first, 7);
	learn(900, RING_EXIT, second, 0);
	names_settle(names);
	assert_null(names_registered(names, first, 99));
	assert_string_equal(names_registered(names, first, 100), "holder");
	assert_string_equal(names_registered(names, first, 399), "holder");
	assert_null(names_registered(names, first, 400));
	assert_null(names_registered(names, second, 450));
	assert_string_equal(names_registered(names, second, 500), "holder");
	assert_string_equal(names_registered(names, second, 899), "holder");
	assert_null(names_registered(names, second, 900));
}

static void a_name_that_was_asked_holds_before_and_after(void **state)
{
	const uint64_t pid = maker_pid(1, 0);

	(void)state;
	atom(7, "later");
	timed(RING_DICT_NAME, pid, 50, "asked");
	learn(200, RING_UNREGISTER, pid, 6);
	learn(300, RING_REGISTER, pid, 7);
	names_settle(names);
	assert_string_equal(names_registered(names, pid, 10), "asked");
	assert_string_equal(names_registered(names, pid, 199), "asked");
	assert_null(names_registered(names, pid, 250));
	assert_string_equal(names_registered(names, pid, 300), "later");
}

static void what_was_asked_too_late_does_not_come_back(void **state)
{
	const uint64_t pid = maker_pid(1, 0);

	(void)state;
	atom(7, "gone");
	learn(100, RING_UNREGISTER, pid, 7);
	timed(RING_DICT_NAME, pid, 101, "gone");
	names_settle(names);
	assert_string_equal(names_registered(names, pid, 50), "gone");
	assert_null(names_registered(names, pid, 150));
}

static void an_exited_process_keeps_its_last_name(void **state)
{
	(void)state;
	atom(1, "first");
	atom(2, "second");
	learn(10, RING_REGISTER, 0x13, 1);
	learn(20, RING_UNREGISTER, 0x13, 1);
	learn(30, RING_REGISTER, 0x13, 2);
	learn(40, RING_EXIT, 0x13, 0);
	learn(41, RING_UNREGISTER, 0x13, 2);
	/* one that had its name before the recording began */
	learn(41, RING_UNREGISTER, 0x23, 1);
	names_settle(names);
	assert_null(names_registered(names, 0x13, 50));
	assert_string_equal(names_registered_last(names, 0x13, 40), "second");
	assert_string_equal(names_registered_last(names, 0x13, 50), "second");
	assert_string_equal(names_registered_last(names, 0x13, 25), "first");
	assert_string_equal(names_registered_last(names, 0x23, 40), "first");
	assert_null(names_registered_last(names, 0x33, 40));
}

static void a_spawn_tells_parent_and_initial_call(void **state)
{
	const uint64_t parent = maker_pid(1, 0), child = maker_pid(2, 0), other = maker_pid(3, 0);
	struct ring_spawn spawn = {.other = child, .mfa = 0, .initial = 1};
	struct event event = {.kind = RING_SPAWN, .process = parent, .spawn = &spawn};
	uint64_t word = parent;

	(void)state;
	atom(1, "proc_lib");
	atom(2, "init_p");
	atom(3, "worker");
	atom(4, "init");
	mfa(0, 1, 2, 5);
	mfa(1, 3, 4, 1);
	assert_int_equal(names_learn(names, &event), 0);
	assert_string_equal(names_initial(names, child), "worker:init/1");
	assert_true(names_parent(names, child) == parent);

	/* Without a translation the node knows better than the spawn. */
	spawn = (struct ring_spawn){.other = other, .mfa = 0, .initial = RING_NO_INDEX};
	assert_int_equal(names_learn(names, &event), 0);
	assert_string_equal(names_initial(names, other), "proc_lib:init_p/5");
	timed(RING_DICT_INITIAL, other, 5, "worker:init/1");
	assert_string_equal(names_initial(names, other), "worker:init/1");
	add(RING_DICT_PARENT, parent, &word, sizeof(word), NULL, 0);
	assert_true(names_parent(names, parent) == parent);
	assert_true(names_parent(names, 0x999) == 0);
}

static void initial_calls_of_elixir_modules_print_as_elixir(void **state)
{
	(void)state;
	timed(RING_DICT_INITIAL, 1, 0, "'Elixir.MyApp.Worker':init/1");
	timed(RING_DICT_INITIAL, 2, 0, "Elixir.MyApp.Worker:init/1");
	timed(RING_DICT_INITIAL, 3, 0, "'strange module':init/1");
	assert_string_equal(names_initial(names, 1), "MyApp.Worker.init/1");
	assert_string_equal(names_initial(names, 2), "MyApp.Worker.init/1");
	assert_string_equal(names_initial(names, 3), "'strange module':init/1");
}

static void the_dictionarys_own_entries_are_kept(void **state)
{
	const struct names_moment *moments;
	const char *const *notes;
	struct ring_dict_port port = {.time_ns = 20, .owner = maker_pid(1, 0), .local_port = 80};

	(void)state;
	assert_null(names_flags(names));
	timed(RING_DICT_FLAGS, 0, 1, "call");
	timed(RING_DICT_FLAGS, 0, 2, "call,return_to");
	timed(RING_DICT_NOTE, 0, 3, "one");
	timed(RING_DICT_NOTE, 0, 4, "two");
	for (uint64_t i = 0; i < 20; i++)
		add(RING_DICT_OWN, maker_pid(900 + (uint32_t)i, 0), "", 0, NULL, 0);
	add(RING_DICT_PORT, maker_port(4), &port, sizeof(port), "tcp_inet", 8);
	timed(RING_DICT_NAME, maker_pid(1, 0), 10, "first");
	names_settle(names);
	assert_string_equal(names_flags(names), "call,return_to");
	assert_int_equal(names_notes(names, &notes), 2);
	assert_string_equal(notes[0], "one");
	assert_string_equal(notes[1], "two");
	assert_true(names_own(names, maker_pid(900, 0)));
	assert_true(names_own(names, maker_pid(919, 0)));
	assert_false(names_own(names, maker_pid(920, 0)));
	assert_string_equal(names_initial(names, maker_port(4)), "tcp_inet");
	assert_int_equal(names_moments(names, &moments), 2);
	assert_int_equal(moments[0].kind, EVENT_NAME);
	assert_int_equal(moments[1].kind, EVENT_PORT);
	assert_int_equal(moments[1].port->local_port, 80);
}

static void entries_too_short_for_their_type_are_left_out(void **state)
{
	const struct names_moment *moments;
	const char *const *notes;

	(void)state;
	for (uint32_t type = 0; type < 12; type++) {
		if (type != RING_DICT_ATOM && type != RING_DICT_OWN)
			add((enum ring_dict_type)type, 1, "1234567", 7, NULL, 0);
	}
	names_settle(names);
	assert_int_equal(names_moments(names, &moments), 0);
	assert_int_equal(names_notes(names, &notes), 0);
	assert_null(names_flags(names));
	assert_string_equal(names_mfa(names, 1), "?");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pids_and_ports_print_as_the_vm_prints_them),
		TEST(the_vm_says_how_its_pids_are_read),
		TEST(functions_print_as_their_language_writes_them),
		TEST(texts_come_out_harmless),
		TEST(a_name_is_right_at_each_moment),
		TEST(a_name_that_was_asked_holds_before_and_after),
		TEST(what_was_asked_too_late_does_not_come_back),
		TEST(an_exited_process_keeps_its_last_name),
		TEST(a_spawn_tells_parent_and_initial_call),
		TEST(initial_calls_of_elixir_modules_print_as_elixir),
		TEST(the_dictionarys_own_entries_are_kept),
		TEST(entries_too_short_for_their_type_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
