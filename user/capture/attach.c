/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define SECOND_NS	 1000000000ull
#define DICT_BYTES	 (16u << 20)
#define DICT_PER_PROCESS 192 /* a name and an initial call */
#define DICT_MAX	 (256u << 20)
#define THREADS_MIN	 64

struct attach {
	const struct capture_config *config;
	const struct target *target;
	bool boot;
	pthread_t thread;
	/* enum attach_state. Release by our thread after all that it stands for (node, info, fault),
	 * acquire by the recorder, which reads those only behind it. */
	atomic_int state;
	/* The same for `rings`: the recorder drains it while the thread goes on. */
	atomic_bool rings_ready;
	/* Set by the recorder, seen by the thread between tries; orders nothing. The mutex makes sure
	 * that a door is either interrupted or never waited at. */
	atomic_bool cancelled;
	pthread_mutex_t door_mutex; /* for `door`: another thread interrupts it */
	struct door *door;
	struct rings rings;
	struct stream *stream;
	struct node node;
	struct start_info info;
	struct fault fault;
};

static void pause_ms(unsigned int ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

static void door_set(struct attach *attach, struct door *door)
{
	pthread_mutex_lock(&attach->door_mutex);
	attach->door = door;
	if (door && attach->cancelled)
		door_interrupt(door);
	pthread_mutex_unlock(&attach->door_mutex);
}

static void door_shut(struct attach *attach)
{
	struct door *door = attach->door;

	door_set(attach, NULL);
	door_close(door);
}

/* One try to get a connection to a node that has booted. */
static int door_try(struct attach *attach, uint64_t deadline_ns)
{
	struct node_cookie cookie;
	struct door *door = NULL;
	int error;

	error = node_find(attach->target, attach->config->without, &attach->node, &attach->fault);
	if (error)
		return error;
	error = node_cookie(attach->target, attach->config->cookie_file, &cookie, &attach->fault);
	if (!error)
		error = door_open(&door, &attach->node, &cookie, deadline_ns, &attach->fault);
	explicit_bzero(&cookie, sizeof(cookie));
	if (error)
		return error;
	door_set(attach, door);
	if (!attach->boot)
		return 0;
	error = start_booted(door, &attach->fault);
	if (error == 1)
		return 0;
	door_shut(attach);
	return error ? error
		     : fault_set(&attach->fault, -EAGAIN, NULL, "the node did not finish its boot");
}

/*
 * A VM that starts gets its name, its port, its cookie and its answer one after the other. As long as
 * it is sure to become a node there is no hurry; what looks final for five seconds is.
 */
static int door_wait(struct attach *attach)
{
	uint64_t final_ns = clock_ns() + ATTACH_DEADLINE_NS;
	int error;

	for (;;) {
		uint64_t now_ns = clock_ns();

		error = door_try(attach, now_ns + ATTACH_DEADLINE_NS);
		if (!error || !attach->boot || attach->cancelled)
			return error;
		if (target_ended(attach->target))
			return fault_set(&attach->fault, -ESRCH, NULL,
					 "the VM ended before it could be attached");
		if (attach->node.named && (error == -ENOTCONN || error == -ECONNREFUSED ||
					   error == -EAGAIN || error == -ETIMEDOUT))
			final_ns = now_ns + ATTACH_DEADLINE_NS;
		if (now_ns > final_ns || error == -EPROTONOSUPPORT)
			return error;
		pause_ms(error == -EAGAIN ? 5 : 50);
	}
}

static int session_make(struct attach *attach)
{
	const struct start_info *info = &attach->info;
	struct rings_limits limits = {.max_events = attach->config->max_events};
	struct ring_config sizes = {.mode = attach->config->mode,
				    .pool_bytes = attach->config->buffer_bytes,
				    .dict_bytes = DICT_BYTES};
	long threads = info->schedulers + info->dirty_cpu_schedulers + info->dirty_io_schedulers;
	int error;

	if (info->processes > 0)
		sizes.dict_bytes += (uint64_t)info->processes * DICT_PER_PROCESS;
	if (sizes.dict_bytes > DICT_MAX)
		sizes.dict_bytes = DICT_MAX;
	sizes.dict_bytes = (sizes.dict_bytes + 4095) / 4096 * 4096;
	sizes.thread_max = threads > 0 && threads < 8192 ? (uint32_t)threads + THREADS_MIN : 0;
	error = rings_create(&attach->rings, attach->target, attach->config->without, &sizes,
			     &limits, &attach->fault);
	if (error)
		return error;
	error = rings_attach(&attach->rings, &attach->fault);
	if (error) {
		rings_close(&attach->rings);
		return error;
	}
	atomic_store_explicit(&attach->rings_ready, true, memory_order_release);
	return 0;
}

/* The connection stands before anything is traced. */
static int stream_steps(struct attach *attach)
{
	struct start_port port;
	int error = start_load(attach->door, attach->target, false, &attach->fault);

	if (!error)
		error = start_port(attach->door, attach->config, &port, &attach->fault);
	if (!error)
		error = stream_open(&attach->stream, &port, clock_ns() + ATTACH_DEADLINE_NS,
				    &attach->fault);
	if (!error)
		error = start_run(attach->door, attach->config, "the IP trace port", &attach->info,
				  &attach->fault);
	return error;
}

static int attach_steps(struct attach *attach)
{
	uint64_t begun_ns = clock_ns();
	int error = target_network_enter(attach->target, &attach->fault);

	if (!error)
		error = door_wait(attach);
	if (error)
		return error;
	/* One deadline for everything; a VM that had to start first has it from its first answer. */
	door_deadline(attach->door, (attach->boot ? clock_ns() : begun_ns) + ATTACH_DEADLINE_NS);
	error = start_look(attach->door, &attach->info, &attach->fault);
	if (!error && attach->config->tracer == TRACER_IP)
		return stream_steps(attach);
	if (!error)
		error = start_load(attach->door, attach->target, true, &attach->fault);
	if (!error)
		error = session_make(attach);
	if (!error)
		error = start_run(attach->door, attach->config, attach->rings.place.path,
				  &attach->info, &attach->fault);
	/* A recording that ended just now took its modules along, after we had found them there. */
	if (error == -EREMOTEIO) {
		error = start_load(attach->door, attach->target, true, &attach->fault);
		if (!error)
			error = start_run(attach->door, attach->config, attach->rings.place.path,
					  &attach->info, &attach->fault);
	}
	/* Both sides have it mapped now: without a name nothing stays, however anyone ends. */
	if (!error)
		place_unlink(&attach->rings.place);
	return error;
}

static void *attach_main(void *context)
{
	struct attach *attach = context;
	int error = attach_steps(attach);

	if (error || !attach->stream)
		door_shut(attach);
	if (error && !*attach->fault.why)
		fault_set(&attach->fault, error, NULL, "%s", strerror(-error));
	atomic_store_explicit(&attach->state, error ? ATTACH_FAILED : ATTACH_DONE,
			      memory_order_release);
	if (!error && attach->stream) {
		stream_serve(attach->stream, attach->door);
		door_shut(attach);
	}
	return NULL;
}

struct attach *attach_begin(const struct capture_config *config, const struct target *target,
			    bool boot)
{
	struct attach *attach = calloc(1, sizeof(*attach));
	int error;

	if (!attach)
		return NULL;
	attach->config = config;
	attach->target = target;
	attach->boot = boot;
	attach->rings.place = PLACE_NONE;
	pthread_mutex_init(&attach->door_mutex, NULL);
	/* Signals are blocked already: they are the main thread's. */
	error = pthread_create(&attach->thread, NULL, attach_main, attach);
	if (error) {
		pthread_mutex_destroy(&attach->door_mutex);
		free(attach);
		errno = error;
		return NULL;
	}
	return attach;
}

enum attach_state attach_state(struct attach *attach)
{
	return (enum attach_state)atomic_load_explicit(&attach->state, memory_order_acquire);
}

const struct fault *attach_fault(const struct attach *attach)
{
	return &attach->fault;
}

struct rings *attach_rings(struct attach *attach)
{
	return atomic_load_explicit(&attach->rings_ready, memory_order_acquire) ? &attach->rings
										: NULL;
}

struct stream *attach_stream(struct attach *attach)
{
	return attach_state(attach) == ATTACH_DONE ? attach->stream : NULL;
}

const struct start_info *attach_info(const struct attach *attach)
{
	return &attach->info;
}

const struct node *attach_node(const struct attach *attach)
{
	return &attach->node;
}

void attach_cancel(struct attach *attach)
{
	pthread_mutex_lock(&attach->door_mutex);
	attach->cancelled = true;
	if (attach->door)
		door_interrupt(attach->door);
	pthread_mutex_unlock(&attach->door_mutex);
}

void attach_end(struct attach *attach)
{
	if (!attach)
		return;
	attach_cancel(attach);
	pthread_join(attach->thread, NULL);
	if (attach->rings_ready)
		rings_close(&attach->rings);
	stream_close(attach->stream);
	pthread_mutex_destroy(&attach->door_mutex);
	free(attach);
}
