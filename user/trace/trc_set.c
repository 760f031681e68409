/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a wrapped set of dbg: Name0Suffix, Name1Suffix, ... One number of those that are in use
 * is always missing: the next file to be written, which is made empty first. The oldest file follows
 * it (wrap_sort/2 of OTP's lib/runtime_tools/src/dbg.erl).
 */
#include "trc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS_MAX  9
#define MEMBERS_MAX 65536u
/* Members that are named to the user, the rest is counted. */
#define NAMED_MAX 8u

struct set {
	const char *folder; /* with the final slash, not terminated */
	int folder_bytes;
	const char *name; /* the given file's, without the folder */
	size_t prefix_bytes;
	const char *suffix;
	uint32_t *numbers; /* of the members, ascending */
	uint32_t count, capacity;
};

/* The number between the prefix and the suffix; UINT32_MAX: it is no member. */
static uint32_t member_number(const struct set *set, const char *name)
{
	size_t bytes = strlen(name), suffix = strlen(set->suffix), digits;
	uint32_t number = 0;

	if (bytes <= set->prefix_bytes + suffix ||
	    strncmp(name, set->name, set->prefix_bytes) != 0 ||
	    strcmp(name + bytes - suffix, set->suffix) != 0)
		return UINT32_MAX;
	digits = bytes - set->prefix_bytes - suffix;
	name += set->prefix_bytes;
	if (digits > DIGITS_MAX || (*name == '0' && digits > 1) ||
	    strspn(name, "0123456789") < digits)
		return UINT32_MAX;
	while (digits--)
		number = number * 10 + (uint32_t)(*name++ - '0');
	return number;
}

static int number_add(struct set *set, uint32_t number)
{
	if (set->count == MEMBERS_MAX)
		return -E2BIG;
	if (set->count == set->capacity) {
		uint32_t capacity = set->capacity ? set->capacity * 2 : 16;
		uint32_t *numbers = realloc(set->numbers, capacity * sizeof(*numbers));

		if (!numbers)
			return -ENOMEM;
		set->numbers = numbers;
		set->capacity = capacity;
	}
	set->numbers[set->count++] = number;
	return 0;
}

static int number_compare(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return a < b ? -1 : a > b;
}

static int members_find(struct set *set)
{
	char folder[4096];
	const struct dirent *entry;
	int error = 0;
	DIR *directory;

	snprintf(folder, sizeof(folder), "%.*s", set->folder_bytes, set->folder);
	set->count = 0;
	directory = opendir(*folder ? folder : ".");
	if (!directory)
		return 0; /* it may be read without being listed */
	while (!error && (entry = readdir(directory))) {
		uint32_t number = member_number(set, entry->d_name);

		if (number != UINT32_MAX)
			error = number_add(set, number);
	}
	closedir(directory);
	if (set->count)
		qsort(set->numbers, set->count, sizeof(*set->numbers), number_compare);
	return error;
}

/*
 * Where the oldest stands among the ascending numbers, -1 when they are no wrapped set: that has all
 * numbers from 0 on but one.
 */
static int64_t oldest_find(const struct set *set)
{
	uint32_t gap = 0, gaps = 0;

	if (!set->count || set->numbers[0] > 1)
		return -1;
	for (uint32_t i = 1; i < set->count; i++) {
		if (set->numbers[i] == set->numbers[i - 1] + 1)
			continue;
		if (set->numbers[i] != set->numbers[i - 1] + 2)
			return -1;
		gap = i;
		gaps++;
	}
	if (gaps + set->numbers[0] > 1)
		return -1;
	return gap;
}

static int member_path(const struct set *set, uint32_t number, char *path, size_t size)
{
	int bytes = snprintf(path, size, "%.*s%.*s%u%s", set->folder_bytes, set->folder,
			     (int)set->prefix_bytes, set->name, number, set->suffix);

	return bytes < 0 || (size_t)bytes >= size ? -ENAMETOOLONG : 0;
}

/* Returns a descriptor of a member, or -errno; -EINVAL: what is there is something else. */
static int member_open(const struct set *set, uint32_t number)
{
	uint8_t begin[TRC_BEGIN_BYTES];
	struct stat status;
	char path[4096];
	ssize_t bytes;
	int fd = member_path(set, number, path, sizeof(path));

	if (fd)
		return fd;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		goto other;
	bytes = pread(fd, begin, sizeof(begin), 0);
	if (bytes > 0 && !trc_begins(begin, (size_t)bytes))
		goto other;
	return fd;
other:
	close(fd);
	return -EINVAL;
}

static char *note_make(const struct set *set, int64_t oldest)
{
	size_t size = 256 + strlen(set->name) * 2, at = 0;
	char *note = malloc(size);

	if (!note)
		return NULL;
	at = (size_t)snprintf(note, size, "%.*sN%s is a wrapped set of %u files, read in the order",
			      (int)set->prefix_bytes, set->name, set->suffix, set->count);
	for (uint32_t i = 0; i < set->count && i < NAMED_MAX && at < size; i++)
		at += (size_t)snprintf(note + at, size - at, " %u",
				       set->numbers[((uint64_t)oldest + i) % set->count]);
	if (set->count > NAMED_MAX && at < size)
		snprintf(note + at, size - at, " ... (%u more)", set->count - NAMED_MAX);
	return note;
}

/* Add all members. Returns 1, 0 when they are no set after all, or -errno. */
static int members_add(struct trc *trc, const struct set *set, int64_t oldest, int first)
{
	uint32_t given = member_number(set, set->name);
	size_t before = trc->count;

	for (uint32_t i = 0; i < set->count; i++) {
		uint32_t number = set->numbers[((uint64_t)oldest + i) % set->count];
		int fd = number == given ? dup(first) : member_open(set, number);
		int error = fd < 0 ? fd : trc_add_file(trc, fd);

		if (fd < 0 && number == given)
			error = -errno;
		if (!error)
			continue;
		while (trc->count > before)
			close(trc->parts[--trc->count].fd);
		return error == -EINVAL || error == -ENOENT ? 0 : error;
	}
	return 1;
}

int trc_add_set(struct trc *trc, const char *path, int first, char **note)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	struct set set = {.folder = path, .folder_bytes = (int)(name - path), .name = name};
	int done = 0;

	/* The suffix may have digits too: the last run of them that makes a set is the number. */
	for (size_t end = strlen(name); end && !done; end--) {
		size_t from = end;
		int64_t oldest;

		if (name[end - 1] < '0' || name[end - 1] > '9')
			continue;
		while (from && name[from - 1] >= '0' && name[from - 1] <= '9')
			from--;
		set.prefix_bytes = from;
		set.suffix = name + end;
		done = members_find(&set);
		if (done)
			break;
		oldest = set.count > 1 ? oldest_find(&set) : -1;
		if (oldest >= 0)
			done = members_add(trc, &set, oldest, first);
		if (done > 0)
			*note = note_make(&set, oldest);
		end = from + 1;
	}
	free(set.numbers);
	if (done) {
		close(first);
		return done < 0 ? done : 0;
	}
	return trc_add_file(trc, first);
}
