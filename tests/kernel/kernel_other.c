/* SPDX-License-Identifier: Apache-2.0 */
/* The Erlang process at switch-out, system calls, what is left out, and the drain. */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A scheduler's data and a process as the VM has them, with offsets of our own. */
struct fake_vm {
	uint64_t before[3];
	uint64_t current_process; /* +24 */
	uint64_t number; /* +32 */
	uint64_t dirty_number;
	uint64_t process[4]; /* the word of the pid at +16 */
};

#define PID_WORD     0x0000000000012343ull /* ends in 0x3: a pid */
#define NO_PID_WORD  0x0000000000012345ull
#define OTHER_NUMBER 7

static void fake_run(void *context)
{
	volatile struct fake_vm *vm = context;

	vm->process[2] = PID_WORD;
	vm->current_process = (uintptr_t)&vm->process;
	child_step();
	child_pause();
	usleep(2000);
	vm->current_process = 0;
	usleep(2000);
	vm->current_process = (uintptr_t)&vm->process;
	vm->process[2] = NO_PID_WORD;
	usleep(2000);
	vm->current_process = 8; /* never mapped */
	usleep(2000);
	vm->current_process = 0;
}

static void scenario_process(void)
{
	struct fake_vm *vm = shared_alloc(sizeof(*vm));
	const struct kernel_vm offsets = {24, 32, 16, 0, 0};
	uint64_t failed = 0, mismatch = 0;
	size_t pids = 0, none = 0, i;
	struct records records = {};
	struct probe_counts counts;
	struct kernel *kernel;
	struct child child;
	uint32_t cpu;

	vm->number = OTHER_NUMBER;
	child_start(&child, fake_run, vm);
	kernel = kernel_need(
		&(struct kernel_config){.wanted = BIT(KERNEL_SCHED) | BIT(KERNEL_PROCESS),
					.target = child.pid},
		BIT(KERNEL_SCHED) | BIT(KERNEL_PROCESS));
	child_go(&child);
	child_wait_step(&child);
	CHECK(!kernel_set_vm(kernel, &offsets));
	/* the self-check: another number stands there, or nothing does */
	CHECK(kernel_set_thread(kernel, child.pid, (uintptr_t)vm, 1) == -EINVAL);
	CHECK(kernel_set_thread(kernel, child.pid, 4096, OTHER_NUMBER) == -EINVAL);
	CHECK(kernel_set_thread(kernel, child.pid, 0, OTHER_NUMBER) == -EINVAL);
	CHECK(!kernel_set_thread(kernel, child.pid, (uintptr_t)vm, OTHER_NUMBER));
	/* a dirty scheduler has its number elsewhere */
	vm->number = 0;
	vm->dirty_number = 3;
	CHECK(kernel_set_thread(kernel, child.pid, (uintptr_t)vm, 4) == -EINVAL);
	CHECK(!kernel_set_thread(kernel, child.pid, (uintptr_t)vm, 3));
	child_go(&child);
	child_end(&child);
	kernel_stop(kernel);
	records_drain(&records, kernel);
	records_sort(&records);
	CHECK(!counts_check(kernel, &records));
	for (i = 0; i < records.count; i++) {
		const struct probe_switch *record = (const void *)records.sorted[i];

		if (record->h.kind != PROBE_SWITCH)
			continue;
		if (!(record->flags & PROBE_PROCESS_KNOWN)) {
			CHECK(!record->process);
			continue;
		}
		CHECK(record->flags & PROBE_PREV_TARGET);
		CHECK(!record->process || record->process == PID_WORD);
		if (record->process && record->prev_state == 1)
			pids++;
		else if (record->prev_state == 1)
			none++;
	}
	for (cpu = 0; cpu < kernel_cpus(kernel); cpu++) {
		CHECK(!kernel_counts(kernel, cpu, &counts));
		failed += counts.process_read_failed;
		mismatch += counts.process_mismatch;
	}
	CHECK(pids >= 1 && none >= 1 && mismatch >= 1 && failed >= 1, "%zu %zu %llu %llu", pids,
	      none, (unsigned long long)mismatch, (unsigned long long)failed);
	records_free(&records);
	kernel_close(kernel);
}

struct calls {
	int fd;
	char text[64];
};

#define CALLS 100

static void calls_run(void *context)
{
	struct calls *calls = context;
	int i, fds[2];

	CHECK(!pipe(fds));
	calls->fd = fds[0];
	CHECK(write(fds[1], "12345", 5) == 5);
	CHECK(syscall(SYS_read, fds[0], calls->text, 64) == 5);
	for (i = 0; i < CALLS; i++)
		syscall(SYS_getppid, 1, 2, 3, 4, 5, 6);
	syscall(SYS_close, 999999);
}

