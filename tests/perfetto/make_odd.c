/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_odd OUT [CALLS]: a recording of what is awkward to draw, all of it known. Times in microseconds
 * from T0 = 1,000 s. With CALLS, that many more calls of 2 us each from 1,000,000 us on.
 *
 *   names      a function's atom with a line feed, a quote, a backslash and a byte that is no UTF-8; a
 *              process name with '<' and '&'; a task's comm of 16 bytes without a final 0 (the kernel has 15)
 *   calls      <0.200.0> on ring 0, scheduler 1:
 *              at 100 three nested calls of one function begin in one nanosecond; they end at 110, 120, 130
 *              at 200 a call that ends in the nanosecond in which it began
 *              at 300 a call that tail-calls itself at 310 and 310 (the same nanosecond), ended at 320
 *              at 400 a call in which a GC (410-420) lasts over a change of schedulers: out 412 on
 *              scheduler 1, in 415 on a dirty scheduler (ring 1); the call ends at 430
 *              at 500 a call that is open when the process exits at 510; at 505 a GC begins that never ends
 *   messages   <0.201.0> sends to the name `nobody`, which does not exist, at 600; a message of it to
 *              <0.200.0> is sent at 601 and never fetched; at 602 a message is fetched whose sending was
 *              not seen
 *   ports      #Port<0.9> runs from 620 to 630 on ring 0 while <0.201.0> runs there from 610 to 640
 *   kernel     CPU 0: 700 idle -> 1001; 710 1001 (preempted) -> 3000 "other"; at 720 3001 "third" -> 1001
 *              (a switch between the two was not recorded); 730 1001 (sleeping) -> idle; 735 waking of
 *              1001 by 3001; 740 3001 -> 1001: idle must end at 735
 *              CPU 0: 750 fork of 1003; 760 1001 -> 1003; 770 exit of 1003; 771 1003 (dead) -> 1001
 *              CPU 3: 780 idle -> 1002; records lost between 785 and 790; 795 3000 -> 1002; 798 1002
 *              (sleeping) -> idle; 830 1002 -> idle again, after 10 us on the CPU: its coming has no record
 *   sockets    one address: UDP, sent 100 at 800, received 200 at 801; a listener [::]:443 with 3 waiting
 *              at 810; then the same address as another socket, ESTABLISHED -> CLOSE_WAIT at 820
 *   syscalls   1001: read from 900 to 905, result 5; number 9999 from 906 to 907
 */
#include "../trace/maker.h"

#define T0     1000000000000ull
#define AT(us) (T0 + (uint64_t)(us)*1000)

enum { ATOM_MODULE = 21, ATOM_ODD, ATOM_NOBODY, ATOM_NORMAL };
enum { MFA_ODD = 7 };

static struct file_writer *file;
static struct maker_ring rings[2];
static struct maker_cpu cpus[2];
static struct maker_dict dict;
static uint64_t caller, sender;

static void about_put(void)
{
	static const struct chunk_clock clock = {T0, T0, 1796047385000000000ull};
	static const struct chunk_task tasks[] = {
		{1000, 1000, 1000, 0, "beam.smp"},
		{1001, 1000, 1001, 0, "1_scheduler"},
		{1002, 1000, 1002, 0, "1_dirty_cpu_sch"},
	};
	struct ring_vm vm = maker_vm();

	maker_append(file, CHUNK_META, 0, "{\"schema\":1}", 12, NULL, 0);
	maker_append(file, CHUNK_CLOCK, 0, &clock, sizeof(clock), NULL, 0);
	maker_append(file, CHUNK_TASKS, 0, tasks, sizeof(tasks), NULL, 0);
	maker_append(file, CHUNK_VM_INFO, 0, &vm, sizeof(vm), NULL, 0);
	maker_dict_text(&dict, RING_DICT_ATOM, ATOM_MODULE, "odd");
	maker_dict_text(&dict, RING_DICT_ATOM, ATOM_ODD, "f\n\"\\\xff!");
	maker_dict_text(&dict, RING_DICT_ATOM, ATOM_NOBODY, "nobody");
	maker_dict_text(&dict, RING_DICT_ATOM, ATOM_NORMAL, "normal");
	maker_dict_mfa(&dict, MFA_ODD, ATOM_MODULE, ATOM_ODD, 0);
	maker_dict_timed(&dict, RING_DICT_NAME, caller, AT(1), "<script>&amp;");
	maker_dict_store(&dict);
}

static struct ring_call *call(uint64_t us, uint32_t depth, uint32_t tail)
{
	struct ring_record *record = maker_call(&rings[0], AT(us), caller, MFA_ODD, depth);
	struct ring_call *put = (struct ring_call *)record;

	put->frame = depth;
	put->tail = tail;
	return put;
}

