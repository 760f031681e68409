/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_LIVE_CALLS_H
#define BEAMWEAVE_LIVE_CALLS_H

/* The calls that have not ended, to tell how long each took. Memory is bounded: what is more is not told. */

#include <stdbool.h>
#include <stdint.h>

#define LIVE_CALLS_MAX	 65536u /* of all processes together */
#define LIVE_CALLS_DEPTH 1024u /* of one process */
#define LIVE_CALLS_ARGS	 256u

struct live_call {
	uint32_t mfa;
	uint64_t start_ns;
	char args[LIVE_CALLS_ARGS]; /* "" when unknown */
};

struct live_calls;

struct live_calls *live_calls_new(void);
void live_calls_free(struct live_calls *calls);
void live_calls_begin(struct live_calls *calls, uint64_t process, uint32_t mfa, uint64_t start_ns,
		      const char *args);
/* The innermost open call of that function, with all that are inside of it. False: none is known. */
bool live_calls_end(struct live_calls *calls, uint64_t process, uint32_t mfa,
		    struct live_call *call);
void live_calls_forget(struct live_calls *calls, uint64_t process);
void live_calls_clear(struct live_calls *calls);

#endif
