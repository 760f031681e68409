/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "meta.h"
#include "recorder_steps.h"

#define SECOND_NS	   1000000000ull
#define PACE_MIN_MS	   5
#define PACE_MAX_MS	   100
#define PACE_START_MS	   20
#define FILL_FAST_PERMILLE 250 /* drain more often above it */
#define FILL_SLOW_PERMILLE 60 /* less often below it */
#define END_WAIT_NS	   (5 * SECOND_NS) /* for the node's word that it is over */
#define END_WAIT_MAX_NS	   (60 * SECOND_NS) /* while it shows that it works on it */
#define HEARTBEAT_NS	   (2 * SECOND_NS)

void recorder_note(const struct recorder_view *view, const char *format, ...)
{
	va_list arguments;
	char text[1400];

	if (!view->note)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	view->note(view->context, text);
}

const char *recorder_end_name(enum recorder_end end)
{
	static const char *const names[] = {
		[RECORDER_GOES_ON] = "none",
		[RECORDER_TIME] = "duration",
		[RECORDER_EVENTS] = "max_events",
		[RECORDER_SIZE] = "max_size",
		[RECORDER_INTERRUPTED] = "interrupted",
		[RECORDER_TARGET_ENDED] = "target_ended",
		[RECORDER_NODE] = "stopped_on_node",
		[RECORDER_TRACER_FAILED] = "tracer_failed",
		[RECORDER_DISK_FULL] = "disk_full",
		[RECORDER_PIPE] = "reader_gone",
		[RECORDER_OUTPUT] = "output_failed",
	};

	return names[end];
}

void run_end(struct run *run, enum recorder_end end)
{
	if (run->recorder->end == RECORDER_GOES_ON)
		run->recorder->end = end;
}

static void output_failed(struct run *run, int error)
{
	if (!run->recorder->output_error)
		run->recorder->output_error = error;
	run_end(run, error == -ENOSPC || error == -EDQUOT || error == -EFBIG ? RECORDER_DISK_FULL
		     : error == -EPIPE					     ? RECORDER_PIPE
									     : RECORDER_OUTPUT);
}

/* ---- Beginning, limits ---- */

static bool all_on(struct run *run)
{
	struct recorder *recorder = run->recorder;

	/* A command's VM is not waited for: the kernel side is on from its exec. */
	if (recorder->command.pid && !recorder->attach)
		return true;
	if (recorder->attach && !run->vm_settled)
		return recorder->command.pid != 0;
	if (recorder->stream)
		return stream_tracer(recorder->stream) >= RING_TRACER_ON;
	return !recorder->rings || rings_tracer(recorder->rings) >= RING_TRACER_ON;
}

static int begin_watch(struct run *run)
{
	struct recorder *recorder = run->recorder;
	bool waits = recorder->config->attach && !run->vm_settled;

	if (!recorder->begun_ns && all_on(run))
		recorder->begun_ns = recorder->now_ns;
	if (!recorder->begun_ns || waits || run->told)
		return 0;
	run->told = true;
	if (run->view->begun)
		run->view->begun(run->view->context, recorder);
	return meta_write(recorder);
}

static uint64_t pending_bytes(const struct recorder *recorder)
{
	return recorder->rings ? recorder->config->buffer_bytes / 1000 *
					 rings_fill_permille(recorder->rings)
			       : 0;
}

static void limits_watch(struct run *run)
{
	struct recorder *recorder = run->recorder;
	const struct capture_config *config = recorder->config;
	uint64_t margin = recorder_closing_bytes(config);

	if (config->duration_ns && recorder->begun_ns &&
	    recorder->now_ns - recorder->begun_ns >= config->duration_ns)
		run_end(run, RECORDER_TIME);
	if (config->max_bytes &&
	    file_bytes(recorder->writer) + pending_bytes(recorder) + margin >= config->max_bytes)
		run_end(run, RECORDER_SIZE);
	if (config->max_events && recorder->stream) {
		recorder_count(recorder);
		if (recorder->recorded >= config->max_events)
			run_end(run, RECORDER_EVENTS);
	}
	/* Erlang events are counted where they are made; without them the kernel's are. */
	if (config->max_events && run->vm_settled && !recorder->attached && !recorder->rings) {
		recorder_count(recorder);
		if (recorder->kernel_recorded >= config->max_events)
			run_end(run, RECORDER_EVENTS);
	}
	if (recorder->command.pid) {
		if (command_ended(&recorder->command))
			run_end(run, RECORDER_TARGET_ENDED);
	} else if (recorder->target.pid && target_ended(&recorder->target)) {
		run_end(run, RECORDER_TARGET_ENDED);
	}
}

