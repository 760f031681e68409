// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct child self; /* in a child: its own ends of the pipes */

void test_fail(const char *file, int line, const char *condition, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: %s does not hold", file, line, condition);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void test_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(77);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void sleep_ms(unsigned int ms)
{
	struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

void spin_ms(unsigned int ms)
{
	uint64_t until_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + (uint64_t)ms * 1000000;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)
		;
}

void child_start(struct child *child, void (*run)(void *context), void *context)
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

void child_go(struct child *child)
{
	CHECK(write(child->go, "g", 1) == 1);
}

void child_step(void)
{
	CHECK(write(self.done, "d", 1) == 1);
}

void child_wait_step(struct child *child)
{
	char byte;

	CHECK(read(child->done, &byte, 1) == 1, "the child ended early");
}

void child_pause(void)
{
	char byte;

	if (read(self.go, &byte, 1) != 1)
		_exit(1);
}

void child_end(struct child *child)
{
	int status = 0;

	CHECK(waitpid(child->pid, &status, 0) == child->pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "status 0x%x", status);
	close(child->go);
	close(child->done);
}

void *shared_alloc(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

struct kernel *kernel_need(const struct kernel_config *config, uint32_t needed)
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

static int records_add(void *context, uint32_t cpu, const void *bytes, uint32_t size)
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

void records_drain(struct records *records, struct kernel *kernel)
{
	CHECK(kernel_drain(kernel, UINT64_MAX, records_add, records) >= 0);
}

static int by_time(const void *a, const void *b)
{
	const struct probe_header *const *one = a, *const *two = b;

	return (*one)->ts_ns < (*two)->ts_ns ? -1 : (*one)->ts_ns > (*two)->ts_ns;
}

void records_sort(struct records *records)
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

void records_free(struct records *records)
{
	free(records->bytes);
	free(records->sorted);
	memset(records, 0, sizeof(*records));
}

uint64_t counts_check(struct kernel *kernel, const struct records *records)
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

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{"switch", scenario_switch},
	{"fallback", scenario_fallback},
	{"tiny", scenario_tiny},
	{"throttled", scenario_throttled},
	{"process", scenario_process},
	{"follow", scenario_follow},
	{"bytes", scenario_bytes},
	{"bytes_fallback", scenario_bytes_fallback},
	{"reset", scenario_reset},
	{"existing", scenario_existing},
	{"syscall", scenario_syscall},
	{"without", scenario_without},
	{"unprivileged", scenario_unprivileged},
	{"callback", scenario_callback},
	{"two", scenario_two},
};

int main(int argc, char **argv)
{
	size_t i;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (argc == 2 && !strcmp(argv[1], scenarios[i].name)) {
			scenarios[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: kernel_test SCENARIO\nScenarios:");
	for (i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++)
		fprintf(stderr, " %s", scenarios[i].name);
	fputc('\n', stderr);
	return 1;
}
