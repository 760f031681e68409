/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler does with a child whose doings are known. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct known {
	struct timespec nap;
	int fifo; /* descriptor in the child */
	int cpu;
	char path[64];
	volatile int stop;
};

static void known_run(void *context)
{
	struct known *known = context;
	char byte;

	cpu_pin(known->cpu);
	known->nap.tv_nsec = 3000000;
	syscall(SYS_nanosleep, &known->nap, NULL);
	known->fifo = open(known->path, O_RDONLY);
	/* a number that is no default */
	known->fifo = fcntl(known->fifo, F_DUPFD, 77);
	child_step();
	syscall(SYS_read, known->fifo, &byte, 1);
	spin_ms(400);
	child_step();
	child_pause();
}

static void hog_run(void *context)
{
	struct known *known = context;

	prctl(PR_SET_NAME, "hog");
	cpu_pin(known->cpu);
	child_step();
	while (!known->stop)
		;
}

struct seen {
	size_t outs, ins, naps, reads, preemptions, throttled, stops;
	size_t syscall_known, throttle_known;
	uint64_t stop_from_ns, stop_to_ns; /* the longest */
	uint64_t ran_ns;
};

/*
 * A thread goes on and off a CPU by turns; what it left for and who came. That it came may be missing
 * (see probes.h): then it is known since when it has run.
 */
static void seen_count(struct seen *seen, const struct records *records, pid_t tid, pid_t hog,
		       const struct known *known)
{
	uint64_t stop_from_ns = 0, last_ns = 0;
	bool on = false;
	size_t i;

	memset(seen, 0, sizeof(*seen));
	for (i = 0; i < records->count; i++) {
		const struct probe_switch *record = (const void *)records->sorted[i];
		bool out = record->h.kind == PROBE_SWITCH && record->prev_tid == tid;
		bool in = record->h.kind == PROBE_SWITCH && record->next_tid == tid;

		if (!out && !in)
			continue;
		CHECK(!!(record->flags & PROBE_PREV_TARGET) == out);
		CHECK(!!(record->flags & PROBE_NEXT_TARGET) == in);
		CHECK(!(on && in), "it came twice at %zu", i);
		if (out && !on && last_ns)
			CHECK(record->ran_ns && record->h.ts_ns - record->ran_ns > last_ns);
		last_ns = record->h.ts_ns;
		on = in;
		seen->outs += out;
		seen->ins += in;
		if (in && stop_from_ns) {
			if (record->h.ts_ns - stop_from_ns >
			    seen->stop_to_ns - seen->stop_from_ns) {
				seen->stop_from_ns = stop_from_ns;
				seen->stop_to_ns = record->h.ts_ns;
			}
			stop_from_ns = 0;
		}
		if (!out)
			continue;
		CHECK(record->prev_tgid == tid && record->next_tid != tid);
		seen->ran_ns += record->ran_ns;
		seen->throttled += !!(record->flags & PROBE_THROTTLED);
		seen->throttle_known += !!(record->flags & PROBE_THROTTLE_KNOWN);
		seen->syscall_known += !!(record->flags & PROBE_SYSCALL_KNOWN);
		if (record->prev_state == 4) {
			seen->stops++;
			stop_from_ns = record->h.ts_ns;
		}
		if (record->prev_state == 1 && record->syscall == SYS_nanosleep &&
		    record->syscall_arg == (uintptr_t)&known->nap)
			seen->naps++;
		if (record->prev_state == 1 && record->syscall == SYS_read &&
		    record->syscall_arg == (uint64_t)known->fifo)
			seen->reads++;
		if (PREEMPTED(record->prev_state)) {
			CHECK(record->syscall == -1);
			if (record->next_tid == hog && !strcmp(record->next_comm, "hog"))
				seen->preemptions++;
		}
	}
}

static void known_scenario(uint32_t fallback, struct seen *seen, struct records *records)
{
	struct known *known = shared_alloc(sizeof(*known));
	uint64_t stopped_ns, continued_ns;
	struct child child, hog;
	struct kernel *kernel;
	int fifo;

	known->cpu = cpu_choose();
	snprintf(known->path, sizeof(known->path), "/tmp/kernel_test.%d", getpid());
	CHECK(!mkfifo(known->path, 0600));
	fifo = open(known->path, O_RDWR);
	child_start(&child, known_run, known);
	kernel = kernel_need(
		&(struct kernel_config){.wanted = BIT(KERNEL_SCHED) | BIT(KERNEL_BLOCKING),
					.target = child.pid,
					.fallback = fallback},
		BIT(KERNEL_SCHED) | BIT(KERNEL_BLOCKING));
	child_go(&child);
	child_wait_step(&child);
	unlink(known->path);
	sleep_ms(20);
	/* 50 ms of SIGSTOP: what lies between the two readings of the clock is certain */
	kill(child.pid, SIGSTOP);
	CHECK(waitpid(child.pid, NULL, WUNTRACED) == child.pid);
	sleep_ms(1);
	stopped_ns = now_ns();
	sleep_ms(50);
	continued_ns = now_ns();
	kill(child.pid, SIGCONT);
	child_start(&hog, hog_run, known);
	child_go(&hog);
	child_wait_step(&hog);
	CHECK(write(fifo, "x", 1) == 1);
	child_wait_step(&child);
	known->stop = 1;
	child_end(&hog);
	child_go(&child);
	child_end(&child);
	kernel_stop(kernel);
	records_drain(records, kernel);
	records_sort(records);
	CHECK(!counts_check(kernel, records));
	seen_count(seen, records, child.pid, hog.pid, known);
	CHECK(seen->naps >= 1);
	CHECK(seen->reads >= 1);
	CHECK(seen->preemptions >= 5, "%zu", seen->preemptions);
	CHECK(seen->stops >= 1);
	CHECK(seen->stop_from_ns <= stopped_ns && seen->stop_to_ns >= continued_ns);
	CHECK(!seen->throttled);
	/* it spun for 400 ms; the kernel's own sum is cut to microseconds, twice */
	CHECK(seen->ran_ns >= 400000000 && seen->ran_ns <= child.cpu_ns + 2000, "%llu of %llu",
	      (unsigned long long)seen->ran_ns, (unsigned long long)child.cpu_ns);
	CHECK(records->by_kind[PROBE_WAKING] >= 3);
	CHECK(records->by_kind[PROBE_EXIT] == 1);
	kernel_close(kernel);
	close(fifo);
}

