/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORD_MANUAL_H
#define BEAMWEAVE_RECORD_MANUAL_H

/* How a VM that cannot be attached is recorded all the same: from its own shell. */

#include <sys/types.h>

/* Print the lines to type there and here, with paths that exist. `pid`: 0 unknown. To stderr. */
void record_manual_print(pid_t pid);

#endif
