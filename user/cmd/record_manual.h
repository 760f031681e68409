/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORD_MANUAL_H
#define BEAMWEAVE_RECORD_MANUAL_H

/* How a VM that cannot be attached is recorded all the same: from its own shell. */

#include "target.h"

/* Print the lines to type there and here, with paths that exist. To standard error. */
void record_manual_print(const struct target *target);

#endif
