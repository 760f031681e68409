/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_trace OUT [SEED]: a small recording of which everything is known. The seed only changes how the
 * bytes are cut into chunks (and stores some twice); what the recording says is always the same.
 *
 * Times in ms from the start T0 = 1,000 s of CLOCK_MONOTONIC; wall clock at T0: 2026-11-30 14:03:05 UTC;
 * BOOTTIME - MONOTONIC = 5 s; 1,000 ms long. tgid 1000 "beam.smp".
 *
 *   threads    tid 1001 scheduler 1 (ring 0), tid 1002 scheduler 2 (ring 1)
 *   processes  <0.100.0> registered `server`, initial call server:init/1
 *              <0.101.0> initial call client:start/0; takes the name `holder` at 450
 *              <0.102.0> spawned by <0.100.0> at 290 as worker:run/2; has the name `holder` from 300
 *              to 400; exits at 900 with reason normal
 *              <0.900.0> is beamweave's own: its in (30) and out (31) on ring 1 are left out
 *   runs       server 9-99, 160-200, 201-270, 289-292 on ring 0; client 195-265, 448-452, 721-730 and
 *              worker 295-440, 899-900.1 on ring 1
 *   calls      server, i = 0..49 at 10 + i: outer/1, +0.1: inner/2 in it, +0.3: inner ends, +0.4: outer
 *              ends. So 100 calls; each outer 0.4 ms (20 ms together), each inner 0.2 ms (10 ms)
 *   messages   client to server, j = 0..49: sent at 200 + j, fetched 0.05 ms later, {metric, j}
 *   GC         worker: minor at 310, 320, 330 of 0.2 ms each, major at 350 of 5 ms: 5.6 ms together;
 *              reclaimed words: 1,000 each minor, 100,000 the major
 *   kernel     both threads on CPU 0 (1001) and 1 (1002) from 1 on
 *              both stopped (state T) from 100 to 150: 50 ms
 *              1002 preempted from 500 to 530 by tid 2000 "hog" of tgid 2000
 *              1001 sleeps in futex from 600, woken by 1002 at 650, on its CPU at 650.02
 *              migrations: none
 *   socket     TCP 127.0.0.1:40000 -> 127.0.0.1:8080, connected at 160.5, closed at 198: tid 1001 sent
 *              10,000 + 2,000 + 345 = 12,345 bytes in 3 sends, received 100 in 1; one retransmit at 172;
 *              Erlang port #Port<0.5> "tcp_inet" owned by `server`
 *   loss       ring 1 discarded 37 calls and 5 sends between 700 and 720
 */
#include "maker.h"

#define MS	 1000000ull
#define T0	 1000000000000ull
#define WALL_T0	 1796047385000000000ull /* 2026-11-30 14:03:05 UTC */
#define BOOT_GAP 5000000000ull
#define AT(ms)	 (T0 + (uint64_t)((ms)*1e6 + 0.5))

enum { /* atoms, as (table index + 1) */
       ATOM_DEMO = 11,
       ATOM_OUTER,
       ATOM_INNER,
       ATOM_METRIC,
       ATOM_HOLDER,
       ATOM_WORKER,
       ATOM_RUN,
       ATOM_SERVER,
       ATOM_LOOP,
       ATOM_NORMAL,
};

enum { MFA_OUTER = 3, MFA_INNER = 4, MFA_WORKER = 5, MFA_LOOP = 6 };

static struct file_writer *file;
static struct maker_ring rings[2];
static struct maker_cpu cpus[2];
static struct maker_dict dict;
static uint64_t server, client, worker, own;
static uint64_t seed;

