/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TEST_KERNEL_HARNESS_H
#define BEAMWEAVE_TEST_KERNEL_HARNESS_H

/*
 * Scenarios of the kernel side: a child of the test does something that is known, and the records must
 * say so. Each scenario is run by itself and ends with 0 (pass), 1 (fail) or 77 (skip, with a reason).
 * It is all in this header, since each program of tests/kernel/ is one file.
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"

/* A child that does something when it is told to go, and exits with 0. */
struct child {
	pid_t pid;
	int go, done; /* pipes to and from it */
	uint64_t cpu_ns; /* that it used, once it has ended */
};

/* Every record that came, in the order of time. */
struct records {
	uint8_t *bytes;
	size_t used, size;
	const struct probe_header **sorted;
	size_t count;
	uint64_t by_kind[PROBE_KINDS];
};

struct scenario {
	const char *name;
	void (*run)(void);
};

#define ALL_PROBES	 ((1u << KERNEL_PROBES) - 1)
#define BIT(probe)	 (1u << (probe))
#define PREEMPTED(state) ((state) == 0 || (state) == 0x100) /* prev_state of a switch */

/* Fails the scenario, saying where and what. */
#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			test_fail(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                \
	} while (0)

static struct child self; /* in a child: its own ends of the pipes */

/* Used by CHECK(). */
static inline void __attribute__((format(printf, 4, 5), noreturn))
test_fail(const char *file, int line, const char *condition, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: %s does not hold", file, line, condition);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static inline void __attribute__((format(printf, 1, 2), noreturn))
test_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(77);
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline void sleep_ms(unsigned int ms)
{
	struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

/* Uses `ms` of CPU time. */
static inline void spin_ms(unsigned int ms)
{
	uint64_t until_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + (uint64_t)ms * 1000000;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)
		;
}

/* In the child: tell the parent that a step is done; the parent waits for it. */
static inline void child_step(void)
{
	CHECK(write(self.done, "d", 1) == 1);
}

/* In the child: wait until the parent calls child_go() again. */
static inline void child_pause(void)
{
	char byte;

	if (read(self.go, &byte, 1) != 1)
		_exit(1);
}

/* Make a child that runs `run(context)` when it is told to go. */
static inline void child_start(struct child *child, void (*run)(void *context), void *context)
{
	int go[2], done[2];

	CHECK(!pipe(go) && !pipe(done));
	child->pid = fork();
	CHECK(child->pid >= 0);
	if (!child->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(go[1]);
		close(done[0]);
		self.go = go[0];
		self.done = done[1];
		child_pause();
		run(context);
		_exit(0);
	}
	close(go[0]);
	close(done[1]);
	child->go = go[1];
	child->done = done[0];
}

static inline void child_go(struct child *child)
{
	CHECK(write(child->go, "g", 1) == 1);
}

static inline void child_wait_step(struct child *child)
{
	char byte;

	CHECK(read(child->done, &byte, 1) == 1, "the child ended early");
}

static inline void child_end(struct child *child)
{
	struct rusage usage;
	int status = 0;

	CHECK(wait4(child->pid, &status, 0, &usage) == child->pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "status 0x%x", status);
	child->cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
			(uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
	close(child->go);
	close(child->done);
}

/* Memory that parent and child share. */
static inline void *shared_alloc(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Opens with these, skips when the kernel or the user's rights do not allow `needed`. */
static inline struct kernel *kernel_need(const struct kernel_config *config, uint32_t needed)
{
	const struct kernel_missing *missing;
	struct kernel *kernel = kernel_open(config);
	size_t i, count;

	CHECK(kernel, "%s", strerror(errno));
	count = kernel_missing(kernel, &missing);
	for (i = 0; i < count; i++)
		if (needed & BIT(missing[i].probe))
			test_skip("%s: %s", kernel_probe_name(missing[i].probe), missing[i].why);
	CHECK((kernel_enabled(kernel) & needed) == needed);
	return kernel;
}

static inline int records_add(void *context, uint32_t cpu, const void *bytes, uint32_t size)
{
	struct records *records = context;
	uint32_t at = 0;

	while (at < size) {
		const struct probe_header *header = (const void *)((const uint8_t *)bytes + at);

		CHECK(size - at >= sizeof(*header) && header->bytes >= sizeof(*header));
		CHECK(header->bytes % 8 == 0 && header->bytes <= size - at);
		CHECK(header->kind && header->kind < PROBE_KINDS && header->cpu == cpu);
		records->by_kind[header->kind]++;
		records->count++;
		at += header->bytes;
	}
	if (records->size - records->used < size) {
		records->size = (records->size + size) * 2;
		records->bytes = realloc(records->bytes, records->size);
		CHECK(records->bytes);
	}
	memcpy(records->bytes + records->used, bytes, size);
	records->used += size;
	return 0;
}

static inline void records_drain(struct records *records, struct kernel *kernel)
{
	CHECK(kernel_drain(kernel, UINT64_MAX, records_add, records) >= 0);
}

static inline int by_time(const void *a, const void *b)
{
	const struct probe_header *const *one = a, *const *two = b;

	return (*one)->ts_ns < (*two)->ts_ns ? -1 : (*one)->ts_ns > (*two)->ts_ns;
}

static inline void records_sort(struct records *records)
{
	size_t at = 0, i;

	free(records->sorted);
	records->sorted = calloc(records->count + 1, sizeof(*records->sorted));
	CHECK(records->sorted);
	for (i = 0; i < records->count; i++) {
		records->sorted[i] = (const void *)(records->bytes + at);
		at += records->sorted[i]->bytes;
	}
	CHECK(at == records->used);
	qsort(records->sorted, records->count, sizeof(*records->sorted), by_time);
}

static inline void records_free(struct records *records)
{
	free(records->bytes);
	free(records->sorted);
	memset(records, 0, sizeof(*records));
}

/* generated == recorded + discarded for each kind; returns the sum of discarded. */
static inline uint64_t counts_check(struct kernel *kernel, const struct records *records)
{
	uint64_t generated[PROBE_KINDS] = {}, discarded[PROBE_KINDS] = {}, lost = 0;
	struct probe_counts counts;
	uint32_t cpu, kind;

	for (cpu = 0; cpu < kernel_cpus(kernel); cpu++) {
		uint64_t lost_here = 0;

		CHECK(!kernel_counts(kernel, cpu, &counts));
		for (kind = 0; kind < PROBE_KINDS; kind++) {
			generated[kind] += counts.generated[kind];
			discarded[kind] += counts.discarded[kind];
			lost_here += counts.discarded[kind];
		}
		CHECK(!lost_here == !counts.loss_first_ns);
		CHECK(counts.loss_first_ns <= counts.loss_last_ns);
		lost += lost_here;
	}
	for (kind = 0; kind < PROBE_KINDS; kind++)
		CHECK(generated[kind] == records->by_kind[kind] + discarded[kind],
		      "kind %u: %llu generated, %llu recorded, %llu discarded", kind,
		      (unsigned long long)generated[kind],
		      (unsigned long long)records->by_kind[kind],
		      (unsigned long long)discarded[kind]);
	return lost;
}

static inline void cpu_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(!sched_setaffinity(0, sizeof(set), &set));
}

/* One CPU that this process may use, not the first where there are two. */
static inline int cpu_choose(void)
{
	cpu_set_t set;
	int cpu;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	for (cpu = CPU_SETSIZE - 1; !CPU_ISSET(cpu, &set); cpu--)
		;
	return cpu;
}

/* A child that sleeps *context times. */
static inline void naps_run(void *context)
{
	unsigned int *count = context;
	unsigned int i;

	/* so long that it is not over before the thread has left its CPU, on a host that steals time */
	for (i = 0; i < *count; i++)
		usleep(5000);
}

/* The program's argument is the name of one of its scenarios. */
static inline int scenario_main(int argc, char **argv, const struct scenario *scenarios,
				size_t count)
{
	size_t i;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < count; i++) {
		if (argc == 2 && !strcmp(argv[1], scenarios[i].name)) {
			scenarios[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: %s SCENARIO\nScenarios:", argv[0]);
	for (i = 0; i < count; i++)
		fprintf(stderr, " %s", scenarios[i].name);
	fputc('\n', stderr);
	return 1;
}

#endif
