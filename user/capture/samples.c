/* SPDX-License-Identifier: Apache-2.0 */
#include "samples.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "target.h"

#define TEXT_MAX 65536

/* ---- Groups ---- */

static bool list_has(const char *list, const char *word)
{
	size_t bytes = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += bytes)
		if ((at == list || at[-1] == ',') && (!at[bytes] || at[bytes] == ','))
			return true;
	return false;
}

/*
 * Where the hierarchy is mounted: a line of mountinfo is "ID PARENT DEVICE ROOT POINT OPTIONS [TAGS] -
 * TYPE SOURCE SUPER". Returns what /proc/PID/cgroup's paths are below, to be freed.
 */
static char *mount_find(bool v1, char root[PATH_MAX])
{
	char *text = text_read("/proc/self/mountinfo", 16 << 20, NULL), *line, *rest;
	char *found = NULL;

	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line && !found;
	     line = strtok_r(NULL, "\n", &rest)) {
		char point[PATH_MAX], type[64], super[4096];
		char *tail = strstr(line, " - ");

		if (!tail || sscanf(tail, " - %63s %*s %4095s", type, super) != 2 ||
		    sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) != 2)
			continue;
		if (v1 ? !strcmp(type, "cgroup") && list_has(super, "cpu")
		       : !strcmp(type, "cgroup2"))
			found = strdup(point);
	}
	free(text);
	return found;
}

static void group_add(struct samples *samples, const char *mount, const char *path, bool v1)
{
	struct samples_group *group = &samples->groups[samples->count];

	/* The root has no quota. */
	if (samples->count == SAMPLES_GROUPS || !*path)
		return;
	memset(group, 0, sizeof(*group));
	group->v1 = v1;
	group->quota_us = -1;
	if (asprintf(&group->folder, "%s%s", mount, path) < 0)
		return;
	group->path = strdup(path);
	if (!group->path || access(group->folder, R_OK)) {
		free(group->path);
		free(group->folder);
		return;
	}
	samples->count++;
}

/* The group itself and all above it: a quota of any of them stops the target. */
static void groups_add(struct samples *samples, char *path, bool v1)
{
	char root[PATH_MAX];
	char *mount = mount_find(v1, root);
	char *slash;

	if (!mount)
		return;
	/* In a container the mount begins inside the hierarchy. */
	if (strcmp(root, "/") && !strncmp(path, root, strlen(root)))
		path += strlen(root);
	if (!strcmp(path, "/"))
		*path = 0;
	if (!strstr(path, "/..")) {
		for (;;) {
			group_add(samples, mount, path, v1);
			slash = strrchr(path, '/');
			if (!slash)
				break;
			*slash = 0;
		}
	}
	free(mount);
}

void samples_open(struct samples *samples, pid_t pid)
{
	char path[64];
	char *text, *line, *rest;

	memset(samples, 0, sizeof(*samples));
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	text = text_read(path, TEXT_MAX, NULL);
	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *controllers = strchr(line, ':'), *group;

		group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*group++ = 0;
		controllers++;
		if (!*controllers || list_has(controllers, "cpu"))
			groups_add(samples, group, *controllers != 0);
	}
	free(text);
}

void samples_close(struct samples *samples)
{
	for (size_t i = 0; i < samples->count; i++) {
		free(samples->groups[i].path);
		free(samples->groups[i].folder);
	}
	samples->count = 0;
}

/* ---- Reading ---- */

static char *group_text(const struct samples_group *group, const char *file)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", group->folder, file) >= (int)sizeof(path))
		return NULL;
	return text_read(path, TEXT_MAX, NULL);
}

static uint64_t line_number(const char *text, const char *key)
{
	size_t bytes = strlen(key);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (!strncmp(text, key, bytes) && text[bytes] == ' ')
			return strtoull(text + bytes + 1, NULL, 10);
	}
	return 0;
}

