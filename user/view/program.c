/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PLAIN                                                                                      \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"                           \
	"/._-+=:@%"

/* Longer ones would not fit the lines that they stand in. */
#define NAME_BYTES 128

static char name[NAME_BYTES] = "beamweave";

/* Whoever starts a program chooses its argv[0]: what a terminal could obey is not repeated. */
static bool path_printable(const char *path)
{
	for (; *path; path++)
		if (*path < 0x20 || *path == 0x7f)
			return false;
	return true;
}

void program_set(const char *typed)
{
	char quoted[NAME_BYTES];
	size_t used = 0;

	if (!typed || !strchr(typed, '/') || !path_printable(typed) || strlen(typed) >= NAME_BYTES)
		return;
	if (strspn(typed, PLAIN) == strlen(typed)) {
		strcpy(name, typed);
		return;
	}
	quoted[used++] = '\'';
	for (; *typed && used + 6 < sizeof(quoted); typed++)
		used += (size_t)snprintf(quoted + used, sizeof(quoted) - used,
					 *typed == '\'' ? "'\\''" : "%c", *typed);
	if (*typed)
		return;
	memcpy(name, quoted, used);
	strcpy(name + used, "'");
}

const char *program_name(void)
{
	return name;
}
