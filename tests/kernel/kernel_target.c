/* SPDX-License-Identifier: Apache-2.0 */
/* Whose threads are recorded: children, several recordings, a changed target, many switches. */
#include "harness.h"

static void followed_run(void *context)
{
	pid_t pid;

	(void)context;
	pid = fork();
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

static void scenario_follow(void)
{
	pid_t pids[8];
	int follow;

	for (follow = 0; follow < 2; follow++) {
		struct records records = {};
		size_t expected = follow ? 1 : 0, i;
		struct kernel *kernel;
		struct child child;

		child_start(&child, followed_run, NULL);
		kernel = kernel_need(&(struct kernel_config){.wanted = BIT(KERNEL_SCHED),
							     .target = child.pid,
							     .follow = follow},
				     BIT(KERNEL_SCHED));
		CHECK(kernel_targets(kernel, pids, 8) == 1 && pids[0] == child.pid);
		child_go(&child);
		child_end(&child);
		/* both are reaped; the kernel frees them after a grace period */
		for (i = 0; i < 500 && kernel_targets(kernel, pids, 8); i++)
			sleep_ms(10);
		CHECK(!kernel_targets(kernel, pids, 8));
		kernel_stop(kernel);
		records_drain(&records, kernel);
		records_sort(&records);
		CHECK(!counts_check(kernel, &records));
		CHECK(records.by_kind[PROBE_FORK] == expected);
		CHECK(records.by_kind[PROBE_EXEC] == expected);
		CHECK(records.by_kind[PROBE_WAKEUP_NEW] == expected);
		CHECK(records.by_kind[PROBE_EXIT] == expected + 1);
		for (i = 0; i < records.count; i++) {
			const struct probe_task *record = (const void *)records.sorted[i];

			if (record->h.kind == PROBE_EXEC)
				CHECK(!strcmp(record->comm, "true") &&
				      record->tid == record->parent_tid);
			if (record->h.kind == PROBE_FORK)
				CHECK(record->parent_tid == child.pid && record->tid != child.pid);
		}
		records_free(&records);
		kernel_close(kernel);
	}
}

/* Two recordings at the same time see each its own. */
static void scenario_two(void)
{
	unsigned int *count = shared_alloc(2 * sizeof(*count));
	struct records records[2] = {};
	struct kernel *kernels[2];
	struct child children[2];
	int i;

	for (i = 0; i < 2; i++) {
		count[i] = i ? 40 : 20;
		child_start(&children[i], naps_run, &count[i]);
		kernels[i] = kernel_need(&(struct kernel_config){.wanted = BIT(KERNEL_SCHED),
								 .target = children[i].pid},
					 BIT(KERNEL_SCHED));
	}
	for (i = 0; i < 2; i++)
		child_go(&children[i]);
	for (i = 0; i < 2; i++)
		child_end(&children[i]);
	for (i = 0; i < 2; i++) {
		size_t at, naps = 0;

		kernel_stop(kernels[i]);
		records_drain(&records[i], kernels[i]);
		records_sort(&records[i]);
		CHECK(!counts_check(kernels[i], &records[i]));
		for (at = 0; at < records[i].count; at++) {
			const struct probe_switch *record = (const void *)records[i].sorted[at];

			/* it may have had to wait for others, and these are recorded too */
			if (record->h.kind != PROBE_SWITCH ||
			    !(record->flags & (PROBE_PREV_TARGET | PROBE_NEXT_TARGET)))
				continue;
			CHECK(record->prev_tid == children[i].pid ||
			      record->next_tid == children[i].pid);
			naps += record->prev_tid == children[i].pid && record->prev_state == 1;
		}
		CHECK(naps >= count[i], "%zu", naps);
		records_free(&records[i]);
		kernel_close(kernels[i]);
	}
}

/* From a command to the process that it became: the first is left alone from then on. */
static void scenario_retarget(void)
{
	unsigned int *count = shared_alloc(sizeof(*count));
	struct child children[2];
	struct records records = {};
	struct kernel *kernel;
	pid_t pids[8];
	size_t i;

	*count = 10;
	for (i = 0; i < 2; i++)
		child_start(&children[i], naps_run, count);
	kernel = kernel_need(&(struct kernel_config){.wanted = BIT(KERNEL_SCHED),
						     .target = children[0].pid,
						     .follow = true},
			     BIT(KERNEL_SCHED));
	CHECK(!kernel_set_target(kernel, children[1].pid));
	CHECK(kernel_targets(kernel, pids, 8) == 1 && pids[0] == children[1].pid);
	for (i = 0; i < 2; i++)
		child_go(&children[i]);
	for (i = 0; i < 2; i++)
		child_end(&children[i]);
	kernel_stop(kernel);
	records_drain(&records, kernel);
	records_sort(&records);
	CHECK(!counts_check(kernel, &records));
	CHECK(records.by_kind[PROBE_EXIT] == 1 && records.by_kind[PROBE_SWITCH] >= *count);
	for (i = 0; i < records.count; i++) {
		const struct probe_task *record = (const void *)records.sorted[i];

		if (record->h.kind == PROBE_EXIT)
			CHECK(record->tid == children[1].pid);
	}
	records_free(&records);
	kernel_close(kernel);
}

#define ROUNDS 20000

/* Two processes that wake each other by turns. */
static void storm_run(void *context)
{
	int there[2], back[2], i;
	char byte = 0;
	pid_t pid;

	(void)context;
	CHECK(!pipe(there) && !pipe(back));
	pid = fork();
	for (i = 0; i < ROUNDS; i++) {
		if (!pid) {
			CHECK(read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1);
		} else {
			CHECK(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1);
		}
	}
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void scenario_storm(void)
{
	struct records records = {};
	struct kernel *kernel;
	struct child child;
	bool ended = false;
	uint64_t lost;

	child_start(&child, storm_run, NULL);
	kernel = kernel_need(
		&(struct kernel_config){.wanted = BIT(KERNEL_SCHED) | BIT(KERNEL_SYSCALL),
					.target = child.pid,
					.follow = true,
					.ring_bytes = 65536},
		BIT(KERNEL_SCHED) | BIT(KERNEL_SYSCALL));
	child_go(&child);
	while (!ended) {
		siginfo_t info = {};

		sleep_ms(2);
		records_drain(&records, kernel);
		CHECK(!waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOHANG | WNOWAIT));
		ended = info.si_pid == child.pid;
	}
	child_end(&child);
	kernel_stop(kernel);
	records_drain(&records, kernel);
	lost = counts_check(kernel, &records);
	/* 4 calls a round */
	CHECK(records.by_kind[PROBE_SYSCALL] + lost >= 4 * ROUNDS);
	CHECK(records.by_kind[PROBE_SYSCALL] > ROUNDS);
	CHECK(!kernel_missed(kernel), "%llu", (unsigned long long)kernel_missed(kernel));
	records_free(&records);
	kernel_close(kernel);
}

int main(int argc, char **argv)
{
	static const struct scenario scenarios[] = {
		{"follow", scenario_follow},
		{"two", scenario_two},
		{"retarget", scenario_retarget},
		{"storm", scenario_storm},
	};

	return scenario_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(*scenarios));
}
