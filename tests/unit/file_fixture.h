/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_FILE_FIXTURE_H
#define BEAMWEAVE_FILE_FIXTURE_H

/* A folder with one file in it, and the bytes of that file. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];
static char path[128];

static inline int directory_make(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/bwt_file_test_XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/a.bwt", directory);
	return 0;
}

static inline int directory_remove(void **state)
{
	char old[160];

	(void)state;
	snprintf(old, sizeof(old), "%s.old", path);
	/* a test may have mounted a small disk there */
	umount(directory);
	unlink(path);
	unlink(old);
	return rmdir(directory);
}

/* The caller frees it. */
static inline uint8_t *file_load(const char *name, size_t *bytes)
{
	FILE *file = fopen(name, "rb");
	uint8_t *data;

	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	*bytes = (size_t)ftell(file);
	rewind(file);
	data = malloc(*bytes + 1);
	assert_int_equal(fread(data, 1, *bytes, file), *bytes);
	fclose(file);
	return data;
}

#endif