/* ---- The loop ---- */

static void signals_read(struct run *run)
{
	struct recorder *recorder = run->recorder;
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		run->interrupts++;
		/* A terminal sends to the command as well, kill(1) to us alone. */
		if (recorder->command.pid && !recorder->command.ended && info.ssi_pid)
			kill(recorder->command.pid, (int)info.ssi_signo);
		if (!recorder->command.pid || run->interrupts > 1)
			run_end(run, RECORDER_INTERRUPTED);
		if (run->interrupts > (recorder->command.pid ? 2u : 1u))
			run->stop_at_once = true;
	}
}

static void pace_wait(struct run *run)
{
	struct recorder *recorder = run->recorder;
	uint32_t fill = recorder_fill(recorder);
	/* A command is waited for by its signal; its VM may end before it does. */
	int target_fd = recorder->command.pid ? -1 : recorder->target.pidfd;
	struct pollfd ready[3] = {
		{.fd = run->signal_fd, .events = POLLIN},
		{.fd = target_fd, .events = POLLIN},
		/* The port's queue is short: what it has no room for is lost. */
		{.fd = recorder->stream ? stream_fd(recorder->stream) : -1, .events = POLLIN}};

	if (fill > FILL_FAST_PERMILLE)
		run->pace_ms = run->pace_ms / 2 < PACE_MIN_MS ? PACE_MIN_MS : run->pace_ms / 2;
	else if (fill < FILL_SLOW_PERMILLE)
		run->pace_ms = run->pace_ms * 2 > PACE_MAX_MS ? PACE_MAX_MS : run->pace_ms * 2;
	poll(ready, 3, (int)run->pace_ms);
	signals_read(run);
	recorder->now_ns = clock_ns();
}

static int second_watch(struct run *run)
{
	struct recorder *recorder = run->recorder;
	uint64_t second = (recorder->now_ns - recorder->created_ns) / SECOND_NS;

	if (second == run->second)
		return 0;
	run->second = second;
	recorder_count(recorder);
	if (run->view->progress)
		run->view->progress(run->view->context, recorder);
	return recorder_write_second(recorder, second);
}

/* One drain and what appeared since the last. */
static int run_drain(struct run *run, bool rest)
{
	struct recorder *recorder = run->recorder;
	int64_t moved = recorder_drain(recorder, rest);

	return moved < 0 ? (int)moved : recorder_follow(recorder);
}

/* The same with its mark, for whoever reads along. */
static int run_drain_live(struct run *run, bool rest)
{
	const struct recorder_view *view = run->view;
	struct recorder *recorder = run->recorder;
	enum recorder_end end;

	if (!view->behind || !view->behind(view->context)) {
		uint64_t mark_ns = clock_ns();
		int64_t moved = recorder_drain(recorder, rest);
		int error = moved < 0 ? (int)moved : recorder_follow(recorder);

		if (!error)
			error = recorder_drained(moved) ? recorder_write_mark(recorder, mark_ns)
							: file_flush(recorder->writer);
		if (error)
			return error;
	}
	end = view->drained ? view->drained(view->context, recorder) : RECORDER_GOES_ON;
	if (end != RECORDER_GOES_ON)
		run_end(run, end);
	return 0;
}

