/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the saved registers lie is a guess that depends on the kernel's build. So before it is relied
 * on, a thread of this process blocks in two calls that are known, and the program must see them.
 */
#include "kernel_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sched.skel.h"

/* In milliseconds. Only a failure waits: for the thread to be seen at all, and then in its call. */
#define CHECK_UNSEEN_TRIES 2000
#define CHECK_SEEN_TRIES   100

struct check {
	char comm[PROBE_COMM];
	int pipe[2];
	struct timespec nap;
	atomic_bool done; /* set by the thread that checks, seen by the one that sleeps */
};

static void *check_thread(void *context)
{
	struct check *check = context;
	char byte;

	prctl(PR_SET_NAME, check->comm);
	if (read(check->pipe[0], &byte, 1) != 1)
		return NULL;
	/* relaxed: nothing else is told by it */
	while (!atomic_load_explicit(&check->done, memory_order_relaxed))
		syscall(SYS_nanosleep, &check->nap, NULL);
	return NULL;
}

static int check_wait(volatile struct probe_check *seen, int number, uint64_t arg)
{
	static const struct timespec millisecond = {.tv_nsec = 1000000};
	int unseen_tries = 0, seen_tries = 0;

	while (unseen_tries < CHECK_UNSEEN_TRIES && seen_tries < CHECK_SEEN_TRIES) {
		if (seen->seen && seen->number == number && seen->arg == arg)
			return 0;
		if (seen->seen)
			seen_tries++;
		else
			unseen_tries++;
		nanosleep(&millisecond, NULL);
	}
	return -ENOENT;
}

int kernel_check_blocking(struct sched_bpf *sched, bool typed)
{
	struct check check = {.pipe = {-1, -1}, .nap = {.tv_nsec = 2000000}};
	volatile struct probe_check *seen = &sched->bss->check;
	struct bpf_link *link = NULL;
	bool started = false;
	pthread_t thread;
	int err;

	snprintf(check.comm, sizeof(check.comm), "check-%d", getpid());
	memcpy(sched->bss->check_comm, check.comm, sizeof(check.comm));
	if (pipe(check.pipe))
		return -errno;
	link = bpf_program__attach(typed ? sched->progs.sched_check : sched->progs.sched_check_raw);
	if (!link) {
		err = -errno;
		goto out;
	}
	err = -pthread_create(&thread, NULL, check_thread, &check);
	if (err)
		goto out;
	started = true;
	err = check_wait(seen, SYS_read, (uint64_t)check.pipe[0]);
	if (err)
		goto out;
	if (write(check.pipe[1], "", 1) != 1) {
		err = -errno;
		goto out;
	}
	err = check_wait(seen, SYS_nanosleep, (uint64_t)(uintptr_t)&check.nap);
out:
	/* relaxed: the join below orders all else */
	atomic_store_explicit(&check.done, true, memory_order_relaxed);
	/* a thread that still reads: nobody can write any more */
	if (check.pipe[1] >= 0)
		close(check.pipe[1]);
	if (started)
		pthread_join(thread, NULL);
	close(check.pipe[0]);
	bpf_link__destroy(link);
	return err;
}
