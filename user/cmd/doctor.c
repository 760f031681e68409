/* SPDX-License-Identifier: Apache-2.0 */

/* beamweave doctor: what this host and a VM allow, and the command that mends what is missing. */

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "amount.h"
#include "checkup.h"
#include "cmd.h"
#include "kernel.h"
#include "node.h"
#include "page.h"

#define VMS_MAX 256

enum doctor_key { KEY_PID = 'p', KEY_NODE = 'n', KEY_JSON = 256, KEY_COOKIE, KEY_WITHOUT };

struct doctor_env {
	struct capture_config config;
	bool json;
};

/* The kernel's probes in the low half, as kernel_config wants them; steps of attaching above. */
#define STEP(bit) ((uint32_t)(bit) << 16)

static const struct amount_name without_names[] = {
	{"sched", 1u << KERNEL_SCHED},	       {"process", 1u << KERNEL_PROCESS},
	{"blocking", 1u << KERNEL_BLOCKING},   {"socket", 1u << KERNEL_SOCKET},
	{"socket_io", 1u << KERNEL_SOCKET_IO}, {"syscall", 1u << KERNEL_SYSCALL},
	{"cmdline", STEP(WITHOUT_CMDLINE)},    {"epmd", STEP(WITHOUT_EPMD)},
	{"devshm", STEP(WITHOUT_DEVSHM)},      {NULL, 0},
};

static const struct argp_option options[] = {
	{"pid", KEY_PID, "PID", 0, "Look at this VM too", 0},
	{"node", KEY_NODE, "NODE", 0, "The same by its name: name or name@host", 0},
	{"cookie-file", KEY_COOKIE, "FILE", 0, "Read the cookie there, not where the VM has it", 0},
	{"json", KEY_JSON, NULL, 0, "Print JSON (\"schema\": 1)", 0},
	{"without", KEY_WITHOUT, "NAME", 0,
	 "Act as if it could not be had: a probe of the kernel, or cmdline, epmd, devshm", 0},
	{0}};

