/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file's first line without what surrounds it. */
static int cookie_read(int fd, struct node_cookie *cookie)
{
	ssize_t bytes = read(fd, cookie->text, sizeof(cookie->text) - 1);
	size_t start = 0, end = 0;

	if (bytes < 0)
		return -errno;
	cookie->text[bytes] = 0;
	while (isspace((unsigned char)cookie->text[start]))
		start++;
	end = start + strcspn(cookie->text + start, "\r\n");
	while (end > start && isspace((unsigned char)cookie->text[end - 1]))
		end--;
	memmove(cookie->text, cookie->text + start, end - start);
	cookie->text[end - start] = 0;
	if (end == start)
		return -ENODATA;
	/* ei takes a cookie of at most 511 bytes */
	return bytes == (ssize_t)sizeof(cookie->text) - 1 ? -E2BIG : 0;
}

/*
 * The cookie below a home that the target names. Another user's process must not make us read
 * what it could not read itself: the file has to be that user's own.
 */
static int cookie_of_home(const struct target *target, const char *home, struct node_cookie *cookie)
{
	char path[PATH_MAX];
	struct stat status;
	int error, fd;

	if (*home != '/' || strlen(home) + 32 > sizeof(path))
		return -EINVAL;
	for (int place = 0; place < 2; place++) {
		snprintf(path, sizeof(path), "%s/%s", home,
			 place ? ".config/erlang/.erlang.cookie" : ".erlang.cookie");
		fd = target_file_open(target, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fd;
		if (fstat(fd, &status) || !S_ISREG(status.st_mode))
			error = -EINVAL;
		else if (status.st_uid != target->uid && geteuid() != target->uid)
			error = -EPERM;
		else
			error = cookie_read(fd, cookie);
		close(fd);
		snprintf(cookie->from, sizeof(cookie->from), "%.255s", path);
		return error;
	}
	return -ENOENT;
}

/* The home of the target's user, by its own passwd file: no name service is asked. */
static int home_of_user(const struct target *target, char home[PATH_MAX])
{
	int fd = target_file_open(target, "/etc/passwd", O_RDONLY | O_NONBLOCK, 0);
	FILE *passwd = fd < 0 ? fopen("/etc/passwd", "re") : fdopen(fd, "r");
	struct passwd *user;
	int error = -ENOENT;

	if (!passwd) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while ((user = fgetpwent(passwd))) {
		if (user->pw_uid == target->uid && *user->pw_dir == '/') {
			snprintf(home, PATH_MAX, "%s", user->pw_dir);
			error = 0;
			break;
		}
	}
	fclose(passwd);
	return error;
}

static int cookie_of_file(const char *file, struct node_cookie *cookie, struct fault *fault)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int error = fd < 0 ? -errno : cookie_read(fd, cookie);

	if (fd >= 0)
		close(fd);
	snprintf(cookie->from, sizeof(cookie->from), "%.255s", file);
	if (error)
		return fault_set(fault, error, NULL, "cannot read a cookie from %.300s: %s", file,
				 error == -ENODATA ? "it is empty" : strerror(-error));
	return 0;
}

int node_cookie(const struct target *target, const char *file, struct node_cookie *cookie,
		struct fault *fault)
{
	const char *argument, *home;
	char user_home[PATH_MAX];
	int error = -ENOENT;

	memset(cookie, 0, sizeof(*cookie));
	if (file)
		return cookie_of_file(file, cookie, fault);
	argument = target_argument(target, "-setcookie");
	if (argument) {
		/* `-setcookie Node Cookie` is for one other node only. */
		const char *second = argument + strlen(argument) + 1;
		bool pair = second < target->command_line + target->command_line_bytes &&
			    *second != '-' && *second && strchr(argument, '@');

		if (!pair && strlen(argument) < sizeof(cookie->text)) {
			snprintf(cookie->text, sizeof(cookie->text), "%s", argument);
			snprintf(cookie->from, sizeof(cookie->from), "the VM's command line");
			return 0;
		}
	}
	home = target_variable(target, "HOME");
	if (!home)
		home = target_argument(target, "-home");
	if (home)
		error = cookie_of_home(target, home, cookie);
	if (error && !home_of_user(target, user_home) && (!home || strcmp(home, user_home))) {
		int second = cookie_of_home(target, user_home, cookie);

		if (!second || error == -ENOENT)
			error = second;
	}
	if (!error)
		return 0;
	fault_set(fault, error, "give the cookie in a file: --cookie-file FILE",
		  "no cookie of the VM could be read (%s%s%s): %s", home ? home : "its home",
		  home ? "/" : "", home ? ".erlang.cookie" : "",
		  error == -EPERM ? "the file belongs to another user" : strerror(-error));
	return error;
}