static void scenario_syscall(void)
{
	struct calls *calls = shared_alloc(sizeof(*calls));
	size_t getppids = 0, reads = 0, closes = 0, i;
	struct records records = {};
	uint64_t start_ns;
	struct kernel *kernel;
	struct child child;

	child_start(&child, calls_run, calls);
	kernel = kernel_need(
		&(struct kernel_config){.wanted = BIT(KERNEL_SYSCALL), .target = child.pid},
		BIT(KERNEL_SYSCALL));
	start_ns = now_ns();
	child_go(&child);
	child_end(&child);
	kernel_stop(kernel);
	records_drain(&records, kernel);
	records_sort(&records);
	CHECK(!counts_check(kernel, &records));
	for (i = 0; i < records.count; i++) {
		const struct probe_syscall *record = (const void *)records.sorted[i];

		CHECK(record->h.kind == PROBE_SYSCALL && record->tid == child.pid);
		CHECK(record->enter_ns >= start_ns && record->enter_ns <= record->h.ts_ns);
		CHECK(record->number != SYS_exit_group);
		if (record->number == SYS_getppid) {
			static const uint64_t args[6] = {1, 2, 3, 4, 5, 6};

			CHECK(record->result == getpid());
			CHECK(!memcmp(record->args, args, sizeof(args)));
			getppids++;
		}
		if (record->number == SYS_read && record->args[0] == (uint64_t)calls->fd) {
			CHECK(record->args[1] == (uintptr_t)calls->text && record->args[2] == 64);
			CHECK(record->result == 5);
			reads++;
		}
		if (record->number == SYS_close && record->args[0] == 999999) {
			CHECK(record->result == -EBADF);
			closes++;
		}
	}
	CHECK(getppids == CALLS && reads == 1 && closes == 1);
	records_free(&records);
	kernel_close(kernel);
}

static bool missing_has(const struct kernel *kernel, enum kernel_probe probe, const char *word)
{
	const struct kernel_missing *missing;
	size_t i, count = kernel_missing(kernel, &missing);

	for (i = 0; i < count; i++)
		if (missing[i].probe == probe && strstr(missing[i].why, word))
			return true;
	return false;
}

static void busy_run(void *context)
{
	unsigned int i;
	int fds[2];

	(void)context;
	CHECK(!pipe(fds));
	for (i = 0; i < 20; i++)
		usleep(500);
}

/* The kinds of records that only this probe makes. */
static uint64_t kinds_of(const struct records *records, enum kernel_probe probe)
{
	const uint64_t *kinds = records->by_kind;

	switch (probe) {
	case KERNEL_SCHED:
		return kinds[PROBE_SWITCH] + kinds[PROBE_WAKING] + kinds[PROBE_EXIT];
	case KERNEL_SYSCALL:
		return kinds[PROBE_SYSCALL];
	default:
		return 0;
	}
}

static void scenario_without(void)
{
	int probe;

	CHECK(kernel_probe_number("no such") == -1 && kernel_probe_number("process") == 1);
	for (probe = 0; probe < KERNEL_PROBES; probe++) {
		uint32_t lost = BIT(probe), left;
		struct records records = {};
		struct kernel *kernel;
		struct child child;
		size_t i;

		CHECK(kernel_probe_number(kernel_probe_name(probe)) == probe);
		/* the two that are read at a switch go with it */
		if (probe == KERNEL_SCHED)
			lost |= BIT(KERNEL_PROCESS) | BIT(KERNEL_BLOCKING);
		left = ALL_PROBES & ~lost;
		child_start(&child, busy_run, NULL);
		kernel = kernel_need(&(struct kernel_config){.wanted = ALL_PROBES,
							     .without = BIT(probe),
							     .target = child.pid},
				     left);
		CHECK(kernel_enabled(kernel) == left);
		CHECK(missing_has(kernel, probe, "--without"));
		if (probe == KERNEL_SCHED)
			CHECK(missing_has(kernel, KERNEL_BLOCKING, "needs the probe sched"));
		child_go(&child);
		child_end(&child);
		kernel_stop(kernel);
		records_drain(&records, kernel);
		records_sort(&records);
		CHECK(!counts_check(kernel, &records));
		CHECK(!kinds_of(&records, probe));
		CHECK(probe == KERNEL_SCHED || kinds_of(&records, KERNEL_SCHED));
		CHECK(probe == KERNEL_SYSCALL || kinds_of(&records, KERNEL_SYSCALL));
		for (i = 0; probe == KERNEL_BLOCKING && i < records.count; i++) {
			const struct probe_switch *record = (const void *)records.sorted[i];

			if (record->h.kind == PROBE_SWITCH)
				CHECK(record->syscall == -1 &&
				      !(record->flags & PROBE_SYSCALL_KNOWN));
		}
		records_free(&records);
		kernel_close(kernel);
	}
}

