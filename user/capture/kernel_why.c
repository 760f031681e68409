/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CAP_SYS_ADMIN_BIT 21
#define CAP_PERFMON_BIT	  38
#define CAP_BPF_BIT	  39

static _Thread_local char last_words[160];

/* Warnings only: the last one names the cause, what goes before is a verifier's log. */
static int words_keep(enum libbpf_print_level level, const char *format, va_list args)
{
	char line[512];
	const char *text = line;
	size_t bytes;

	if (level != LIBBPF_WARN)
		return 0;
	vsnprintf(line, sizeof(line), format, args);
	if (!strncmp(text, "libbpf: ", 8))
		text += 8;
	bytes = strcspn(text, "\n");
	/* "failed to load object" follows every cause and adds nothing */
	if (!bytes || strstr(text, "failed to load object") || strstr(text, "END PROG LOAD LOG"))
		return 0;
	snprintf(last_words, sizeof(last_words), "%.*s", (int)bytes, text);
	return 0;
}

void kernel_why_listen(void)
{
	last_words[0] = '\0';
	libbpf_set_print(words_keep);
}

void kernel_why_add(struct kernel *kernel, enum kernel_probe probe, const char *why,
		    const char *fix)
{
	struct kernel_missing *missing;

	if (kernel->missing_count == KERNEL_MISSING)
		return;
	missing = &kernel->missing[kernel->missing_count++];
	missing->probe = probe;
	snprintf(missing->why, sizeof(missing->why), "%s", why);
	snprintf(missing->fix, sizeof(missing->fix), "%s", fix);
}

static uint64_t capabilities_read(void)
{
	unsigned long long bits = 0;
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &bits) == 1)
			break;
	fclose(file);
	return bits;
}

/* Capabilities that are missing: CAP_SYS_ADMIN holds both of the others. */
static const char *capabilities_missing(void)
{
	uint64_t bits = capabilities_read();

	if (bits & 1ull << CAP_SYS_ADMIN_BIT)
		return NULL;
	if (!(bits & (1ull << CAP_BPF_BIT | 1ull << CAP_PERFMON_BIT)))
		return "CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN) are missing";
	if (!(bits & 1ull << CAP_BPF_BIT))
		return "CAP_BPF (or CAP_SYS_ADMIN) is missing";
	if (!(bits & 1ull << CAP_PERFMON_BIT))
		return "CAP_PERFMON (or CAP_SYS_ADMIN) is missing";
	return NULL;
}

static bool lockdown_on(void)
{
	char text[128] = "";
	FILE *file = fopen("/sys/kernel/security/lockdown", "re");

	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return strstr(text, "[confidentiality]");
}

/* PROC_PID_INIT_INO of include/linux/proc_ns.h: the initial pid namespace, on every kernel. */
#define PID_NAMESPACE_INITIAL 0xeffffffcu

static bool pid_namespace_own(void)
{
	struct stat status;

	return !stat("/proc/self/ns/pid", &status) && status.st_ino != PID_NAMESPACE_INITIAL;
}

static void release_read(char *release, size_t bytes)
{
	struct utsname name;

	snprintf(release, bytes, "%s", uname(&name) ? "?" : name.release);
}

bool kernel_why_host(const struct btf *btf, char *why, char *fix)
{
	const char *capabilities = capabilities_missing();
	char release[65];

	fix[0] = '\0';
	if (capabilities) {
		snprintf(why, WHY_BYTES, "%s", capabilities);
		snprintf(fix, WHY_BYTES,
			 "run as root, or: setcap cap_bpf,cap_perfmon+ep beamweave");
		return true;
	}
	if (pid_namespace_own()) {
		snprintf(why, WHY_BYTES,
			 "beamweave runs in a pid namespace of its own, where the "
			 "kernel's thread numbers mean nothing");
		snprintf(fix, WHY_BYTES,
			 "run it in the host's: docker run --pid=host, hostPID: true, or "
			 "nsenter -t 1 -p");
		return true;
	}
	if (!btf) {
		release_read(release, sizeof(release));
		snprintf(why, WHY_BYTES,
			 "kernel %.40s has no type information: /sys/kernel/btf/vmlinux", release);
		snprintf(fix, WHY_BYTES, "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y");
		return true;
	}
	return false;
}

void kernel_why_words(const char *what, int error, char *why, char *fix)
{
	const char *mend = "", *cause = last_words[0] ? last_words : strerror(-error);

	if (error == -EPERM && lockdown_on()) {
		cause = "kernel lockdown in confidentiality mode";
		mend = "boot without lockdown=confidentiality";
	} else if (error == -EPERM || error == -EACCES) {
		cause = last_words[0] ? last_words : "the kernel refuses bpf() to this process";
		mend = "run outside of the container or its seccomp profile";
	} else if (error == -ENOMEM) {
		cause = "no memory for the rings";
		mend = "a smaller --buffer-size";
	} else if (error == -ENOSYS) {
		cause = "the kernel has no bpf()";
		mend = "boot a kernel built with CONFIG_BPF_SYSCALL=y";
	}
	snprintf(why, WHY_BYTES, "%.60s: %.96s", what, cause);
	snprintf(fix, WHY_BYTES, "%s", mend);
}

void kernel_why_error(struct kernel *kernel, enum kernel_probe probe, const char *what, int error)
{
	char why[WHY_BYTES], fix[WHY_BYTES];

	kernel_why_words(what, error, why, fix);
	kernel_why_add(kernel, probe, why, fix);
}

void kernel_why_tracepoint(struct kernel *kernel, enum kernel_probe probe, const char *tracepoint,
			   const char *since)
{
	char release[65], why[WHY_BYTES], fix[WHY_BYTES] = "";

	release_read(release, sizeof(release));
	snprintf(why, sizeof(why), "kernel %.40s has no tracepoint %s", release, tracepoint);
	if (since)
		snprintf(fix, sizeof(fix), "boot a kernel from %s on", since);
	kernel_why_add(kernel, probe, why, fix);
}
