/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make a disturbance whose length is known:
 *
 *   plant stop PID MS     SIGSTOP a process for MS milliseconds
 *   plant hog TID MS      occupy, as a task named "hog", the CPU on which thread TID ran last
 *
 * Prints one JSON line: what was done, when it began (CLOCK_MONOTONIC ns) and how long it took by the
 * clock, its pid. Exit code 1 when it could not be done.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t end_ns)
{
	struct timespec end = {
		.tv_sec = (time_t)(end_ns / 1000000000),
		.tv_nsec = (long)(end_ns % 1000000000),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static int stop(pid_t pid, uint64_t length_ns, uint64_t *start_ns, uint64_t *end_ns)
{
	if (kill(pid, SIGSTOP))
		return -errno;
	*start_ns = now_ns();
	sleep_until(*start_ns + length_ns);
	if (kill(pid, SIGCONT))
		return -errno;
	*end_ns = now_ns();
	return 0;
}

/* The CPU a thread ran on last: field 39 of its stat line, counted after the name. */
static int thread_cpu(pid_t tid)
{
	char path[64], line[1024], *field;
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	file = fopen(path, "r");
	if (!file)
		return -errno;
	length = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[length] = '\0';
	field = strrchr(line, ')');
	for (int number = 2; field && number < 39; number++)
		field = strchr(field + 1, ' ');
	return field ? atoi(field) : -EINVAL;
}

static int hog(pid_t tid, uint64_t length_ns, uint64_t *start_ns, uint64_t *end_ns)
{
	struct sched_param fifo = {.sched_priority = 1};
	int cpu = thread_cpu(tid);
	cpu_set_t set;

	if (cpu < 0)
		return cpu;
	prctl(PR_SET_NAME, "hog");
	CPU_ZERO(&set);
	CPU_SET((unsigned int)cpu, &set);
	/* A real-time task takes the CPU at once and keeps it; without that right, the best niceness. */
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) && setpriority(PRIO_PROCESS, 0, -20))
		return -errno;
	if (sched_setaffinity(0, sizeof(set), &set))
		return -errno;
	*start_ns = now_ns();
	do {
		*end_ns = now_ns();
	} while (*end_ns - *start_ns < length_ns);
	return 0;
}

int main(int argc, char **argv)
{
	const struct sched_param fifo = {.sched_priority = 1};
	uint64_t start_ns = 0, end_ns = 0, length_ns;
	int err = -EINVAL;

	if (argc != 4) {
		fprintf(stderr, "usage: plant stop PID MS | plant hog TID MS\n");
		return 2;
	}
	length_ns = (uint64_t)atoi(argv[3]) * 1000000;
	/* Where that is allowed: on a busy host the clock would be read late otherwise. */
	sched_setscheduler(0, SCHED_FIFO, &fifo);
	if (!strcmp(argv[1], "stop"))
		err = stop(atoi(argv[2]), length_ns, &start_ns, &end_ns);
	else if (!strcmp(argv[1], "hog"))
		err = hog(atoi(argv[2]), length_ns, &start_ns, &end_ns);
	if (err) {
		fprintf(stderr, "plant %s: %s\n", argv[1], strerror(-err));
		return 1;
	}
	printf("{\"what\":\"%s\",\"start_ns\":%llu,\"duration_ns\":%llu,\"pid\":%d}\n", argv[1],
	       (unsigned long long)start_ns, (unsigned long long)(end_ns - start_ns), getpid());
	return 0;
}
