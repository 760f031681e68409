/* SPDX-License-Identifier: Apache-2.0 */
#include "role.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"

int role_of_name(const char comm[16], uint32_t *role, uint32_t *number)
{
	static const struct {
		const char *format; /* one number and then all that must follow it */
		uint32_t role;
	} names[] = {
		{"%u_scheduler%n", RING_ROLE_NORMAL},
		{"%u_dirty_cpu_sch%n", RING_ROLE_DIRTY_CPU},
		{"%u_dirty_io_sch%n", RING_ROLE_DIRTY_IO},
		{"erts_sched_%u%n", RING_ROLE_NORMAL},
		{"erts_dcpus_%u%n", RING_ROLE_DIRTY_CPU},
		{"erts_dios_%u%n", RING_ROLE_DIRTY_IO},
	};
	char text[17];
	size_t i;

	memcpy(text, comm, 16);
	text[16] = 0;
	/* names are cut at 15 characters: "10_dirty_cpu_sc", "100_dirty_io_s" and the like */
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		unsigned int value;
		int end = 0;

		if (sscanf(text, names[i].format, &value, &end) == 1 && end > 0) {
			*role = names[i].role;
			*number = value;
			return 0;
		}
	}
	if (strlen(text) == 15 && strstr(text, "_dirty_cpu_s")) {
		*role = RING_ROLE_DIRTY_CPU;
	} else if (strlen(text) == 15 && strstr(text, "_dirty_io_s")) {
		*role = RING_ROLE_DIRTY_IO;
	} else {
		return -1;
	}
	*number = (uint32_t)strtoul(text, NULL, 10);
	return 0;
}