/* splitmix64 */
static uint64_t random_next(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Store a ring's bytes sometimes, and sometimes a part of them twice, as two readers would. */
static void cut(struct maker_ring *ring)
{
	uint32_t before = ring->stored;

	if (!seed || random_next() % 4)
		return;
	maker_ring_store(ring);
	if (random_next() % 8 == 0) {
		ring->stored = before;
		maker_ring_store(ring);
	}
}

static void clock_put(uint64_t ts_ns)
{
	struct chunk_clock clock = {ts_ns, ts_ns + BOOT_GAP, ts_ns - T0 + WALL_T0};

	maker_append(file, CHUNK_CLOCK, 0, &clock, sizeof(clock), NULL, 0);
}

static void about_put(void)
{
	static const char meta[] =
		"{\"schema\":1,\"options\":{\"mode\":\"discard\"},\"tracer\":\"nif\",\"target\":{"
		"\"pid\":1000,"
		"\"node\":\"demo@localhost\"},\"host\":{\"kernel\":\"6.18.0\",\"machine\":\"x86_"
		"64\","
		"\"cpus\":2}}";
	static const struct chunk_task tasks[] = {
		{1000, 1000, 1000, 0, "beam.smp"},
		{1001, 1000, 1001, 0, "1_scheduler"},
		{1002, 1000, 1002, 0, "2_scheduler"},
	};
	struct ring_vm vm = maker_vm();

	maker_append(file, CHUNK_META, 0, meta, sizeof(meta) - 1, NULL, 0);
	maker_append(file, CHUNK_TASKS, 0, tasks, sizeof(tasks), NULL, 0);
	maker_append(file, CHUNK_VM_INFO, 0, &vm, sizeof(vm), NULL, 0);
}

static void dict_put(void)
{
	static const struct {
		uint32_t atom;
		const char *text;
	} atoms[] = {
		{ATOM_DEMO, "demo"},	 {ATOM_OUTER, "outer"},	  {ATOM_INNER, "inner"},
		{ATOM_METRIC, "metric"}, {ATOM_HOLDER, "holder"}, {ATOM_WORKER, "worker"},
		{ATOM_RUN, "run"},	 {ATOM_SERVER, "server"}, {ATOM_LOOP, "loop"},
		{ATOM_NORMAL, "normal"},
	};
	struct ring_dict_port port = {.time_ns = AT(161),
				      .owner = server,
				      .family = 2,
				      .local_port = 40000,
				      .remote_port = 8080,
				      .local = {127, 0, 0, 1},
				      .remote = {127, 0, 0, 1}};

	for (size_t i = 0; i < sizeof(atoms) / sizeof(*atoms); i++)
		maker_dict_text(&dict, RING_DICT_ATOM, atoms[i].atom, atoms[i].text);
	maker_dict_mfa(&dict, MFA_OUTER, ATOM_DEMO, ATOM_OUTER, 1);
	maker_dict_mfa(&dict, MFA_INNER, ATOM_DEMO, ATOM_INNER, 2);
	maker_dict_mfa(&dict, MFA_WORKER, ATOM_WORKER, ATOM_RUN, 2);
	maker_dict_mfa(&dict, MFA_LOOP, ATOM_SERVER, ATOM_LOOP, 1);
	maker_dict_timed(&dict, RING_DICT_NAME, server, AT(0.5), "server");
	maker_dict_timed(&dict, RING_DICT_INITIAL, server, AT(0.5), "server:init/1");
	maker_dict_timed(&dict, RING_DICT_INITIAL, client, AT(0.6), "client:start/0");
	maker_dict_put(&dict, RING_DICT_OWN, own, NULL, 0, NULL, 0);
	maker_dict_put(&dict, RING_DICT_PORT, maker_port(5), &port, sizeof(port), "tcp_inet", 8);
	maker_dict_timed(&dict, RING_DICT_FLAGS, 0, AT(0.5),
			 "call,return_to,send,receive,running,garbage_collection,procs");
	maker_dict_timed(&dict, RING_DICT_NOTE, 0, AT(0.5), "2 processes have another tracer");
	maker_dict_store(&dict);
}

/* ---- The VM ---- */

static void calls_put(struct maker_ring *ring)
{
	maker_run(ring, AT(9), RING_IN, server, MFA_LOOP);
	for (int i = 0; i < 50; i++) {
		maker_call(ring, AT(10 + i), server, MFA_OUTER, 10);
		maker_call(ring, AT(10 + i + 0.1), server, MFA_INNER, 14);
		maker_return_to(ring, AT(10 + i + 0.3), server, MFA_OUTER, 14);
		maker_return_to(ring, AT(10 + i + 0.4), server, MFA_LOOP, 10);
		cut(ring);
	}
	maker_run(ring, AT(99), RING_OUT, server, MFA_LOOP);
}

static struct ring_shape metric(int j)
{
	return (struct ring_shape){.fingerprint = 0xbeef0000u + (uint64_t)j,
				   .atom = {ATOM_METRIC},
				   .arity = 2,
				   .type = RING_T_TUPLE};
}

static void messages_put(void)
{
	maker_run(&rings[1], AT(195), RING_IN, client, MFA_LOOP);
	maker_run(&rings[0], AT(201), RING_IN, server, MFA_LOOP);
	for (int j = 0; j < 50; j++) {
		struct ring_send *send =
			maker_ring_put(&rings[1], AT(200 + j), RING_SEND, sizeof(*send), client);
		struct ring_receive *receive;

		send->to = server;
		send->shape = metric(j);
		cut(&rings[1]);
		if (j) /* the first one is fetched before the process runs: facts/otp.md */
			receive = maker_ring_put(&rings[0], AT(200 + j + 0.05), RING_RECEIVE,
						 sizeof(*receive), server);
		else
			continue;
		receive->shape = metric(j);
		cut(&rings[0]);
	}
	maker_run(&rings[1], AT(265), RING_OUT, client, MFA_LOOP);
	maker_run(&rings[0], AT(270), RING_OUT, server, MFA_LOOP);
}

static void gc_put(struct maker_ring *ring, uint64_t start_ns, uint64_t end_ns, bool major,
		   uint64_t reclaimed)
{
	struct ring_gc *gc;

	gc = maker_ring_put(ring, start_ns, major ? RING_GC_MAJOR_START : RING_GC_MINOR_START,
			    sizeof(*gc), worker);
	gc->heap_size = 150000;
	gc->heap_block_size = 200000;
	gc->stack_size = 40;
	gc = maker_ring_put(ring, end_ns, major ? RING_GC_MAJOR_END : RING_GC_MINOR_END,
			    sizeof(*gc), worker);
	gc->heap_size = 150000 - reclaimed;
	gc->heap_block_size = 200000;
	gc->stack_size = 40;
}

static void spawn_put(struct maker_ring *ring)
{
	struct ring_spawn *spawn;

	maker_run(ring, AT(289), RING_IN, server, MFA_LOOP);
	spawn = maker_ring_put(ring, AT(290), RING_SPAWN, sizeof(*spawn), server);
	spawn->other = worker;
	spawn->mfa = MFA_WORKER;
	spawn->initial = RING_NO_INDEX;
	spawn = maker_ring_put(ring, AT(290.001), RING_SPAWNED, sizeof(*spawn), worker);
	spawn->other = server;
	spawn->mfa = MFA_WORKER;
	spawn->initial = RING_NO_INDEX;
	maker_run(ring, AT(292), RING_OUT, server, MFA_LOOP);
}

static void worker_put(struct maker_ring *ring)
{
	maker_run(ring, AT(295), RING_IN, worker, MFA_WORKER);
	maker_name(ring, AT(300), RING_REGISTER, worker, ATOM_HOLDER);
	for (int i = 0; i < 3; i++)
		gc_put(ring, AT(310 + 10 * i), AT(310 + 10 * i + 0.2), false, 1000);
	cut(ring);
	gc_put(ring, AT(350), AT(355), true, 100000);
	maker_name(ring, AT(400), RING_UNREGISTER, worker, ATOM_HOLDER);
	maker_run(ring, AT(440), RING_OUT, worker, MFA_WORKER);
	maker_run(ring, AT(448), RING_IN, client, MFA_LOOP);
	maker_name(ring, AT(450), RING_REGISTER, client, ATOM_HOLDER);
	maker_run(ring, AT(452), RING_OUT, client, MFA_LOOP);
}

static void loss_put(struct maker_ring *ring)
{
	maker_ring_discard(ring, RING_CALL, 37, AT(700), AT(720));
	maker_ring_discard(ring, RING_SEND, 5, AT(700), AT(720));
	maker_ring_begin(ring, AT(720.5));
	maker_run(ring, AT(721), RING_IN, client, MFA_LOOP);
	maker_run(ring, AT(730), RING_OUT, client, MFA_LOOP);
}

static void exit_put(struct maker_ring *ring)
{
	struct ring_value *value;

	maker_run(ring, AT(899), RING_IN, worker, MFA_WORKER);
	value = maker_ring_put(ring, AT(900), RING_EXIT, sizeof(*value), worker);
	value->shape.type = RING_T_ATOM;
	value->shape.atom[0] = ATOM_NORMAL;
	value->mfa = RING_NO_INDEX;
	value->depth = RING_NO_DEPTH;
	maker_run(ring, AT(900.1), RING_OUT_EXITED, worker, RING_NO_INDEX);
}

static void vm_put(void)
{
	struct ring_receive *receive;

	calls_put(&rings[0]);
	maker_run(&rings[1], AT(30), RING_IN, own, RING_NO_INDEX);
	maker_run(&rings[1], AT(31), RING_OUT, own, RING_NO_INDEX);
	maker_run(&rings[0], AT(160), RING_IN, server, MFA_LOOP);
	maker_run(&rings[0], AT(200), RING_OUT, server, MFA_LOOP);
	receive = maker_ring_put(&rings[0], AT(200.05), RING_RECEIVE, sizeof(*receive), server);
	receive->shape = metric(0);
	messages_put();
	spawn_put(&rings[0]);
	worker_put(&rings[1]);
	loss_put(&rings[1]);
	exit_put(&rings[1]);
	maker_ring_store(&rings[0]);
	maker_ring_store(&rings[1]);
}

/* ---- The kernel ---- */

static void switch_put(struct maker_cpu *cpu, uint64_t ts_ns, int prev, uint32_t state, int next,
		       int32_t syscall, uint64_t process)
{
	struct probe_switch *record = maker_cpu_put(cpu, ts_ns, PROBE_SWITCH, sizeof(*record));
	const int tids[] = {prev, next};
	char *const comms[] = {record->prev_comm, record->next_comm};

	for (int i = 0; i < 2; i++)
		snprintf(comms[i], PROBE_COMM, "%s",
			 tids[i] == 1001   ? "1_scheduler"
			 : tids[i] == 1002 ? "2_scheduler"
			 : tids[i] == 2000 ? "hog"
					   : "swapper");
	record->prev_tid = prev;
	record->next_tid = next;
	record->prev_tgid = prev / 1000 * 1000;
	record->next_tgid = next / 1000 * 1000;
	record->prev_state = state;
	record->prev_prio = 120;
	record->next_prio = 120;
	record->syscall = syscall;
	record->process = process;
	record->flags = (prev / 1000 == 1 ? PROBE_PREV_TARGET | PROBE_PROCESS_KNOWN |
						    PROBE_SYSCALL_KNOWN | PROBE_THROTTLE_KNOWN
					  : 0) |
			(next / 1000 == 1 ? PROBE_NEXT_TARGET : 0);
}

static void waking_put(struct maker_cpu *cpu, uint64_t ts_ns, int tid, int waker, int target_cpu)
{
	struct probe_waking *record = maker_cpu_put(cpu, ts_ns, PROBE_WAKING, sizeof(*record));

	record->tid = tid;
	record->waker_tid = waker;
	record->waker_tgid = waker / 1000 * 1000;
	record->target_cpu = target_cpu;
	record->prio = 120;
	snprintf(record->comm, PROBE_COMM, "%d_scheduler", tid - 1000);
	snprintf(record->waker_comm, PROBE_COMM, "%s", waker == 1002 ? "2_scheduler" : "swapper");
}

static void sock_state_put(uint64_t ts_ns, uint8_t from, uint8_t to)
{
	struct probe_sock_state *record =
		maker_cpu_put(&cpus[0], ts_ns, PROBE_SOCK_STATE, sizeof(*record));
	static const uint8_t loopback[PROBE_ADDRESS] = {127, 0, 0, 1};

	record->sock = 0xffff888000001000ull;
	record->tid = 1001;
	record->family = 2;
	record->protocol = 6;
	record->local_port = 40000;
	record->remote_port = 8080;
	record->old_state = from;
	record->new_state = to;
	memcpy(record->local, loopback, sizeof(loopback));
	memcpy(record->remote, loopback, sizeof(loopback));
}

static void sock_io_put(uint64_t ts_ns, enum probe_kind kind, int32_t result)
{
	struct probe_sock_io *record = maker_cpu_put(&cpus[0], ts_ns, kind, sizeof(*record));
	static const uint8_t loopback[PROBE_ADDRESS] = {127, 0, 0, 1};

	record->sock = 0xffff888000001000ull;
	record->tid = 1001;
	record->result = result;
	record->family = 2;
	record->protocol = 6;
	record->local_port = 40000;
	record->remote_port = 8080;
	memcpy(record->local, loopback, sizeof(loopback));
	memcpy(record->remote, loopback, sizeof(loopback));
}

static void retransmit_put(uint64_t ts_ns)
{
	struct probe_sock_event *record =
		maker_cpu_put(&cpus[0], ts_ns, PROBE_TCP_RETRANSMIT, sizeof(*record));

	record->sock = 0xffff888000001000ull;
	record->value = 1; /* TCP_ESTABLISHED */
	record->family = 2;
	record->protocol = 6;
	record->local_port = 40000;
	record->remote_port = 8080;
	record->local[0] = 127;
	record->local[3] = 1;
	record->remote[0] = 127;
	record->remote[3] = 1;
}

static void kernel_put(void)
{
	/* Two records of one CPU stand in the wrong order, as they may in the kernel's rings. */
	switch_put(&cpus[0], AT(1), 0, 0, 1001, -1, 0);
	waking_put(&cpus[0], AT(0.99), 1001, 0, 0);
	waking_put(&cpus[1], AT(0.99), 1002, 0, 1);
	switch_put(&cpus[1], AT(1), 0, 0, 1002, -1, 0);
	for (int i = 0; i < 2; i++) {
		switch_put(&cpus[i], AT(100), 1001 + i, 4, 0, -1, 0);
		waking_put(&cpus[i], AT(149.99), 1001 + i, 0, i);
		switch_put(&cpus[i], AT(150), 0, 0, 1001 + i, -1, 0);
		maker_cpu_store(&cpus[i]);
	}
	sock_state_put(AT(160.4), 7, 2); /* CLOSE -> SYN_SENT */
	sock_state_put(AT(160.5), 2, 1); /* -> ESTABLISHED */
	sock_io_put(AT(170), PROBE_SOCK_SEND, 10000);
	sock_io_put(AT(171), PROBE_SOCK_SEND, 2000);
	retransmit_put(AT(172));
	sock_io_put(AT(173), PROBE_SOCK_SEND, 345);
	sock_io_put(AT(180), PROBE_SOCK_RECV, 100);
	sock_state_put(AT(197), 1, 4); /* -> FIN_WAIT1 */
	sock_state_put(AT(198), 4, 7); /* -> CLOSE */
	switch_put(&cpus[1], AT(500), 1002, 0, 2000, -1, 0);
	switch_put(&cpus[1], AT(530), 2000, 1, 1002, -1, 0);
	switch_put(&cpus[0], AT(600), 1001, 1, 0, 202, 0);
	waking_put(&cpus[1], AT(650), 1001, 1002, 0);
	switch_put(&cpus[0], AT(650.02), 0, 0, 1001, -1, 0);
	for (int i = 0; i < 2; i++) {
		maker_cpu_store(&cpus[i]);
		maker_cpu_counts(&cpus[i]);
	}
}

int main(int argc, char **argv)
{
	struct maker_ring *const all[] = {&rings[0], &rings[1]};

	if (argc < 2 || argc > 3) {
		fputs("usage: make_trace OUT [SEED]\n", stderr);
		return 2;
	}
	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	file = file_create(argv[1]);
	if (!file) {
		perror(argv[1]);
		return 1;
	}
	server = maker_pid(100, 0);
	client = maker_pid(101, 0);
	worker = maker_pid(102, 0);
	own = maker_pid(900, 0);
	dict.file = file;
	for (uint32_t i = 0; i < 2; i++) {
		maker_ring_init(&rings[i], file, i, 1001 + i, RING_ROLE_NORMAL, i + 1);
		cpus[i].file = file;
		cpus[i].cpu = i;
	}
	about_put();
	clock_put(T0);
	dict_put();
	vm_put();
	kernel_put();
	maker_threads(file, all, 2, AT(999));
	clock_put(AT(1000));
	if (file_close(file, true)) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
