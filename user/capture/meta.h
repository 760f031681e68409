/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_META_H
#define BEAMWEAVE_META_H

#include "recorder.h"

/* What a recording says of itself, as of now: see `summary` in the manual page. Appends CHUNK_META. */
int meta_write(const struct recorder *recorder);

#endif
