/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_LIVE_TERMS_H
#define BEAMWEAVE_LIVE_TERMS_H

#include "trace.h"

/* "(1, foo)": the captured arguments of a call; "" when there are none. At least 8 bytes. */
void live_terms_args(struct trace *trace, const struct event *event, char *args, size_t bytes);

#endif
