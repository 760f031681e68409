/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_AMOUNT_H
#define BEAMWEAVE_AMOUNT_H

/* Times, sizes and lists as people type them on a command line. */

#include <stddef.h>
#include <stdint.h>

/* "30", "1.5s", "500ms", "2m", "1h": a bare number is seconds. Returns 0 or -EINVAL. */
int amount_duration(const char *text, uint64_t *ns);
/* "64M", "1G", "4096", "1.5GiB". Returns 0 or -EINVAL. */
int amount_bytes(const char *text, uint64_t *bytes);
/* "1000", "10k", "2M". Returns 0 or -EINVAL. */
int amount_count(const char *text, uint64_t *count);

struct amount_name {
	const char *name;
	uint32_t bit;
};

/*
 * A list of names of a table (ended by a NULL name), separated by commas, into bits that are added to
 * *bits. Returns 0, or -EINVAL with the wrong name's place in *at and its length in *bytes.
 */
int amount_list(const char *text, const struct amount_name *names, uint32_t *bits, const char **at,
		size_t *bytes);

#endif
