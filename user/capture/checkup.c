/* SPDX-License-Identifier: Apache-2.0 */
#include "checkup.h"

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "epmd.h"
#include "kernel.h"
#include "node.h"

#define EPMD_TIMEOUT_MS 1000

void checkup_add(struct checkup *checkup, const char *area, const char *what,
		 enum checkup_status status, const char *fix, const char *detail, ...)
{
	struct checkup_row *row = &checkup->rows[checkup->count];
	va_list arguments;

	if (checkup->count == CHECKUP_ROWS)
		return;
	checkup->count++;
	row->area = area;
	row->what = what;
	row->status = status;
	snprintf(row->fix, sizeof(row->fix), "%s", fix ? fix : "");
	va_start(arguments, detail);
	vsnprintf(row->detail, sizeof(row->detail), detail, arguments);
	va_end(arguments);
}

void checkup_fault(struct checkup *checkup, const char *area, const char *what,
		   enum checkup_status status, const struct fault *fault)
{
	checkup_add(checkup, area, what, status, fault->fix, "%s", fault->why);
}

/* The first line of a small file; "" when it cannot be read. */
static void line_read(const char *path, char *line, size_t bytes)
{
	char *text = text_read(path, 65536, NULL);

	snprintf(line, bytes, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	free(text);
}

/* ---- Host ---- */

static void host_kernel(struct checkup *checkup)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		snprintf(name.release, sizeof(name.release), "?");
	if (major > 5 || (major == 5 && minor >= 8))
		checkup_add(checkup, "host", "Linux", CHECKUP_OK, NULL, "%s on %s (5.8 is needed)",
			    name.release, name.machine);
	else
		checkup_add(checkup, "host", "Linux", CHECKUP_MISSING,
			    "boot a kernel of 5.8 or newer; until then the VM's side works alone",
			    "%s has no BPF ring buffers, which came with 5.8", name.release);
	if (!access("/sys/kernel/btf/vmlinux", R_OK))
		checkup_add(checkup, "host", "BTF", CHECKUP_OK, NULL, "/sys/kernel/btf/vmlinux");
	else
		checkup_add(checkup, "host", "BTF", CHECKUP_MISSING,
			    "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (grep BTF "
			    "/boot/config-$(uname -r))",
			    "/sys/kernel/btf/vmlinux: %s", strerror(errno));
}

static void host_rights(struct checkup *checkup)
{
	static const struct {
		unsigned int bit;
		const char *name;
	} wanted[] = {{39, "CAP_BPF"}, {38, "CAP_PERFMON"}, {19, "CAP_SYS_PTRACE"}};
	char *status = text_read("/proc/self/status", 65536, NULL);
	const char *at = status ? strstr(status, "CapEff:") : NULL;
	unsigned long long bits = at ? strtoull(at + 7, NULL, 16) : 0;
	char missing[64] = "", line[256];

	for (size_t i = 0; i < 3; i++)
		if (!(bits & 1ull << wanted[i].bit) && !(i < 2 && bits & 1ull << 21))
			snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing),
				 "%s%s", *missing ? ", " : "", wanted[i].name);
	free(status);
	if (*missing)
		checkup_add(checkup, "host", "rights", CHECKUP_MISSING,
			    "sudo beamweave ..., or once: sudo setcap "
			    "cap_bpf,cap_perfmon,cap_sys_ptrace+ep \"$(command -v beamweave)\"",
			    "missing: %s", missing);
	else
		checkup_add(checkup, "host", "rights", CHECKUP_OK, NULL, "%s",
			    geteuid() ? "the capabilities that are needed" : "root");
	line_read("/proc/sys/kernel/unprivileged_bpf_disabled", line, sizeof(line));
	if (*line)
		checkup_add(checkup, "host", "unprivileged BPF", CHECKUP_NOTE, NULL,
			    "kernel.unprivileged_bpf_disabled is %.20s%s", line,
			    strcmp(line, "0") ? ": as it should be, rights are needed" : "");
	line_read("/sys/kernel/security/lockdown", line, sizeof(line));
	if (strstr(line, "[confidentiality]"))
		checkup_add(checkup, "host", "lockdown", CHECKUP_MISSING,
			    "boot without lockdown=confidentiality",
			    "the kernel is locked down: its memory may not be read by probes");
	else
		checkup_add(checkup, "host", "lockdown", CHECKUP_OK, NULL, "%s",
			    strstr(line, "[integrity]") ? "integrity: probes may read" : "off");
}

