# SPDX-License-Identifier: Apache-2.0
# Recordings that run in the background of a test.
#
#   begin ARGUMENT...   record, return when it says that it is recording; its process is $RECORD_PID
#   finish              wait for its end; its status is in $status, what it said in $output
#
# A teardown() ends what a failed test left: [[ -z ${RECORD_PID:-} ]] || vm_end "$RECORD_PID"

begin()
{
	"$BEAMWEAVE" record "$@" 2>err 3>&- &
	RECORD_PID=$!
	vm_wait_for 30 grep -q '^recording' err || {
		cat err
		return 1
	}
}

finish()
{
	status=0
	# shellcheck disable=SC2034 # read by the tests
	wait "$RECORD_PID" || status=$?
	RECORD_PID=
	output=$(cat err)
	echo "$output"
}