static void gc(struct maker_ring *ring, uint64_t us, enum ring_kind kind)
{
	maker_ring_put(ring, AT(us), kind, sizeof(struct ring_gc), caller);
}

static void calls_put(void)
{
	struct ring_value *value;

	maker_run(&rings[0], AT(90), RING_IN, caller, MFA_ODD);
	for (uint32_t i = 0; i < 3; i++)
		call(100, 10 + 2 * i, 0);
	for (uint32_t i = 0; i < 3; i++)
		maker_return_to(&rings[0], AT(110 + 10 * i), caller, MFA_ODD, 14 - 2 * i);
	call(200, 10, 0);
	maker_return_to(&rings[0], AT(200), caller, MFA_ODD, 10);
	call(300, 10, 0);
	call(310, 11, 1);
	call(310, 11, 1);
	maker_return_to(&rings[0], AT(320), caller, MFA_ODD, 10);
	call(400, 10, 0);
	gc(&rings[0], 410, RING_GC_MAJOR_START);
	maker_run(&rings[0], AT(412), RING_OUT, caller, MFA_ODD);
	maker_run(&rings[1], AT(415), RING_IN, caller, MFA_ODD);
	gc(&rings[1], 420, RING_GC_MAJOR_END);
	maker_run(&rings[1], AT(422), RING_OUT, caller, MFA_ODD);
	maker_run(&rings[0], AT(425), RING_IN, caller, MFA_ODD);
	maker_return_to(&rings[0], AT(430), caller, MFA_ODD, 10);
	call(500, 10, 0);
	gc(&rings[0], 505, RING_GC_MINOR_START);
	value = maker_ring_put(&rings[0], AT(510), RING_EXIT, sizeof(*value), caller);
	value->shape.type = RING_T_ATOM;
	value->shape.atom[0] = ATOM_NORMAL;
	value->mfa = RING_NO_INDEX;
	value->depth = RING_NO_DEPTH;
	maker_run(&rings[0], AT(511), RING_OUT_EXITED, caller, RING_NO_INDEX);
}

static void messages_put(void)
{
	struct ring_send *send;
	struct ring_receive *receive;

	send = maker_ring_put(&rings[0], AT(600), RING_SEND_NOPROC, sizeof(*send), sender);
	send->name = ATOM_NOBODY;
	send->shape = (struct ring_shape){.fingerprint = 1, .type = RING_T_INTEGER};
	send = maker_ring_put(&rings[0], AT(601), RING_SEND, sizeof(*send), sender);
	send->to = caller;
	send->shape = (struct ring_shape){.fingerprint = 2, .type = RING_T_TUPLE, .arity = 4};
	receive = maker_ring_put(&rings[0], AT(602), RING_RECEIVE, sizeof(*receive), sender);
	receive->shape = (struct ring_shape){.fingerprint = 3, .type = 200};
	maker_run(&rings[0], AT(610), RING_IN, sender, MFA_ODD);
	maker_name(&rings[0], AT(620), RING_PORT_IN, maker_port(9), 0);
	maker_name(&rings[0], AT(630), RING_PORT_OUT, maker_port(9), 0);
	maker_run(&rings[0], AT(640), RING_OUT, sender, MFA_ODD);
}

static struct probe_switch *switch_put(struct maker_cpu *cpu, uint64_t us, int prev, uint32_t state,
				       int next)
{
	struct probe_switch *record = maker_cpu_put(cpu, AT(us), PROBE_SWITCH, sizeof(*record));

	record->prev_tid = prev;
	record->next_tid = next;
	record->prev_tgid = prev / 1000 * 1000;
	record->next_tgid = next / 1000 * 1000;
	record->prev_state = state;
	record->prev_prio = record->next_prio = 120;
	record->syscall = -1;
	record->flags = (prev / 1000 == 1 ? PROBE_PREV_TARGET : 0) |
			(next / 1000 == 1 ? PROBE_NEXT_TARGET : 0);
	memset(record->prev_comm, prev ? 'p' : 'i', PROBE_COMM);
	memset(record->next_comm, next ? 'n' : 'i', PROBE_COMM);
	return record;
}

static void task_put(uint64_t us, enum probe_kind kind)
{
	struct probe_task *task = maker_cpu_put(&cpus[0], AT(us), kind, sizeof(*task));

	task->tid = 1003;
	task->tgid = 1000;
	task->parent_tid = 1001;
	snprintf(task->comm, sizeof(task->comm), "async_1");
}