static void scenario_switch(void)
{
	struct records records = {};
	struct seen seen;

	known_scenario(0, &seen, &records);
	records_free(&records);
}

/* Untyped programs, the state read from the task, registers computed: what older kernels leave. */
static void scenario_fallback(void)
{
	struct records records = {};
	struct seen seen;

	known_scenario(ALL_PROBES, &seen, &records);
	records_free(&records);
}

static void scenario_tiny(void)
{
	unsigned int *count = shared_alloc(sizeof(*count));
	struct records records = {};
	struct kernel *kernel;
	struct child child;
	uint64_t lost;

	*count = 500;
	child_start(&child, naps_run, count);
	kernel = kernel_need(&(struct kernel_config){.wanted = BIT(KERNEL_SCHED),
						     .target = child.pid,
						     .ring_bytes = 4096},
			     BIT(KERNEL_SCHED));
	child_go(&child);
	child_end(&child);
	kernel_stop(kernel);
	records_drain(&records, kernel);
	CHECK(kernel_fill_permille(kernel) > 900);
	lost = counts_check(kernel, &records);
	/* it left the CPU for every nap, and 4 KiB hold fewer than 50 records */
	CHECK(records.count > 10 && records.count < 50 * kernel_cpus(kernel));
	CHECK(records.count + lost >= *count, "%zu %llu", records.count, (unsigned long long)lost);
	records_free(&records);
	kernel_close(kernel);
}

static void spin_run(void *context)
{
	spin_ms(*(unsigned int *)context);
}

static int file_write(const char *folder, const char *name, const char *text)
{
	char path[256];
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static uint64_t stat_read(const char *folder, const char *key)
{
	char path[256], line[128], name[64];
	unsigned long long value = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/cpu.stat", folder);
	file = fopen(path, "re");
	CHECK(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %llu", name, &value) == 2 && !strcmp(name, key))
			break;
	fclose(file);
	return value;
}

static void throttled_scenario(uint32_t fallback)
{
	unsigned int *spin = shared_alloc(sizeof(*spin));
	size_t throttled = 0, known = 0, i;
	char folder[128], pid[16];
	struct records records = {};
	struct kernel *kernel;
	struct child child;
	uint64_t periods;

	snprintf(folder, sizeof(folder), "/sys/fs/cgroup/cpu/kernel_test.%d", getpid());
	if (mkdir(folder, 0755))
		test_skip("no cpu group of our own: %s", strerror(errno));
	if (file_write(folder, "cpu.cfs_period_us", "50000") ||
	    file_write(folder, "cpu.cfs_quota_us", "10000")) {
		rmdir(folder);
		test_skip("no CPU quota: %s", strerror(errno));
	}
	*spin = 60;
	child_start(&child, spin_run, spin);
	snprintf(pid, sizeof(pid), "%d", child.pid);
	i = (size_t)file_write(folder, "cgroup.procs", pid);
	kernel = kernel_need(&(struct kernel_config){.wanted = BIT(KERNEL_SCHED),
						     .target = child.pid,
						     .fallback = fallback},
			     BIT(KERNEL_SCHED));
	child_go(&child);
	child_end(&child);
	periods = stat_read(folder, "nr_throttled");
	rmdir(folder);
	CHECK(!i, "the child could not be moved");
	kernel_stop(kernel);
	records_drain(&records, kernel);
	records_sort(&records);
	CHECK(!counts_check(kernel, &records));
	for (i = 0; i < records.count; i++) {
		const struct probe_switch *record = (const void *)records.sorted[i];

		if (record->h.kind != PROBE_SWITCH || !(record->flags & PROBE_PREV_TARGET))
			continue;
		known += !!(record->flags & PROBE_THROTTLE_KNOWN);
		if (!(record->flags & PROBE_THROTTLED))
			continue;
		CHECK(PREEMPTED(record->prev_state));
		throttled++;
	}
	CHECK(known && periods >= 2 && throttled >= 2, "%zu known, %zu switches, %llu periods",
	      known, throttled, (unsigned long long)periods);
	/* the group held nobody else, but a task may be throttled once again on another CPU */
	CHECK(throttled >= periods - 1, "%zu switches, %llu periods", throttled,
	      (unsigned long long)periods);
	records_free(&records);
	kernel_close(kernel);
}

static void scenario_throttled(void)
{
	throttled_scenario(0);
	throttled_scenario(BIT(KERNEL_SCHED));
}

int main(int argc, char **argv)
{
	static const struct scenario scenarios[] = {
		{"switch", scenario_switch},
		{"fallback", scenario_fallback},
		{"tiny", scenario_tiny},
		{"throttled", scenario_throttled},
	};

	return scenario_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(*scenarios));
}