static void quota_read(struct samples_group *group)
{
	char *text = group_text(group, group->v1 ? "cpu.cfs_quota_us" : "cpu.max"), *end;

	group->quota_us = -1;
	group->period_us = 0;
	if (text) {
		/* v2: "max 100000" or "50000 100000"; v1: -1 or a number */
		int64_t quota = strtoll(text, &end, 10);

		if (end != text && quota > 0)
			group->quota_us = quota;
		if (!group->v1)
			group->period_us = strtoull(end + strspn(end, "max "), NULL, 10);
	}
	free(text);
	if (!group->v1)
		return;
	text = group_text(group, "cpu.cfs_period_us");
	if (text)
		group->period_us = strtoull(text, NULL, 10);
	free(text);
}

static uint64_t steal_read(void)
{
	char *text = text_read("/proc/stat", 1 << 20, NULL);
	uint64_t ticks = 0;

	/* cpu user nice system idle iowait irq softirq steal */
	if (text && sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &ticks) != 1)
		ticks = 0;
	free(text);
	return ticks * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

static uint64_t time_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_usec * 1000;
}

void samples_read(struct samples *samples)
{
	struct rusage usage;

	for (size_t i = 0; i < samples->count; i++) {
		struct samples_group *group = &samples->groups[i];
		char *text = group_text(group, "cpu.stat");

		quota_read(group);
		if (text) {
			group->throttled = line_number(text, "nr_throttled");
			group->throttled_ns = group->v1
						      ? line_number(text, "throttled_time")
						      : line_number(text, "throttled_usec") * 1000;
		}
		free(text);
		if (!samples->begun) {
			group->first_throttled = group->throttled;
			group->first_throttled_ns = group->throttled_ns;
		}
	}
	samples->steal_ns = steal_read();
	if (!getrusage(RUSAGE_SELF, &usage))
		samples->cpu_ns = time_ns(&usage.ru_utime) + time_ns(&usage.ru_stime);
	if (!samples->begun) {
		samples->first_steal_ns = samples->steal_ns;
		samples->first_cpu_ns = samples->cpu_ns;
	}
	samples->begun = true;
}

/* ---- Writing ---- */

static int sample_put(struct file_writer *writer, uint64_t now_ns, json_t *object)
{
	struct chunk_sample head = {.ts_ns = now_ns};
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	int error = 0;

	/* A group whose name is no UTF-8 cannot be put into JSON. */
	if (text)
		error = file_append(writer, CHUNK_SAMPLE, 0, &head, sizeof(head), text,
				    (uint32_t)strlen(text));
	free(text);
	json_decref(object);
	return error;
}

int samples_write(const struct samples *samples, struct file_writer *writer, uint64_t now_ns)
{
	int error = 0;

	for (size_t i = 0; i < samples->count && !error; i++) {
		const struct samples_group *group = &samples->groups[i];

		if (group->quota_us < 0 && !group->throttled)
			continue;
		error = sample_put(writer, now_ns,
				   json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "type", "cgroup",
					     "path", group->path, "nr_throttled",
					     (json_int_t)group->throttled, "throttled_ns",
					     (json_int_t)group->throttled_ns, "quota_us",
					     (json_int_t)group->quota_us, "period_us",
					     (json_int_t)group->period_us));
	}
	if (!error)
		error = sample_put(writer, now_ns,
				   json_pack("{s:s, s:I}", "type", "steal", "ns",
					     (json_int_t)samples->steal_ns));
	if (!error)
		error = sample_put(writer, now_ns,
				   json_pack("{s:s, s:I}", "type", "reader", "cpu_ns",
					     (json_int_t)samples->cpu_ns));
	return error;
}

json_t *samples_groups_json(const struct samples *samples)
{
	json_t *groups = json_array();

	for (size_t i = 0; groups && i < samples->count; i++) {
		const struct samples_group *group = &samples->groups[i];

		json_array_append_new(
			groups,
			json_pack("{s:s%, s:I, s:I, s:I, s:I}", "path", group->path,
				  strlen(group->path), "quota_us", (json_int_t)group->quota_us,
				  "period_us", (json_int_t)group->period_us, "throttled",
				  (json_int_t)(group->throttled - group->first_throttled),
				  "throttled_ns",
				  (json_int_t)(group->throttled_ns - group->first_throttled_ns)));
	}
	return groups;
}