static void pid_set(struct argp_state *state, struct capture_config *config, const char *argument)
{
	char *end;
	long pid = strtol(argument, &end, 10);

	if (*end || end == argument || pid <= 0 || pid > INT_MAX)
		argp_failure(state, CMD_USAGE, 0, "-p: '%.60s' is no process id", argument);
	config->pid = (pid_t)pid;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct doctor_env *env = state->input;
	struct capture_config *config = &env->config;
	const char *at;
	uint32_t bits = 0;
	size_t bytes;

	switch (key) {
	case KEY_PID:
		pid_set(state, config, argument);
		break;
	case KEY_NODE:
		config->node = argument;
		break;
	case KEY_COOKIE:
		config->cookie_file = argument;
		break;
	case KEY_JSON:
		env->json = true;
		break;
	case KEY_WITHOUT:
		if (amount_list(argument, without_names, &bits, &at, &bytes))
			argp_failure(state, CMD_USAGE, 0, "--without: there is no '%.*s'",
				     bytes > 60 ? 60 : (int)bytes, at);
		config->kernel_without |= bits & 0xffff;
		config->without |= bits >> 16;
		break;
	case ARGP_KEY_ARG:
		argp_failure(state, CMD_USAGE, 0,
			     "'%.60s' is one argument too many: give a VM as -p PID or -n NODE",
			     argument);
		break;
	case ARGP_KEY_END:
		if (config->pid && config->node)
			argp_failure(state, CMD_USAGE, 0, "give -p or -n, not both");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp doctor_argp = {
	.options = options,
	.parser = parse_option,
	.doc = "Say what this host and a VM allow, and for what is missing the command that mends "
	       "it. "
	       "Changes neither: probes are attached for a moment, files are made and removed.\v"
	       "Examples:\n"
	       "  beamweave doctor                   the host, its kernel, the VMs on it\n"
	       "  beamweave doctor -n shop           and whether this node can be recorded\n"
	       "  beamweave doctor --json | jq '.checks[] | select(.status != \"ok\")'\n"
	       "\nExit codes: 0 a recording has all that it needs, 1 something is missing, 2 bad "
	       "usage.",
};

static const char *status_name(enum checkup_status status)
{
	static const char *const names[] = {
		[CHECKUP_OK] = "ok", [CHECKUP_NOTE] = "note", [CHECKUP_MISSING] = "missing"};

	return names[status];
}

static json_t *text_or_null(const char *text)
{
	json_t *string = *text ? json_string(text) : NULL;

	return string ? string : json_null();
}

static int json_print(const struct checkup *checkup, const pid_t *pids, size_t vms, bool whole)
{
	json_t *checks = json_array(), *list = json_array(), *root;
	char text[CHECKUP_VM_BYTES];
	int failed;

	for (size_t i = 0; i < checkup->count; i++) {
		const struct checkup_row *row = &checkup->rows[i];

		json_array_append_new(checks,
				      json_pack("{s:s,s:s,s:s,s:o,s:o}", "area", row->area, "what",
						row->what, "status", status_name(row->status),
						"detail", text_or_null(row->detail), "fix",
						text_or_null(row->fix)));
	}
	for (size_t i = 0; i < vms; i++) {
		checkup_vm_text(pids[i], text);
		json_array_append_new(list, json_pack("{s:i,s:o}", "pid", (int)pids[i], "about",
						      text_or_null(text)));
	}
	root = json_pack("{s:i,s:b,s:o,s:o}", "schema", 1, "whole", whole, "checks", checks, "vms",
			 list);
	failed = !root || json_dumpf(root, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
	json_decref(root);
	return failed ? -EIO : 0;
}

static void text_print(const struct checkup *checkup, const pid_t *pids, size_t vms)
{
	static const struct {
		const char *area, *title;
	} titles[] = {{"host", "This host"}, {"kernel", "Kernel probes"}, {"vm", "The VM"}};
	char text[CHECKUP_VM_BYTES];
	const char *area = "";

	for (size_t i = 0; i < checkup->count; i++) {
		const struct checkup_row *row = &checkup->rows[i];

		for (size_t k = 0; k < 3 && strcmp(area, row->area); k++)
			if (!strcmp(titles[k].area, row->area))
				page_title(stdout, "%s", titles[k].title);
		area = row->area;
		page_print(stdout, 2, 28, "%-7s  %-16s %s", status_name(row->status), row->what,
			   row->detail);
		if (*row->fix)
			page_print(stdout, 11, 28, "%-16s %s", "to mend it:", row->fix);
	}
	page_title(stdout, vms ? "Erlang VMs on this host" : "No Erlang VM runs on this host.");
	for (size_t i = 0; i < vms; i++) {
		checkup_vm_text(pids[i], text);
		if (*text)
			page_print(stdout, 2, 11, "%-8d %s", (int)pids[i], text);
	}
}

/* The VM that was asked for. Returns 0, or the exit status after a line on stderr. */
static int target_find(struct doctor_env *env, struct target *target)
{
	struct fault fault = {0};

	if (env->config.node &&
	    node_process(env->config.node, env->config.without, &env->config.pid, &fault))
		goto failed;
	if (!target_open(target, env->config.pid, true, &fault))
		return 0;
failed:
	fprintf(stderr, "beamweave: %s%s%s\n", fault.why, *fault.fix ? ": " : "", fault.fix);
	return CMD_FAILED;
}

int cmd_doctor(int argc, char **argv)
{
	static char program[] = "beamweave doctor";
	struct checkup *checkup = calloc(1, sizeof(*checkup));
	pid_t *pids = calloc(VMS_MAX, sizeof(*pids));
	struct target target = {.pidfd = -1, .root_fd = -1};
	struct doctor_env env = {0};
	int code = CMD_FAILED;
	bool whole = true;
	size_t vms;

	argv[0] = program;
	argp_err_exit_status = CMD_USAGE;
	if (argp_parse(&doctor_argp, argc, argv, 0, NULL, &env)) {
		code = CMD_USAGE;
		goto cleanup;
	}
	if (!checkup || !pids)
		goto cleanup;
	if (env.config.pid || env.config.node) {
		code = target_find(&env, &target);
		if (code)
			goto cleanup;
	}
	checkup_host(checkup);
	checkup_kernel(checkup, env.config.pid ? env.config.pid : getpid(),
		       env.config.kernel_without);
	if (env.config.pid)
		checkup_vm(checkup, &target, &env.config);
	for (size_t i = 0; i < checkup->count; i++)
		whole = whole && checkup->rows[i].status != CHECKUP_MISSING;
	vms = target_find_all(pids, VMS_MAX);
	code = whole ? CMD_DONE : CMD_FAILED;
	if (!env.json)
		text_print(checkup, pids, vms);
	else if (json_print(checkup, pids, vms, whole))
		code = CMD_FAILED;
	if (fflush(stdout)) {
		fprintf(stderr, "beamweave: cannot write: %s\n", strerror(errno));
		code = CMD_FAILED;
	}
cleanup:
	target_close(&target);
	free(checkup);
	free(pids);
	return code;
}
