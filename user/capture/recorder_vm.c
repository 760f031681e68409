/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder_steps.h"

#include <errno.h>
#include <stdio.h>

#define VM_LOOK_NS 20000000ull /* between looks for a command's VM */

/* Leave the VM side; the kernel's may go on. Returns -errno when nothing is left to record. */
static int vm_give_up(struct run *run, const struct fault *why)
{
	struct recorder *recorder = run->recorder;
	bool fatal = recorder->config->attach_required || why->error == -ENOSPC ||
		     why->error == -EBUSY;

	run->vm_settled = true;
	recorder->attach_fault = *why;
	recorder->rings = NULL;
	if (!fatal && recorder->kernel && kernel_enabled(recorder->kernel))
		return 0;
	*run->fault = *why;
	return why->error;
}

int run_watch_attach(struct run *run)
{
	struct recorder *recorder = run->recorder;
	int error;

	if (!recorder->attach || run->vm_settled)
		return 0;
	if (!recorder->rings)
		recorder->rings = attach_rings(recorder->attach);
	switch (attach_state(recorder->attach)) {
	case ATTACH_WORKING:
		return 0;
	case ATTACH_FAILED:
		recorder->info = *attach_info(recorder->attach);
		snprintf(recorder->node, sizeof(recorder->node), "%s",
			 attach_node(recorder->attach)->name);
		error = vm_give_up(run, attach_fault(recorder->attach));
		attach_end(recorder->attach);
		recorder->attach = NULL;
		return error;
	case ATTACH_DONE:
		break;
	}
	recorder->rings = attach_rings(recorder->attach);
	recorder->stream = attach_stream(recorder->attach);
	recorder->info = *attach_info(recorder->attach);
	snprintf(recorder->node, sizeof(recorder->node), "%s", recorder->info.node);
	recorder->attached = true;
	run->vm_settled = true;
	return 0;
}

int run_watch_command(struct run *run)
{
	struct recorder *recorder = run->recorder;

	if (!recorder->command.pid || recorder->target.pid || run->vm_settled ||
	    recorder->now_ns - run->looked_ns < VM_LOOK_NS)
		return 0;
	run->looked_ns = recorder->now_ns;
	return recorder_open_command_vm(recorder, run->fault);
}

static void session_broken(struct run *run)
{
	struct recorder *recorder = run->recorder;
	bool kernel = recorder->kernel && kernel_enabled(recorder->kernel);

	recorder->rings = NULL;
	recorder->attached = false;
	fault_set(&recorder->attach_fault, -EIO, NULL,
		  "the session's file was truncated by others");
	recorder_note(run->view,
		      "the session's file was truncated by others: Erlang events end here%s",
		      kernel ? ", the kernel's go on" : "");
	if (!kernel)
		run_end(run, RECORDER_TRACER_FAILED);
}

static void tracer_ended(struct run *run, uint32_t reason)
{
	run->recorder->tracer_confirmed = true;
	switch (reason) {
	case RING_END_EVENTS:
		run_end(run, RECORDER_EVENTS);
		break;
	case RING_END_TIME:
		run_end(run, RECORDER_TIME);
		break;
	case RING_END_SHELL:
	case RING_END_ASKED:
		run_end(run, RECORDER_NODE);
		break;
	default:
		run_end(run, RECORDER_TRACER_FAILED);
	}
}

static void stream_watch(struct run *run)
{
	struct recorder *recorder = run->recorder;

	if (stream_tracer(recorder->stream) == RING_TRACER_ENDED)
		tracer_ended(run, stream_end_reason(recorder->stream));
	else if (stream_over(recorder->stream) &&
		 !(recorder->target.pid && target_ended(&recorder->target)))
		run_end(run, RECORDER_TRACER_FAILED);
}

void run_watch_tracer(struct run *run)
{
	struct recorder *recorder = run->recorder;

	if (recorder->stream)
		stream_watch(run);
	if (!recorder->rings)
		return;
	if (rings_broken())
		session_broken(run);
	else if (rings_tracer(recorder->rings) == RING_TRACER_ENDED)
		tracer_ended(run, rings_end_reason(recorder->rings));
}
