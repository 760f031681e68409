#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The kernel side by itself: scenarios with known truths (tests/kernel/). Exit 77 is a skip, with its
# reason.

bats_require_minimum_version 1.5.0

BUILD=${BUILD:-$BATS_TEST_DIRNAME/../build}

# Run a scenario as somebody: PREFIX-COMMAND... -- PROGRAM SCENARIO
scenario() {
	local prefix=()
	while [ "$1" != -- ]; do
		prefix+=("$1")
		shift
	done
	run "${prefix[@]}" "$BUILD/tests/kernel_$2" "$3"
	if [ "$status" = 77 ]; then
		skip "$output"
	fi
	echo "$output"
	[ "$status" = 0 ]
}

@test "a nap, a read, 50 ms of SIGSTOP and a hog are seen as what they were" {
	scenario -- sched switch
}

@test "the same is seen in the ways that older kernels leave" {
	scenario -- sched fallback
}

@test "a ring that is too small loses records and counts each" {
	scenario -- sched tiny
}

@test "a CPU quota shows as throttled in every period" {
	scenario -- sched throttled
}

@test "who has the CPU for which the target waits is recorded at every change" {
	scenario -- waits turns
}

@test "children are followed when asked for, and only then" {
	scenario -- target follow
}

@test "two recordings at the same time see each its own target" {
	scenario -- target two
}

@test "the target can be changed while recording" {
	scenario -- target retarget
}

@test "records taken during a storm of switches are all there or counted" {
	scenario -- target storm
}

@test "a byte count sent over a socket is the byte count reported" {
	scenario -- socket bytes
}

@test "the same from the exits of system calls" {
	scenario -- socket bytes_fallback
}

@test "a reset is seen from both sides" {
	scenario -- socket reset
}

@test "sockets that are older than the recording are known" {
	scenario -- socket existing
}

@test "datagrams count on both sides" {
	scenario -- socket datagrams
}

@test "the Erlang process is read at switch-out, and wrong data is noticed" {
	scenario -- other process
}

@test "every system call is recorded with its arguments and result" {
	scenario -- other syscall
}

@test "each probe can be left out, and the others work on" {
	scenario -- other without
}

@test "a callback that fails loses nothing" {
	scenario -- other callback
}

@test "without rights every probe is missing, with its reason" {
	# a copy, since the tree may be closed to others
	copy=$(mktemp "${TMPDIR:-/tmp}/kernel_other.XXXXXX")
	cp "$BUILD/tests/kernel_other" "$copy"
	chmod 755 "$copy"
	if [ "$(id -u)" = 0 ]; then
		run setpriv --reuid=65534 --regid=65534 --clear-groups "$copy" unprivileged
	else
		run "$copy" unprivileged
	fi
	rm -f "$copy"
	echo "$output"
	[ "$status" = 0 ]
}

@test "inside a pid namespace of its own it says why it sees nothing" {
	unshare --pid --fork --mount-proc true 2> /dev/null || skip "needs the right to unshare"
	scenario unshare --pid --fork --mount-proc -- other nested
}

@test "CAP_BPF and CAP_PERFMON are enough" {
	[ "$(id -u)" = 0 ] || skip "needs root to give them to a user without rights"
	copy=$(mktemp "${TMPDIR:-/tmp}/kernel_sched.XXXXXX")
	cp "$BUILD/tests/kernel_sched" "$copy"
	chmod 755 "$copy"
	run setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+bpf,+perfmon \
		--ambient-caps=+bpf,+perfmon "$copy" switch
	rm -f "$copy"
	echo "$output"
	[ "$status" = 0 ]
}
