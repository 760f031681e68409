// SPDX-License-Identifier: Apache-2.0
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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
	if (place->fd >= 0)
		return 0;
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
}

void place_remove(struct place *place)
{
	place_unlink(place);
	place_close(place);
}
