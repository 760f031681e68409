/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

#define DESCENDANTS_MAX 4096

static void child_run(int go_fd, int error_fd, char **arguments, const sigset_t *mask)
{
	char go;
	int error;

	/* Our end without a word: nothing was started. */
	if (read(go_fd, &go, 1) != 1)
		_exit(127);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(arguments[0], arguments);
	error = errno;
	if (write(error_fd, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

int command_prepare(struct command *command, char **arguments, const sigset_t *mask,
		    struct fault *fault)
{
	int go[2] = {-1, -1}, failed[2] = {-1, -1};
	int error;

	memset(command, 0, sizeof(*command));
	if (pipe2(go, O_CLOEXEC) || pipe2(failed, O_CLOEXEC)) {
		error = -errno;
		goto out;
	}
	command->pid = fork();
	if (command->pid < 0) {
		error = -errno;
		command->pid = 0;
		goto out;
	}
	if (!command->pid) {
		close(go[1]);
		close(failed[0]);
		child_run(go[0], failed[1], arguments, mask);
	}
	close(go[0]);
	close(failed[1]);
	command->go_fd = go[1];
	command->error_fd = failed[0];
	return 0;
out:
	for (int i = 0; i < 2; i++) {
		if (go[i] >= 0)
			close(go[i]);
		if (failed[i] >= 0)
			close(failed[i]);
	}
	return fault_set(fault, error, NULL, "cannot make a process: %s", strerror(-error));
}

int command_go(struct command *command, char **arguments, struct fault *fault)
{
	int error = 0;

	if (write(command->go_fd, "g", 1) != 1)
		error = -errno;
	close(command->go_fd);
	command->go_fd = -1;
	/* exec closes it; until then this waits */
	if (!error && read(command->error_fd, &error, sizeof(error)) == sizeof(error))
		error = -error;
	close(command->error_fd);
	if (!error)
		return 0;
	command_wait(command);
	return fault_set(fault, error, NULL, "cannot run %.300s: %s", arguments[0],
			 strerror(-error));
}

bool command_ended(struct command *command)
{
	if (command->pid && !command->ended &&
	    waitpid(command->pid, &command->status, WNOHANG) == command->pid)
		command->ended = true;
	return command->ended;
}

void command_wait(struct command *command)
{
	if (command->pid && command->go_fd >= 0) {
		close(command->go_fd);
		close(command->error_fd);
		command->go_fd = -1;
	}
	while (command->pid && !command->ended) {
		if (waitpid(command->pid, &command->status, 0) == command->pid)
			command->ended = true;
		else if (errno != EINTR)
			break;
	}
}

int command_exit_status(const struct command *command)
{
	if (!command->ended)
		return 0;
	if (WIFSIGNALED(command->status))
		return 128 + WTERMSIG(command->status);
	return WEXITSTATUS(command->status);
}

/* Children of `pid`, appended. */
static size_t children_add(pid_t pid, pid_t *pids, size_t count)
{
	struct dirent *entry;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	if (!folder)
		return count;
	while ((entry = readdir(folder))) {
		char *text, *at, *end;

		if (atoi(entry->d_name) <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, atoi(entry->d_name));
		text = text_read(path, 1 << 20, NULL);
		for (at = text; at && count < DESCENDANTS_MAX; at = end) {
			pid_t child = (pid_t)strtol(at, &end, 10);

			if (end == at)
				break;
			pids[count++] = child;
		}
		free(text);
	}
	closedir(folder);
	return count;
}

pid_t command_find_vm(const struct command *command)
{
	pid_t *pids = calloc(DESCENDANTS_MAX, sizeof(*pids));
	size_t count = 1;
	pid_t found = 0;

	if (!pids)
		return 0;
	pids[0] = command->pid;
	for (size_t i = 0; i < count && !found; i++) {
		if (target_is_vm(pids[i]))
			found = pids[i];
		else
			count = children_add(pids[i], pids, count);
	}
	free(pids);
	return found;
}