/* Errors of the output end the recording; others are returned. */
static int run_loop(struct run *run)
{
	struct recorder *recorder = run->recorder;

	run->pace_ms = PACE_START_MS;
	while (recorder->end == RECORDER_GOES_ON) {
		int error;

		pace_wait(run);
		error = run_watch_command(run);
		if (!error)
			error = run_watch_attach(run);
		if (error)
			return error;
		if (recorder->rings)
			rings_lease(recorder->rings, recorder->now_ns);
		error = recorder->config->live_fd ? run_drain_live(run, false)
						  : run_drain(run, false);
		if (!error)
			error = begin_watch(run);
		if (!error)
			error = second_watch(run);
		if (error)
			output_failed(run, error);
		run_watch_tracer(run);
		limits_watch(run);
	}
	return 0;
}

/* ---- The end ---- */

static bool end_wait_over(struct run *run)
{
	struct recorder *recorder = run->recorder;
	uint64_t waited_ns = recorder->now_ns - recorder->stopped_ns;
	uint64_t heartbeat_ns = rings_heartbeat_ns(recorder->rings);

	if (run->stop_at_once || waited_ns > END_WAIT_MAX_NS)
		return true;
	if (recorder->target.pid && target_ended(&recorder->target))
		return true;
	if (!recorder->target.pid && waited_ns > HEARTBEAT_NS)
		return true;
	return waited_ns > END_WAIT_NS && recorder->now_ns > heartbeat_ns + HEARTBEAT_NS;
}

/* Until the port's last words came and the node's side has told all. */
static void stream_finish(struct run *run, bool *writable)
{
	struct recorder *recorder = run->recorder;

	while (recorder->stream && !stream_over(recorder->stream)) {
		struct pollfd ready[2] = {{.fd = run->signal_fd, .events = POLLIN},
					  {.fd = stream_fd(recorder->stream), .events = POLLIN}};

		if (run->stop_at_once || recorder->now_ns - recorder->stopped_ns > END_WAIT_MAX_NS)
			break;
		if (*writable && run_drain(run, true))
			*writable = false;
		poll(ready, 2, PACE_MIN_MS);
		signals_read(run);
		recorder->now_ns = clock_ns();
	}
	if (recorder->stream)
		recorder->tracer_confirmed = stream_tracer(recorder->stream) == RING_TRACER_ENDED;
}

/* Stop both sides and take what they left. */
static void run_stop(struct run *run)
{
	struct recorder *recorder = run->recorder;
	bool writable = !recorder->output_error;
	int64_t moved;

	recorder->stopped_ns = clock_ns();
	recorder->now_ns = recorder->stopped_ns;
	if (recorder->stream) {
		stream_stop(recorder->stream);
	} else if (recorder->attach) {
		attach_cancel(recorder->attach);
		if (!recorder->rings)
			recorder->rings = attach_rings(recorder->attach);
	}
	if (recorder->rings)
		rings_stop(recorder->rings);
	if (recorder->kernel)
		kernel_stop(recorder->kernel);
	while (recorder->rings && !rings_broken()) {
		recorder->tracer_confirmed = rings_tracer(recorder->rings) == RING_TRACER_ENDED ||
					     rings_tracer(recorder->rings) == RING_TRACER_NONE;
		if (recorder->tracer_confirmed || end_wait_over(run))
			break;
		if (writable &&
		    (recorder->config->live_fd ? run_drain_live(run, true) : run_drain(run, true)))
			writable = false;
		poll(&(struct pollfd){.fd = run->signal_fd, .events = POLLIN}, 1, PACE_MIN_MS);
		signals_read(run);
		recorder->now_ns = clock_ns();
	}
	stream_finish(run, &writable);
	/* A VM that goes on writing all the same does not keep us. */
	while (writable && clock_ns() - recorder->now_ns < END_WAIT_MAX_NS &&
	       (moved = recorder_drain(recorder, true))) {
		if (moved < 0) {
			output_failed(run, (int)moved);
			writable = false;
		}
	}
	recorder->now_ns = clock_ns();
	if ((recorder->rings || recorder->stream) && !recorder->tracer_confirmed &&
	    recorder->target.pid && !target_ended(&recorder->target))
		recorder_note(run->view,
			      "the node did not confirm the end: its trace flags go by themselves "
			      "when it runs again");
}

