/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CMD_H
#define BEAMWEAVE_CMD_H

/* The commands: argv[0] is the command's own name. Each returns the exit status. */

enum cmd_status {
	CMD_DONE = 0,
	CMD_FAILED = 1,
	CMD_USAGE = 2,
	CMD_LOST = 3, /* events were lost, and that was not to be */
};

int cmd_record(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

#endif
