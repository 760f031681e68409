/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names of nodes, files and processes come from others and end up on a terminal. */
static void text_clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

int fault_set(struct fault *fault, int error, const char *fix, const char *why, ...)
{
	va_list arguments;

	va_start(arguments, why);
	vsnprintf(fault->why, sizeof(fault->why), why, arguments);
	va_end(arguments);
	snprintf(fault->fix, sizeof(fault->fix), "%s", fix ? fix : "");
	text_clean(fault->why);
	fault->error = error;
	return error;
}

void fault_fix(struct fault *fault, const char *fix, ...)
{
	va_list arguments;

	va_start(arguments, fix);
	vsnprintf(fault->fix, sizeof(fault->fix), fix, arguments);
	va_end(arguments);
	text_clean(fault->fix);
}