static void host_epmd(struct checkup *checkup)
{
	const char *variable = getenv("ERL_EPMD_PORT");
	long port = variable ? strtol(variable, NULL, 10) : EPMD_PORT;
	struct epmd_node *nodes = calloc(EPMD_NODES, sizeof(*nodes));
	char names[256] = "";
	int count;

	if (!nodes)
		return;
	if (port <= 0 || port > UINT16_MAX)
		port = EPMD_PORT;
	count = epmd_nodes((uint16_t)port, nodes, EPMD_NODES, EPMD_TIMEOUT_MS);
	for (int i = 0; i < count && strlen(names) < 200; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%.60s",
			 i ? ", " : ": ", nodes[i].alive);
	if (count < 0)
		checkup_add(checkup, "host", "epmd", CHECKUP_NOTE, "epmd -daemon",
			    "none answers at 127.0.0.1:%ld (%s); nodes are found by their command "
			    "lines and sockets",
			    port, strerror(-count));
	else
		checkup_add(checkup, "host", "epmd", CHECKUP_OK, NULL, "127.0.0.1:%ld, %d nodes%s",
			    port, count, names);
	free(nodes);
}

void checkup_host(struct checkup *checkup)
{
	host_kernel(checkup);
	host_rights(checkup);
	host_epmd(checkup);
}

/* ---- Kernel ---- */

void checkup_kernel(struct checkup *checkup, pid_t pid, uint32_t without)
{
	const struct kernel_config config = {
		.wanted = (1u << KERNEL_PROBES) - 1,
		.without = without,
		.target = pid,
	};
	static const char *const shows[KERNEL_PROBES] = {
		[KERNEL_SCHED] =
			"when the VM's threads run, wait and sleep, and who took their CPU",
		[KERNEL_PROCESS] = "the Erlang process that a thread was executing",
		[KERNEL_BLOCKING] = "the system call in which a thread blocks",
		[KERNEL_SOCKET] = "connections, retransmits, resets",
		[KERNEL_SOCKET_IO] = "bytes sent and received",
		[KERNEL_SYSCALL] = "every system call, with -e syscall",
	};
	struct kernel *kernel = kernel_open(&config);
	const struct kernel_missing *missing;
	size_t count;

	if (!kernel) {
		checkup_add(checkup, "kernel", "probes", CHECKUP_MISSING, NULL, "%s",
			    strerror(errno));
		return;
	}
	count = kernel_missing(kernel, &missing);
	for (int probe = 0; probe < KERNEL_PROBES; probe++)
		if (kernel_enabled(kernel) & 1u << probe)
			checkup_add(checkup, "kernel", kernel_probe_name((enum kernel_probe)probe),
				    CHECKUP_OK, NULL, "%s", shows[probe]);
	for (size_t i = 0; i < count; i++)
		checkup_add(checkup, "kernel", kernel_probe_name(missing[i].probe), CHECKUP_MISSING,
			    missing[i].fix, "%s", missing[i].why);
	kernel_close(kernel);
}

/* ---- The VMs of this host ---- */

void checkup_vm_text(pid_t pid, char text[static CHECKUP_VM_BYTES])
{
	struct passwd entry, *user = NULL;
	struct target target;
	struct fault fault;
	struct node *node = calloc(1, sizeof(*node));
	char buffer[1024], uid[24];

	*text = 0;
	if (!node || target_open(&target, pid, false, &fault)) {
		free(node);
		return;
	}
	node_find(&target, 0, node, &fault);
	getpwuid_r(target.uid, &entry, buffer, sizeof(buffer), &user);
	snprintf(uid, sizeof(uid), "%u", target.uid);
	snprintf(text, CHECKUP_VM_BYTES, "%.200s, OTP %s, user %.60s%s%s",
		 *node->name		? node->name
		 : node->endpoint_count ? "a node whose name is not known"
					: "no distribution",
		 *target.otp_release ? target.otp_release : "?", user ? user->pw_name : uid,
		 target.same_root ? "" : ", in a container or another root",
		 target.other_netns ? ", in a network namespace of its own" : "");
	target_close(&target);
	free(node);
}