/* Returns the exit of the recording: 0 or -errno with the fault. */
static int run_close(struct run *run, bool *lost)
{
	struct recorder *recorder = run->recorder;
	const char *output = recorder->config->output;
	int error, other;

	error = recorder_write_end(recorder);
	other = file_close(recorder->writer, true);
	recorder->writer = NULL;
	if (!error)
		error = other;
	if (recorder->output_error)
		error = recorder->output_error;
	*lost = recorder->discarded || recorder->kernel_discarded;
	if (run->view->ended)
		run->view->ended(run->view->context, recorder);
	if (recorder->end == RECORDER_PIPE)
		return fault_set(run->fault, -EPIPE, NULL, "nobody reads %s any more", output);
	if (error)
		return fault_set(run->fault, error,
				 error == -ENOSPC ? "what was written before is readable" : NULL,
				 "cannot write %.300s: %s", output, strerror(-error));
	if (recorder->config->attach_required && !recorder->attached && !rings_broken())
		return fault_set(run->fault, -ENOENT, NULL, "%s",
				 *recorder->attach_fault.why
					 ? recorder->attach_fault.why
					 : "the recording ended before the VM was attached");
	if (recorder->end == RECORDER_TRACER_FAILED)
		return fault_set(run->fault, -EIO, NULL, "the tracer ended before its time");
	return 0;
}

static int run_open(struct run *run, const sigset_t *mask)
{
	struct recorder *recorder = run->recorder;
	struct fault *fault = run->fault;
	int error = recorder_open_target(recorder, mask, fault);

	if (!error)
		error = recorder_open_kernel(recorder, fault);
	if (!error)
		error = recorder_open_output(recorder, fault);
	if (!error)
		error = recorder_open_vm(recorder, fault);
	if (error)
		return error;
	error = recorder_write_begin(recorder);
	if (error)
		return fault_set(fault, error, NULL, "cannot write %.300s: %s",
				 recorder->config->output, strerror(-error));
	if (recorder->config->command)
		error = command_go(&recorder->command, recorder->config->command, fault);
	if (recorder->config->session)
		recorder->attached = true;
	run->vm_settled = recorder->config->session || !recorder->config->attach;
	if (!error && run->vm_settled && !recorder->attached &&
	    (!recorder->kernel || !kernel_enabled(recorder->kernel)))
		error = fault_set(fault, -EPERM, "run as root, or attach to the VM",
				  "nothing can be recorded: no kernel probe, and no VM side");
	return error;
}

static void signal_take(int number)
{
	(void)number;
}

/*
 * A write says by its error what the signal would. Unlike an ignored signal a caught one is as it was
 * in a command that we start.
 */
static void signal_mute(int number)
{
	if (signal(number, signal_take) == SIG_IGN)
		signal(number, SIG_IGN);
}

static int signals_open(sigset_t *before)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, before);
	signal_mute(SIGPIPE);
	signal_mute(SIGXFSZ);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int recorder_run(const struct capture_config *config, const struct recorder_view *view, int *status,
		 bool *kept, bool *lost, struct fault *fault)
{
	struct recorder recorder = {.config = config,
				    .view = view,
				    .target = {.pidfd = -1, .root_fd = -1},
				    .session = {.place = PLACE_NONE},
				    .info = {.functions = -1}};
	struct run run = {.recorder = &recorder, .view = view, .fault = fault};
	sigset_t mask;
	int error;

	*status = 0;
	*kept = false;
	*lost = false;
	run.signal_fd = signals_open(&mask);
	if (run.signal_fd < 0)
		return fault_set(fault, -errno, NULL, "cannot watch signals: %s", strerror(errno));
	error = run_open(&run, &mask);
	if (!error)
		error = run_loop(&run);
	if (error) {
		/* Asked for by name and not to be had: nothing is kept, nothing left running. */
		if (recorder.command.pid && !recorder.command.ended)
			kill(recorder.command.pid, SIGTERM);
	} else {
		run_stop(&run);
		error = run_close(&run, lost);
		*kept = true;
	}
	recorder_close(&recorder, !*kept);
	close(run.signal_fd);
	/* From here on Ctrl-C ends us, should the command not want to end. */
	sigprocmask(SIG_SETMASK, &mask, NULL);
	command_wait(&recorder.command);
	*status = command_exit_status(&recorder.command);
	return error;
}
