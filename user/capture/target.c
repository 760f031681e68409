/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND_LINE_MAX (4u << 20)
#define THREADS_MAX	 65536

char *text_read(const char *path, size_t max, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t room = 4096, used = 0;
	char *text = NULL, *larger;
	ssize_t got = 0;

	if (fd < 0)
		return NULL;
	for (;;) {
		if (!text || used + 1 == room) {
			room = text ? room * 2 : room;
			larger = realloc(text, room);
			if (!larger)
				goto failed;
			text = larger;
		}
		got = read(fd, text + used, room - used - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
		if (used > max) {
			errno = EFBIG;
			goto failed;
		}
	}
	if (got < 0)
		goto failed;
	close(fd);
	text[used] = 0;
	if (bytes)
		*bytes = used;
	return text;
failed:
	free(text);
	close(fd);
	return NULL;
}

__attribute__((format(printf, 3, 4))) static char *proc_read(pid_t pid, size_t *bytes,
							     const char *name, ...)
{
	char path[PATH_MAX], inner[256];
	va_list arguments;

	va_start(arguments, name);
	vsnprintf(inner, sizeof(inner), name, arguments);
	va_end(arguments);
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, inner);
	return text_read(path, COMMAND_LINE_MAX, bytes);
}

/* The line of a status file that begins with `key`, behind the key. */
static const char *status_line(const char *status, const char *key)
{
	size_t bytes = strlen(key);

	while (status) {
		if (!strncmp(status, key, bytes) && status[bytes] == ':')
			return status + bytes + 1;
		status = strchr(status, '\n');
		if (status)
			status++;
	}
	return NULL;
}

/* The last number of the NSpid line: the innermost namespace's. */
static pid_t status_ns_pid(const char *status, pid_t fallback)
{
	const char *line = status_line(status, "NSpid");
	pid_t pid = fallback;
	char *end;

	while (line && *line && *line != '\n') {
		long value = strtol(line, &end, 10);

		if (end == line)
			break;
		pid = (pid_t)value;
		line = end;
	}
	return pid;
}

static bool name_is_vm(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	if (strncmp(name, "beam", 4))
		return false;
	name += 4;
	/* beam.smp, beam.debug.smp, beam.smp (deleted) after an upgrade */
	return !*name || *name == '.' || *name == ' ';
}

static int exe_read(pid_t pid, char path[PATH_MAX])
{
	char link[64];
	ssize_t bytes;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	bytes = readlink(link, path, PATH_MAX - 1);
	if (bytes < 0)
		return -errno;
	path[bytes] = 0;
	return 0;
}

bool target_is_vm(pid_t pid)
{
	char path[PATH_MAX];
	char *arguments;
	bool vm;

	if (!exe_read(pid, path))
		return name_is_vm(path);
	/* Another user's process: its command line may be read, its executable not. */
	arguments = proc_read(pid, NULL, "cmdline");
	vm = arguments && name_is_vm(arguments);
	free(arguments);
	return vm;
}

static bool same_namespace(pid_t pid, const char *name)
{
	struct stat ours, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
	if (stat(path, &its))
		return true;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	if (stat(path, &ours))
		return true;
	return ours.st_ino == its.st_ino && ours.st_dev == its.st_dev;
}

/* Field 22 of stat, counted behind the name in parentheses, which may hold anything. */
static uint64_t start_ticks_read(pid_t pid)
{
	char *stat_text = proc_read(pid, NULL, "stat");
	char *at = stat_text ? strrchr(stat_text, ')') : NULL;
	uint64_t ticks = 0;

	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoull(at + 1, NULL, 10);
	free(stat_text);
	return ticks;
}

