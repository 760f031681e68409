/* SPDX-License-Identifier: Apache-2.0 */
/* seed_trace FILE.bwt > SEED: a recording as an input of fuzz_trace: its chunks without their headers. */
#include <stdio.h>
#include <stdlib.h>

#include "file.h"

int main(int argc, char **argv)
{
	struct file_reader reader;

	if (argc != 2 || file_open(&reader, argv[1]))
		return 2;
	for (size_t i = 0; i < reader.count; i++) {
		const struct chunk_header *header = &reader.chunks[i].header;
		uint8_t *payload = malloc(header->bytes + 1);
		uint32_t bytes = header->bytes < 0xffff ? header->bytes : 0xffff;

		if (!payload || file_read(&reader, &reader.chunks[i], payload))
			return 1;
		putchar((int)header->type);
		putchar((int)(header->stream & 0xff));
		putchar((int)(bytes & 0xff));
		putchar((int)(bytes >> 8));
		fwrite(payload, 1, bytes, stdout);
		free(payload);
	}
	file_reader_close(&reader);
	return fflush(stdout) != 0;
}
