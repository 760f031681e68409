/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define WAIT_MS	 200
#define VMS_MAX	 1024
#define MAPS_MAX (64u << 20)

/* ---- The target ---- */

/* Does a process have the session mapped? */
static bool session_mapped(const struct rings *session, pid_t pid)
{
	struct stat status;
	char path[64];
	char *text, *line, *rest;
	bool found = false;

	if (fstat(session->place.fd, &status))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	text = text_read(path, MAPS_MAX, NULL);
	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line && !found;
	     line = strtok_r(NULL, "\n", &rest)) {
		unsigned int device_major, device_minor;
		uint64_t inode;

		found = sscanf(line, "%*x-%*x %*s %*x %x:%x %" SCNu64, &device_major, &device_minor,
			       &inode) == 3 &&
			inode == status.st_ino && device_major == major(status.st_dev) &&
			device_minor == minor(status.st_dev);
	}
	free(text);
	return found;
}

static pid_t session_process(const struct rings *session)
{
	pid_t *pids = calloc(VMS_MAX, sizeof(*pids));
	pid_t found = 0;
	size_t count = pids ? target_find_all(pids, VMS_MAX) : 0;

	for (size_t i = 0; i < count && !found; i++)
		if (session_mapped(session, pids[i]))
			found = pids[i];
	free(pids);
	return found;
}

static int target_by_session(struct recorder *recorder, struct fault *fault)
{
	const struct capture_config *config = recorder->config;
	pid_t pid = config->pid;
	int error;

	error = rings_open(&recorder->session, config->session, fault);
	if (error)
		return error;
	if (pid && !session_mapped(&recorder->session, pid))
		return fault_set(fault, -EINVAL, NULL, "process %d does not use the session %.300s",
				 pid, config->session);
	if (!pid)
		pid = session_process(&recorder->session);
	/* Its VM may have ended already; what it left can still be saved. */
	return pid ? target_open(&recorder->target, pid, !(config->without & WITHOUT_PIDFD), fault)
		   : 0;
}

/* Until a node of that name runs, or a signal comes. */
static int node_wait(const char *name, uint32_t without, pid_t *pid, struct fault *fault)
{
	struct timespec time = {.tv_nsec = WAIT_MS * 1000000};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	for (;;) {
		int error = node_process(name, without, pid, fault);

		if (error != -ENOENT)
			return error;
		if (sigtimedwait(&signals, NULL, &time) > 0)
			return fault_set(fault, -EINTR, NULL, "the node %.300s did not come", name);
	}
}

int recorder_open_target(struct recorder *recorder, const sigset_t *mask, struct fault *fault)
{
	const struct capture_config *config = recorder->config;
	pid_t pid = config->pid;
	int error = 0;

	if (config->command)
		return command_prepare(&recorder->command, config->command, mask, fault);
	if (config->session)
		return target_by_session(recorder, fault);
	if (config->node && config->wait)
		error = node_wait(config->node, config->without, &pid, fault);
	else if (config->node)
		error = node_process(config->node, config->without, &pid, fault);
	if (error)
		return error;
	return target_open(&recorder->target, pid, !(config->without & WITHOUT_PIDFD), fault);
}

/* ---- The kernel side ---- */

int recorder_open_kernel(struct recorder *recorder, struct fault *fault)
{
	const struct capture_config *config = recorder->config;
	struct kernel_config settings = {
		.wanted = config->kernel_wanted,
		.without = config->kernel_without,
		.target = recorder->command.pid ? recorder->command.pid : recorder->target.pid,
		.follow = recorder->command.pid != 0,
	};
	const struct kernel_missing *missing;
	size_t count;

	if (!config->kernel_wanted)
		return 0;
	if (!settings.target) {
		/* The VM of a session that has ended. */
		return config->kernel_required
			       ? fault_set(fault, -ESRCH, "give its process id as well: -p PID",
					   "which process the session belongs to cannot be told")
			       : 0;
	}
	recorder->kernel = kernel_open(&settings);
	if (!recorder->kernel)
		return fault_set(fault, -errno, NULL, "cannot open the kernel's side: %s",
				 strerror(errno));
	count = kernel_missing(recorder->kernel, &missing);
	for (size_t i = 0; i < count; i++)
		/* One that works in part stands there too. */
		if (config->kernel_required & ~kernel_enabled(recorder->kernel) &
		    1u << missing[i].probe)
			return fault_set(
				fault, -EPERM, missing[i].fix,
				"the kernel probe '%s' was asked for and cannot be had: %s",
				kernel_probe_name(missing[i].probe), missing[i].why);
	return 0;
}