/* The release that stands in ROOT/releases/start_erl.data: "14.2 25". */
static void otp_release_read(struct target *target)
{
	const char *root = target_argument(target, "-root");
	char path[PATH_MAX], text[256], erts[64], release[64];
	ssize_t bytes;
	int fd;

	if (!root)
		return;
	snprintf(path, sizeof(path), "%s/releases/start_erl.data", root);
	fd = target_file_open(target, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return;
	text[bytes] = 0;
	/* In a release that somebody made the second word is that release's version. */
	if (sscanf(text, "%63s %63s", erts, release) == 2 && strlen(release) < 3)
		snprintf(target->otp_release, sizeof(target->otp_release), "%.15s", release);
}

int target_open(struct target *target, pid_t pid, bool use_pidfd, struct fault *fault)
{
	char path[PATH_MAX] = "", root[64];
	struct stat ours, its;
	char *status = NULL;
	const char *line;
	int error;

	memset(target, 0, sizeof(*target));
	target->pid = pid;
	target->pidfd = -1;
	target->root_fd = -1;

	errno = 0;
	status = proc_read(pid, NULL, "status");
	if (!status && errno != ENOENT && errno != ESRCH) {
		error = fault_set(fault, errno ? -errno : -EIO, NULL,
				  "cannot look at process %d: %s", pid,
				  strerror(errno ? errno : EIO));
		goto failed;
	}
	line = status ? status_line(status, "State") : NULL;
	/* A number of a thread opens as well; a dead child that nobody waited for has no memory. */
	if (!line || strchr(line, '\n') == NULL || status_line(status, "VmSize") == NULL) {
		bool kernel = line && !strchr(line, 'Z') && !strchr(line, 'X');

		error = kernel ? fault_set(fault, -ENOEXEC, NULL,
					   "process %d is no Erlang VM: it is a kernel thread", pid)
			       : fault_set(fault, -ESRCH, NULL, "there is no process %d", pid);
		goto failed;
	}
	line = status_line(status, "Tgid");
	if (line && atoi(line) != pid) {
		error = fault_set(fault, -ENOEXEC, NULL, "%d is a thread of process %d", pid,
				  atoi(line));
		fault_fix(fault, "give -p %d", atoi(line));
		goto failed;
	}
	if (!target_is_vm(pid)) {
		if (exe_read(pid, path))
			snprintf(path, sizeof(path), "another user's program");
		error = fault_set(fault, -ENOEXEC,
				  "give the process id of a beam.smp: pgrep -a beam",
				  "process %d is no Erlang VM: it runs %.300s", pid, path);
		goto failed;
	}
	/* The effective ids, which file permissions are checked with, are the second numbers. */
	line = status_line(status, "Uid");
	if (line && sscanf(line, "%*u %u", &target->uid) != 1)
		target->uid = 0;
	line = status_line(status, "Gid");
	if (line && sscanf(line, "%*u %u", &target->gid) != 1)
		target->gid = 0;
	target->ns_pid = status_ns_pid(status, pid);
	target->start_ticks = start_ticks_read(pid);

	if (use_pidfd)
		target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	target->root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	target->same_root = target->root_fd >= 0 && !fstat(target->root_fd, &its) &&
			    !stat("/", &ours) && its.st_dev == ours.st_dev &&
			    its.st_ino == ours.st_ino && same_namespace(pid, "mnt");
	target->other_netns = !same_namespace(pid, "net");
	target->command_line = proc_read(pid, &target->command_line_bytes, "cmdline");
	target->environment = proc_read(pid, &target->environment_bytes, "environ");
	otp_release_read(target);
	free(status);
	return 0;
failed:
	free(status);
	return error;
}

void target_close(struct target *target)
{
	if (target->pidfd >= 0)
		close(target->pidfd);
	if (target->root_fd >= 0)
		close(target->root_fd);
	if (target->environment)
		explicit_bzero(target->environment, target->environment_bytes);
	if (target->command_line)
		explicit_bzero(target->command_line, target->command_line_bytes);
	free(target->command_line);
	free(target->environment);
	memset(target, 0, sizeof(*target));
	target->pidfd = -1;
	target->root_fd = -1;
}

bool target_ended(const struct target *target)
{
	char *stat_text;
	const char *at;
	bool ended;

	if (target->pidfd >= 0)
		return syscall(SYS_pidfd_send_signal, target->pidfd, 0, NULL, 0) && errno == ESRCH;
	stat_text = proc_read(target->pid, NULL, "stat");
	at = stat_text ? strrchr(stat_text, ')') : NULL;
	ended = !at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X' ||
		start_ticks_read(target->pid) != target->start_ticks;
	free(stat_text);
	return ended;
}

/* The next of texts that are each ended by 0; NULL after the last. */
static const char *texts_next(const char *texts, size_t bytes, const char *at)
{
	const char *next = at ? at + strlen(at) + 1 : texts;

	return texts && next < texts + bytes ? next : NULL;
}

const char *target_argument(const struct target *target, const char *flag)
{
	const char *at = NULL, *value;
	bool plain = false;

	while ((at = texts_next(target->command_line, target->command_line_bytes, at))) {
		/* What stands behind is the program's own, whatever it looks like. */
		if (!strcmp(at, "-extra"))
			return NULL;
		if (!strcmp(at, "--")) {
			plain = true;
			continue;
		}
		if (!plain || strcmp(at, flag))
			continue;
		value = texts_next(target->command_line, target->command_line_bytes, at);
		if (value && *value != '-' && *value)
			return value;
	}
	return NULL;
}

const char *target_variable(const struct target *target, const char *name)
{
	size_t bytes = strlen(name);
	const char *at = NULL;

	while ((at = texts_next(target->environment, target->environment_bytes, at)))
		if (!strncmp(at, name, bytes) && at[bytes] == '=')
			return at + bytes + 1;
	return NULL;
}

int target_file_open(const struct target *target, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = flags & (O_CREAT | O_TMPFILE) ? mode : 0,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd;

	if (target->root_fd < 0)
		return -EACCES;
	fd = (int)syscall(SYS_openat2, target->root_fd, path, &how, sizeof(how));
	if (fd >= 0)
		return fd;
	/* Before Linux 5.6, or where a filter forbids it: only in our own root is that the same. */
	if ((errno == ENOSYS || errno == EPERM) && target->same_root && *path == '/') {
		fd = open(path, flags | O_CLOEXEC, mode);
		if (fd >= 0)
			return fd;
	}
	return -errno;
}

ssize_t target_threads(const struct target *target, struct chunk_task **tasks)
{
	size_t count = 0, room = 0;
	struct dirent *entry;
	char path[64];
	DIR *folder;

	*tasks = NULL;
	snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
	folder = opendir(path);
	if (!folder)
		return -errno;
	while (count < THREADS_MAX && (entry = readdir(folder))) {
		struct chunk_task *task;
		pid_t tid = atoi(entry->d_name);
		const char *name;
		char *status;

		if (tid <= 0)
			continue;
		status = proc_read(target->pid, NULL, "task/%d/status", tid);
		if (!status)
			continue;
		if (count == room) {
			struct chunk_task *larger;

			room = room ? room * 2 : 64;
			larger = realloc(*tasks, room * sizeof(**tasks));
			if (!larger) {
				free(status);
				closedir(folder);
				free(*tasks);
				*tasks = NULL;
				return -ENOMEM;
			}
			*tasks = larger;
		}
		task = &(*tasks)[count++];
		memset(task, 0, sizeof(*task));
		task->tid = tid;
		task->tgid = target->pid;
		task->ns_tid = status_ns_pid(status, tid);
		name = status_line(status, "Name");
		if (name)
			snprintf(task->comm, sizeof(task->comm), "%.*s",
				 (int)strcspn(name + 1, "\n"), name + 1);
		name = status_line(status, "State");
		if (name)
			task->state = (unsigned char)name[1 + strspn(name + 1, " \t")];
		free(status);
	}
	closedir(folder);
	return (ssize_t)count;
}

pid_t target_thread(const struct target *target, pid_t ns_tid)
{
	struct chunk_task *tasks;
	pid_t found = 0;
	ssize_t count;

	if (target->ns_pid == target->pid)
		return ns_tid;
	count = target_threads(target, &tasks);
	for (ssize_t i = 0; i < count && !found; i++)
		if (tasks[i].ns_tid == ns_tid)
			found = tasks[i].tid;
	free(tasks);
	return found;
}

size_t target_find_all(pid_t *pids, size_t max)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	size_t count = 0;

	if (!folder)
		return 0;
	while (count < max && (entry = readdir(folder))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && target_is_vm(pid))
			pids[count++] = pid;
	}
	closedir(folder);
	return count;
}

int target_network_enter(const struct target *target, struct fault *fault)
{
	char path[64];
	int error, fd;

	if (!target->other_netns)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", target->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	error = fd < 0 || setns(fd, CLONE_NEWNET) ? -errno : 0;
	if (fd >= 0)
		close(fd);
	if (error)
		return fault_set(fault, error, "run as root",
				 "cannot enter the VM's network namespace: %s", strerror(-error));
	return 0;
}
