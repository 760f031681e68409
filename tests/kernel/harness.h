/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TEST_KERNEL_HARNESS_H
#define BEAMWEAVE_TEST_KERNEL_HARNESS_H

/*
 * Scenarios of the kernel side: a child of the test does something that is known, and the records must
 * say so. Each scenario is run by itself and ends with 0 (pass), 1 (fail) or 77 (skip, with a reason).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"

#define ALL_PROBES ((1u << KERNEL_PROBES) - 1)
#define BIT(probe) (1u << (probe))

/* Fails the scenario, saying where and what. */
#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			test_fail(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                \
	} while (0)

void test_fail(const char *file, int line, const char *condition, const char *format, ...)
	__attribute__((format(printf, 4, 5), noreturn));
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

uint64_t now_ns(void);
void sleep_ms(unsigned int ms);
/* Uses `ms` of CPU time. */
void spin_ms(unsigned int ms);

/* A child that runs `run(context)` when it is told to go, and exits with 0. */
struct child {
	pid_t pid;
	int go, done; /* pipes to and from it */
};
void child_start(struct child *child, void (*run)(void *context), void *context);
void child_go(struct child *child);
/* In the child: tell the parent that a step is done; the parent waits for it. */
void child_step(void);
void child_wait_step(struct child *child);
/* In the child: wait until the parent calls child_go() again. */
void child_pause(void);
void child_end(struct child *child);

/* Memory that parent and child share. */
void *shared_alloc(size_t bytes);

/* Every record that came, in the order of time. */
struct records {
	uint8_t *bytes;
	size_t used, size;
	const struct probe_header **sorted;
	size_t count;
	uint64_t by_kind[PROBE_KINDS];
};

/* Opens with these, skips when the kernel or the user's rights do not allow `needed`. */
struct kernel *kernel_need(const struct kernel_config *config, uint32_t needed);
void records_drain(struct records *records, struct kernel *kernel);
void records_sort(struct records *records);
void records_free(struct records *records);
/* generated == recorded + discarded for each kind; returns the sum of discarded. */
uint64_t counts_check(struct kernel *kernel, const struct records *records);

/* The scenarios. */
void scenario_switch(void);
void scenario_fallback(void);
void scenario_tiny(void);
void scenario_throttled(void);
void scenario_process(void);
void scenario_follow(void);
void scenario_bytes(void);
void scenario_bytes_fallback(void);
void scenario_reset(void);
void scenario_existing(void);
void scenario_syscall(void);
void scenario_without(void);
void scenario_unprivileged(void);
void scenario_callback(void);
void scenario_two(void);

#endif