/* Run by a user without rights: every probe is missing, with why and what mends it. */
static void scenario_unprivileged(void)
{
	const struct kernel_config config = {.wanted = ALL_PROBES, .target = getpid()};
	const struct kernel_missing *missing;
	struct probe_counts counts;
	struct records records = {};
	struct kernel *kernel;
	size_t count;
	pid_t pid;
	int probe;

	if (!geteuid())
		test_skip("needs to be run as a user without rights");
	kernel = kernel_open(&config);
	CHECK(kernel && !kernel_enabled(kernel));
	count = kernel_missing(kernel, &missing);
	CHECK(count == KERNEL_PROBES, "%zu", count);
	for (probe = 0; probe < KERNEL_PROBES; probe++)
		CHECK(missing_has(kernel, probe, "CAP_BPF"));
	CHECK(strstr(missing[0].fix, "setcap"));
	/* everything else answers as for a recording without a kernel side */
	records_drain(&records, kernel);
	CHECK(!records.count && !kernel_cpus(kernel) && !kernel_missed(kernel));
	CHECK(kernel_counts(kernel, 0, &counts) == -EINVAL);
	CHECK(!kernel_set_target(kernel, getpid()) && !kernel_targets(kernel, &pid, 1));
	CHECK(kernel_set_vm(kernel, &(struct kernel_vm){8, 16, 0, 0, 0}) == -ENODEV);
	CHECK(kernel_set_thread(kernel, getpid(), 4096, 1) == -ENODEV);
	kernel_stop(kernel);
	kernel_close(kernel);
}

/* Run in a pid namespace of its own: what the kernel would say means nothing there. */
static void scenario_nested(void)
{
	const struct kernel_config config = {.wanted = ALL_PROBES, .target = getpid()};
	struct kernel *kernel;
	int probe;

	CHECK(getpid() == 1);
	kernel = kernel_open(&config);
	CHECK(kernel && !kernel_enabled(kernel));
	for (probe = 0; probe < KERNEL_PROBES; probe++)
		CHECK(missing_has(kernel, probe, "pid namespace"));
	kernel_close(kernel);
}

struct refusals {
	struct records records;
	uint8_t *refused;
	uint32_t refused_bytes;
	unsigned int calls, again;
};

/* Refuses every other run of records; it has to come again as it was. */
static int refuse(void *context, uint32_t cpu, const void *bytes, uint32_t size)
{
	struct refusals *refusals = context;
	uint32_t at;

	(void)cpu;
	if (refusals->calls++ % 2 == 0) {
		refusals->refused = realloc(refusals->refused, size);
		memcpy(refusals->refused, bytes, size);
		refusals->refused_bytes = size;
		return -EIO;
	}
	CHECK(size == refusals->refused_bytes && !memcmp(bytes, refusals->refused, size));
	refusals->again++;
	for (at = 0; at < size;) {
		const struct probe_header *header = (const void *)((const uint8_t *)bytes + at);

		refusals->records.by_kind[header->kind]++;
		at += header->bytes;
	}
	return 0;
}

static void scenario_callback(void)
{
	struct refusals refusals = {};
	struct kernel *kernel;
	struct child child;
	int64_t passed;

	child_start(&child, busy_run, NULL);
	kernel = kernel_need(
		&(struct kernel_config){.wanted = BIT(KERNEL_SCHED), .target = child.pid},
		BIT(KERNEL_SCHED));
	child_go(&child);
	child_end(&child);
	kernel_stop(kernel);
	/* a budget below a few records, so that there are many runs */
	do {
		passed = kernel_drain(kernel, 1000, refuse, &refusals);
		CHECK(passed == -EIO || (passed >= 0 && passed <= 1000), "%lld", (long long)passed);
	} while (passed);
	CHECK(refusals.again >= 3, "%u", refusals.again);
	CHECK(!counts_check(kernel, &refusals.records));
	free(refusals.refused);
	kernel_close(kernel);
}

int main(int argc, char **argv)
{
	static const struct scenario scenarios[] = {
		{"process", scenario_process}, {"syscall", scenario_syscall},
		{"without", scenario_without}, {"unprivileged", scenario_unprivileged},
		{"nested", scenario_nested},   {"callback", scenario_callback},
	};

	return scenario_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(*scenarios));
}
