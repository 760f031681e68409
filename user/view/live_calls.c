/* SPDX-License-Identifier: Apache-2.0 */
#include "live_calls.h"

#include <stdio.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM	     1
#define uthash_nonfatal_oom(element) ((element)->failed = true)

#include <uthash.h>

struct caller {
	uint64_t process;
	struct live_call **open;
	uint32_t count, capacity;
	uint32_t untold; /* inside of these, for which there was no room */
	bool failed;
	UT_hash_handle hh;
};

struct live_calls {
	struct caller *callers;
	uint32_t count;
};

struct live_calls *live_calls_new(void)
{
	return calloc(1, sizeof(struct live_calls));
}

static void caller_drop(struct live_calls *calls, struct caller *caller)
{
	for (uint32_t i = 0; i < caller->count; i++)
		free(caller->open[i]);
	calls->count -= caller->count;
	HASH_DEL(calls->callers, caller);
	free(caller->open);
	free(caller);
}

void live_calls_clear(struct live_calls *calls)
{
	struct caller *caller, *next;

	HASH_ITER (hh, calls->callers, caller, next)
		caller_drop(calls, caller);
}

void live_calls_free(struct live_calls *calls)
{
	if (!calls)
		return;
	live_calls_clear(calls);
	free(calls);
}

static struct caller *caller_find(const struct live_calls *calls, uint64_t process)
{
	struct caller *caller;

	HASH_FIND(hh, calls->callers, &process, sizeof(process), caller);
	return caller;
}

static struct caller *caller_get(struct live_calls *calls, uint64_t process)
{
	struct caller *caller = caller_find(calls, process);

	if (caller || calls->count >= LIVE_CALLS_MAX)
		return caller;
	caller = calloc(1, sizeof(*caller));
	if (!caller)
		return NULL;
	caller->process = process;
	HASH_ADD(hh, calls->callers, process, sizeof(caller->process), caller);
	if (!caller->failed)
		return caller;
	free(caller);
	return NULL;
}

static bool caller_grow(struct caller *caller)
{
	uint32_t capacity = caller->capacity ? caller->capacity * 2 : 8;
	struct live_call **open;

	if (caller->count < caller->capacity)
		return true;
	open = realloc(caller->open, capacity * sizeof(struct live_call *));
	if (!open)
		return false;
	caller->open = open;
	caller->capacity = capacity;
	return true;
}

void live_calls_begin(struct live_calls *calls, uint64_t process, uint32_t mfa, uint64_t start_ns,
		      const char *args)
{
	struct caller *caller = caller_get(calls, process);
	struct live_call *call = NULL;

	if (!caller)
		return;
	if (!caller->untold && calls->count < LIVE_CALLS_MAX && caller->count < LIVE_CALLS_DEPTH &&
	    caller_grow(caller))
		call = malloc(sizeof(*call));
	if (!call) {
		caller->untold++;
		return;
	}
	call->mfa = mfa;
	call->start_ns = start_ns;
	snprintf(call->args, sizeof(call->args), "%s", args);
	caller->open[caller->count++] = call;
	calls->count++;
}

bool live_calls_end(struct live_calls *calls, uint64_t process, uint32_t mfa,
		    struct live_call *call)
{
	struct caller *caller = caller_find(calls, process);
	uint32_t at;

	if (!caller)
		return false;
	if (caller->untold) {
		caller->untold--;
		return false;
	}
	for (at = caller->count; at && caller->open[at - 1]->mfa != mfa;)
		at--;
	if (!at)
		return false;
	*call = *caller->open[at - 1];
	while (caller->count >= at) {
		free(caller->open[--caller->count]);
		calls->count--;
	}
	if (!caller->count)
		caller_drop(calls, caller);
	return true;
}

void live_calls_forget(struct live_calls *calls, uint64_t process)
{
	struct caller *caller = caller_find(calls, process);

	if (caller)
		caller_drop(calls, caller);
}
