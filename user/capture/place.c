/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The nth directory to try, NULL behind the last. `home` may be NULL. */
static const char *directory_nth(enum place_kind kind, uint32_t without, const char *home,
				 unsigned int nth)
{
	/* Memory first for a session; for a library, where programs may be mapped. */
	const char *session[] = {"/dev/shm", "/tmp", "/var/tmp"};
	const char *library[] = {"/tmp", "/var/tmp", home ? home : "/dev/shm", "/dev/shm"};

	if (kind == PLACE_SESSION) {
		nth += without & WITHOUT_DEVSHM ? 1 : 0;
		return nth < 3 ? session[nth] : NULL;
	}
	return nth < (home ? 4u : 3u) ? library[nth] : NULL;
}

/* In the keeper: wait for a word that all is done, or for the end of whoever could have said it. */
static void keeper_run(int fd, int directory_fd, const char *name)
{
	char done;
	ssize_t got;

	/* Away from the numbers that they get below, whatever we were started with. */
	fd = fcntl(fd, F_DUPFD, 10);
	directory_fd = fcntl(directory_fd, F_DUPFD, 10);
	if (fd < 0 || directory_fd < 0 || dup2(fd, 0) < 0 || dup2(directory_fd, 1) < 0)
		_exit(1);
	/* Nothing else of ours is kept open by it: no probe, no recording, no pipe. */
	if (syscall(SYS_close_range, 2, ~0u, 0))
		for (int other = 2; other < 1024; other++)
			close(other);
	/* Whoever kills our process group does not mean the clean-up. */
	setsid();
	do
		got = read(0, &done, 1);
	while (got < 0 && errno == EINTR);
	if (got != 1)
		unlinkat(1, name, 0);
	_exit(0);
}

/* It is best effort: without it a kill at the wrong moment leaves the file. */
static void keeper_start(struct place *place)
{
	sigset_t all, before;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return;
	/* Ctrl-C is for us: the keeper has to outlive us. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	place->keeper = fork();
	if (!place->keeper) {
		close(ends[1]);
		keeper_run(ends[0], place->directory_fd, place->name);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[0]);
	if (place->keeper > 0) {
		place->keeper_fd = ends[1];
	} else {
		place->keeper = 0;
		close(ends[1]);
	}
}

/* The file has no name any more, or is not ours to remove. */
static void keeper_end(struct place *place)
{
	if (place->keeper_fd < 0)
		return;
	/* SIGPIPE does no harm: a keeper that was killed needs no word. */
	if (write(place->keeper_fd, "d", 1) == 1 || errno == EPIPE)
		close(place->keeper_fd);
	place->keeper_fd = -1;
	while (waitpid(place->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	place->keeper = 0;
}

static int place_try(struct place *place, const struct target *target, enum place_kind kind,
		     const char *directory, struct fault *fault)
{
	struct statvfs file_system;
	uint32_t mark = 0;
	int error;

	*place = PLACE_NONE;
	if (getrandom(&mark, sizeof(mark), GRND_NONBLOCK) != sizeof(mark))
		mark = (uint32_t)getpid();
	snprintf(place->name, sizeof(place->name), "beamweave-%d-%08x%s", target->ns_pid, mark,
		 kind == PLACE_LIBRARY ? ".so" : "");
	snprintf(place->path, sizeof(place->path), "%.*s/%s", PATH_MAX - NAME_MAX - 2, directory,
		 place->name);
	place->directory_fd = target_file_open(target, directory, O_PATH | O_DIRECTORY, 0);
	if (place->directory_fd < 0) {
		error = place->directory_fd;
		place->directory_fd = -1;
		goto failed;
	}
	if (kind == PLACE_LIBRARY && !fstatvfs(place->directory_fd, &file_system) &&
	    (file_system.f_flag & ST_NOEXEC)) {
		place_close(place);
		return fault_set(fault, -EPERM, NULL, "the VM's %.200s is mounted noexec",
				 directory);
	}
	place->fd = openat(place->directory_fd, place->name,
			   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (place->fd >= 0) {
		keeper_start(place);
		return 0;
	}
	error = -errno;
failed:
	place_close(place);
	return fault_set(fault, error, error == -EACCES ? "run as root or as the VM's user" : NULL,
			 "cannot create a file in the VM's %.200s: %s", directory,
			 strerror(-error));
}

int place_create(struct place *place, const struct target *target, enum place_kind kind,
		 uint32_t without, unsigned int *nth, struct fault *fault)
{
	const char *home = target_variable(target, "HOME");
	const char *directory;
	int error = -ENOENT;

	while ((directory = directory_nth(kind, without, home, *nth))) {
		++*nth;
		error = place_try(place, target, kind, directory, fault);
		if (!error)
			break;
	}
	return error;
}

int place_give(const struct place *place, const struct target *target, mode_t mode)
{
	if (target->uid != geteuid() && fchown(place->fd, target->uid, target->gid))
		return -errno;
	return fchmod(place->fd, mode) ? -errno : 0;
}

int place_open(struct place *place, const char *path, struct fault *fault)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX] = ".";
	struct stat status;
	int error;

	*place = PLACE_NONE;
	if (strlen(path) >= sizeof(place->path) ||
	    strlen(slash ? slash + 1 : path) >= sizeof(place->name))
		return fault_set(fault, -ENAMETOOLONG, NULL, "the name of the session is too long");
	snprintf(place->path, sizeof(place->path), "%s", path);
	snprintf(place->name, sizeof(place->name), "%s", slash ? slash + 1 : path);
	if (slash)
		snprintf(directory, sizeof(directory), "%.*s",
			 slash == path ? 1 : (int)(slash - path), path);
	place->directory_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place->directory_fd >= 0)
		place->fd = openat(place->directory_fd, place->name,
				   O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (place->fd < 0) {
		error = -errno;
		fault_set(fault, error,
			  "give the path that beamweave:start/1 returned; it is gone when that "
			  "session has ended",
			  "cannot open the session %.300s: %s", path, strerror(-error));
	} else if (fstat(place->fd, &status) || !S_ISREG(status.st_mode)) {
		error = fault_set(fault, -EINVAL, NULL, "%.300s is no session of beamweave", path);
	} else {
		return 0;
	}
	place_close(place);
	return error;
}

void place_close(struct place *place)
{
	keeper_end(place);
	if (place->fd >= 0)
		close(place->fd);
	if (place->directory_fd >= 0)
		close(place->directory_fd);
	*place = PLACE_NONE;
}

void place_unlink(struct place *place)
{
	if (place->directory_fd < 0)
		return;
	unlinkat(place->directory_fd, place->name, 0);
	close(place->directory_fd);
	place->directory_fd = -1;
	keeper_end(place);
}

void place_remove(struct place *place)
{
	place_unlink(place);
	place_close(place);
}
