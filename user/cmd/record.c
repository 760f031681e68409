/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "kernel.h"
#include "record_manual.h"
#include "record_options.h"
#include "record_view.h"
#include "recorder.h"

static int usage_error(const char *text)
{
	fprintf(stderr, "beamweave: %s\n  see beamweave record --help\n", text);
	return CMD_USAGE;
}

/* What the options say together. Returns 0 or an exit status. */
static int env_check(void)
{
	struct capture_config *config = &record_env.config;
	int targets = (config->node != NULL) + (config->command != NULL) +
		      (config->pid || config->session);
	bool named = config->call_count || config->events;

	if (!targets)
		return usage_error("what is to be recorded? Give -p PID, -n NODE or a command");
	if (targets > 1)
		return usage_error("give one target: -p PID, -n NODE or a command");
	if (config->wait && !config->node)
		return usage_error("--wait goes with -n NODE");
	if (record_env.tracer && !strcmp(record_env.tracer, "none"))
		record_env.no_attach = true;
	if (record_env.no_attach && record_env.tracer && strcmp(record_env.tracer, "none"))
		return usage_error("--no-attach and a tracer exclude each other");
	if (config->tracer != TRACER_NIF && config->redact)
		return usage_error("a trace port is sent whole terms: --redact needs --tracer nif");
	if (config->tracer == TRACER_IP && config->mode == RING_OVERWRITE)
		return usage_error("the newest are kept in a ring, which --tracer ip has not");
	if (record_env.no_attach && (named || config->session))
		return usage_error("Erlang events cannot be had without attaching to the VM");
	if (config->session && (named || config->pid_count || record_env.captures ||
				config->max_events || config->tracer != TRACER_NIF))
		return usage_error("what a session records is chosen in beamweave:start/1");
	if (config->pid_count && !named)
		return usage_error("--pids goes with -c or -e");
	if (record_env.kernel_given && !record_env.kernel_named && config->kernel_required)
		return usage_error("--kernel none excludes the kernel's events of -e");
	if (!strcmp(config->output, "-") && isatty(STDOUT_FILENO))
		return usage_error("standard output is a terminal: give -o FILE, or a pipe");
	if (!*config->output)
		return usage_error("-o needs the name of a file");
	return 0;
}

static void env_settle(void)
{
	struct capture_config *config = &record_env.config;

	config->attach = !record_env.no_attach && !config->session;
	config->attach_required = config->attach &&
				  (config->call_count || config->events || record_env.tracer);
	if (record_env.kernel_given) {
		config->kernel_wanted = record_env.kernel_named;
		config->kernel_required |= record_env.kernel_named;
	}
	config->kernel_wanted |= config->kernel_required;
	if (config->kernel_required & RECORD_PROBE(SOCKET))
		config->kernel_wanted |= RECORD_PROBE(SOCKET_IO);
	if (!config->attach && !config->session)
		config->kernel_wanted &= ~RECORD_PROBE(PROCESS) | config->kernel_required;
	if (config->command && !record_env.duration_given)
		config->duration_ns = 0;
	config->command_line = record_env.command_line;
}

/* Our own words, not the command's: those may hold anything, a cookie for one. */
static void command_line_keep(int argc, char **argv)
{
	size_t used = 0;
	int end = argc;

	for (int i = 1; record_env.config.command && i < argc; i++)
		if (&argv[i] == record_env.config.command)
			end = i + 1;
	used += (size_t)snprintf(record_env.command_line, sizeof(record_env.command_line),
				 "beamweave record");
	for (int i = 1; i < end && used < sizeof(record_env.command_line); i++)
		used += (size_t)snprintf(record_env.command_line + used,
					 sizeof(record_env.command_line) - used, " %s", argv[i]);
}

int cmd_record(int argc, char **argv)
{
	struct recorder_view callbacks;
	struct record_view view;
	struct fault fault = {0};
	bool kept, lost;
	int status, error;

	record_options_parse(argc, argv);
	status = env_check();
	if (status)
		return status;
	env_settle();
	command_line_keep(argc, argv);
	record_view_open(&view, &record_env.config);
	callbacks = record_view_callbacks(&view);
	error = recorder_run(&record_env.config, &callbacks, &status, &kept, &lost, &fault);
	free(record_env.calls);
	free(record_env.pids);
	if (error) {
		record_fault_print(&fault);
		if (fault.error == -ENOTCONN || fault.error == -EPROTONOSUPPORT)
			record_manual_print(record_env.config.pid);
		return CMD_FAILED;
	}
	if (status)
		return status;
	return lost && record_env.fail_on_loss ? CMD_LOST : CMD_DONE;
}