/* ---- The output ---- */

int recorder_open_output(struct recorder *recorder, struct fault *fault)
{
	struct timespec now;

	recorder->writer = recorder->config->live_fd ? file_create_on(recorder->config->live_fd)
						     : file_create(recorder->config->output);
	if (!recorder->writer)
		return fault_set(fault, -errno, errno == ENXIO ? "start its reader first" : NULL,
				 "cannot write %.300s: %s", recorder->config->output,
				 strerror(errno));
	clock_gettime(CLOCK_REALTIME, &now);
	recorder->created_ns = clock_ns();
	recorder->now_ns = recorder->created_ns;
	recorder->created_wall_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	samples_open(&recorder->samples, recorder->target.pid	 ? recorder->target.pid
					 : recorder->command.pid ? recorder->command.pid
								 : getpid());
	return 0;
}

static void output_discard(const char *path)
{
	struct stat status;
	char *old;

	if (!strcmp(path, "-") || lstat(path, &status) || !S_ISREG(status.st_mode))
		return;
	unlink(path);
	/* What stood there before. */
	if (asprintf(&old, "%s.old", path) < 0)
		return;
	rename(old, path);
	free(old);
}

/* ---- The VM side ---- */

static int attach_start(struct recorder *recorder, bool boot, struct fault *fault)
{
	recorder->attach = attach_begin(recorder->config, &recorder->target, boot);
	if (!recorder->attach)
		return fault_set(fault, -errno, NULL, "cannot attach: %s", strerror(errno));
	return 0;
}

int recorder_open_vm(struct recorder *recorder, struct fault *fault)
{
	const struct capture_config *config = recorder->config;
	int error;

	if (config->session) {
		error = rings_attach(&recorder->session, fault);
		if (error)
			return error;
		rings_lease(&recorder->session, clock_ns());
		/* What a VM that has ended left is kept until it is saved. */
		if (recorder->target.pid)
			place_unlink(&recorder->session.place);
		recorder->rings = &recorder->session;
		return 0;
	}
	if (!config->attach || config->command)
		return 0;
	return attach_start(recorder, config->wait, fault);
}

int recorder_open_command_vm(struct recorder *recorder, struct fault *fault)
{
	const struct capture_config *config = recorder->config;
	pid_t pid = command_find_vm(&recorder->command);
	int error;

	if (!pid)
		return 0;
	error = target_open(&recorder->target, pid, !(config->without & WITHOUT_PIDFD), fault);
	if (error) {
		/* It was one just now and is gone again. */
		recorder->target.pid = 0;
		return 0;
	}
	if (recorder->kernel)
		kernel_set_target(recorder->kernel, pid);
	error = recorder_write_tasks(recorder);
	if (error)
		return fault_set(fault, error, NULL, "cannot write %.300s: %s", config->output,
				 strerror(-error));
	return config->attach ? attach_start(recorder, true, fault) : 0;
}

void recorder_close(struct recorder *recorder, bool discard)
{
	recorder->rings = NULL;
	recorder->stream = NULL;
	attach_end(recorder->attach);
	recorder->attach = NULL;
	rings_close(&recorder->session);
	kernel_close(recorder->kernel);
	recorder->kernel = NULL;
	samples_close(&recorder->samples);
	if (recorder->writer)
		file_close(recorder->writer, false);
	if (recorder->writer && discard && !recorder->config->live_fd)
		output_discard(recorder->config->output);
	recorder->writer = NULL;
	target_close(&recorder->target);
}
