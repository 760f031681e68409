/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_ROLE_H
#define BEAMWEAVE_ROLE_H

#include <stdint.h>

/*
 * The role (enum ring_role) and number of a scheduler by its thread's name: "3_scheduler" (OTP 25),
 * "erts_dcpus_1" (27 on). Returns 0, or -1 for any other name.
 */
int role_of_name(const char comm[16], uint32_t *role, uint32_t *number);

#endif
