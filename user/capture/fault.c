/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <stdarg.h>
#include <stdio.h>

#include "utf8.h"

int fault_set(struct fault *fault, int error, const char *fix, const char *why, ...)
{
	va_list arguments;

	va_start(arguments, why);
	vsnprintf(fault->why, sizeof(fault->why), why, arguments);
	va_end(arguments);
	snprintf(fault->fix, sizeof(fault->fix), "%s", fix ? fix : "");
	/* Names of nodes, files and processes come from others and end up on a terminal. */
	utf8_clean(fault->why);
	fault->error = error;
	return error;
}

void fault_fix(struct fault *fault, const char *fix, ...)
{
	va_list arguments;

	va_start(arguments, fix);
	vsnprintf(fault->fix, sizeof(fault->fix), fix, arguments);
	va_end(arguments);
	utf8_clean(fault->fix);
}