static void kernel_put(void)
{
	struct probe_waking *waking;

	switch_put(&cpus[0], 700, 0, 0, 1001);
	switch_put(&cpus[0], 710, 1001, 0x100, 3000);
	switch_put(&cpus[0], 720, 3001, 1, 1001);
	switch_put(&cpus[0], 730, 1001, 1, 0);
	waking = maker_cpu_put(&cpus[0], AT(735), PROBE_WAKING, sizeof(*waking));
	waking->tid = 1001;
	waking->waker_tid = 3001;
	waking->waker_tgid = 3000;
	waking->prio = 120;
	switch_put(&cpus[0], 740, 3001, 0, 1001);
	task_put(750, PROBE_FORK);
	switch_put(&cpus[0], 760, 1001, 0, 1003);
	task_put(770, PROBE_EXIT);
	switch_put(&cpus[0], 771, 1003, 0x10, 1001);
	maker_cpu_store(&cpus[0]);
	switch_put(&cpus[1], 780, 0, 0, 1002);
	maker_cpu_store(&cpus[1]);
	cpus[1].counts.generated[PROBE_SWITCH] += 2;
	cpus[1].counts.discarded[PROBE_SWITCH] += 2;
	cpus[1].counts.loss_first_ns = AT(785);
	cpus[1].counts.loss_last_ns = AT(790);
	maker_cpu_counts(&cpus[1]);
	switch_put(&cpus[1], 795, 3000, 1, 1002);
	switch_put(&cpus[1], 798, 1002, 1, 0);
	switch_put(&cpus[1], 830, 1002, 1, 0)->ran_ns = 10000;
}

static void io_put(uint64_t us, enum probe_kind kind, int32_t result)
{
	struct probe_sock_io *record = maker_cpu_put(&cpus[0], AT(us), kind, sizeof(*record));

	record->sock = 0xffff888000002000ull;
	record->tid = 1001;
	record->result = result;
	record->family = 2;
	record->protocol = 17;
	record->local_port = 53;
}

static void sockets_put(void)
{
	struct probe_sock_event *ready;
	struct probe_sock_state *state;

	io_put(800, PROBE_SOCK_SEND, 100);
	io_put(801, PROBE_SOCK_RECV, 200);
	io_put(802, PROBE_SOCK_RECV, -11);
	ready = maker_cpu_put(&cpus[0], AT(810), PROBE_SOCK_DATA_READY, sizeof(*ready));
	ready->sock = 0xffff888000003000ull;
	ready->value = 3;
	ready->family = 10;
	ready->local_port = 443;
	state = maker_cpu_put(&cpus[0], AT(820), PROBE_SOCK_STATE, sizeof(*state));
	state->sock = 0xffff888000002000ull;
	state->family = 2;
	state->protocol = 6;
	state->local_port = 5000;
	state->remote_port = 6000;
	state->old_state = 1;
	state->new_state = 8;
}

static void syscall_put(uint64_t enter_us, uint64_t exit_us, int32_t number)
{
	struct probe_syscall *record =
		maker_cpu_put(&cpus[0], AT(exit_us), PROBE_SYSCALL, sizeof(*record));

	record->enter_ns = AT(enter_us);
	record->tid = 1001;
	record->number = number;
	record->result = 5;
	record->args[0] = 3;
}

static void many_put(uint64_t count)
{
	uint64_t process = maker_pid(300, 0);

	for (uint64_t i = 0; i < count; i++) {
		maker_call(&rings[0], AT(1000000 + 4 * i), process, MFA_ODD, 10);
		maker_return_to(&rings[0], AT(1000000 + 4 * i + 2), process, MFA_ODD, 10);
	}
}

int main(int argc, char **argv)
{
	struct maker_ring *const all[] = {&rings[0], &rings[1]};
	uint64_t many = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	struct chunk_clock clock = {AT(2000000 + 4 * many), AT(2000000 + 4 * many),
				    1796047387000000000ull + 4000 * many};

	if (argc < 2 || !(file = file_create(argv[1]))) {
		fputs("usage: make_odd OUT [CALLS]\n", stderr);
		return 2;
	}
	caller = maker_pid(200, 0);
	sender = maker_pid(201, 0);
	dict.file = file;
	maker_ring_init(&rings[0], file, 0, 1001, RING_ROLE_NORMAL, 1);
	maker_ring_init(&rings[1], file, 1, 1002, RING_ROLE_DIRTY_CPU, 0);
	cpus[0] = (struct maker_cpu){.file = file, .cpu = 0};
	cpus[1] = (struct maker_cpu){.file = file, .cpu = 3};
	about_put();
	calls_put();
	messages_put();
	kernel_put();
	sockets_put();
	syscall_put(900, 905, 0);
	syscall_put(906, 907, 9999);
	many_put(many);
	for (uint32_t i = 0; i < 2; i++) {
		maker_ring_store(&rings[i]);
		maker_cpu_store(&cpus[i]);
		maker_cpu_counts(&cpus[i]);
	}
	maker_threads(file, all, 2, clock.monotonic_ns);
	maker_append(file, CHUNK_CLOCK, 0, &clock, sizeof(clock), NULL, 0);
	if (file_close(file, true)) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
