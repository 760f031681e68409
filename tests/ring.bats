#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The ring under stress: every record arrives once, in its thread's order, or is counted by its kind.
# The programs check that themselves (tests/ring/); here they are run briefly, in all variants.

setup() {
	BUILD="${BATS_TEST_DIRNAME}/../build/tests"
}

# Run one program through the variants, with so many records a thread.
stress() {
	local program=$1 records=$2 variant
	shift 2
	for variant in "$@"; do
		run timeout 120 "$BUILD/$program" "$variant" "$records"
		if [ "$status" -ne 0 ]; then
			echo "$program $variant $records: status $status"
			echo "$output"
			return 1
		fi
	done
}

@test "records arrive once and in order, or are counted, whatever the reader's pace" {
	stress ring_stress 200000 plain paced slow tiny failing
	# An odd count has sub-buffers of another size.
	stress ring_stress 200001 plain tiny
}

@test "readers are killed and replaced, and nothing is lost or unknown to have come twice" {
	stress ring_stress 200000 killed killed-roomy
}

@test "readers hand over as planned, and nothing is lost or comes twice" {
	stress ring_stress 200000 handover
}

@test "writers are killed, and what they had committed arrives" {
	stress ring_stress 200000 crash
}

@test "overwriting keeps the newest and counts the rest" {
	stress ring_stress 200000 overwrite overwrite-slow overwrite-killed
}

@test "more threads than sub-buffers" {
	run timeout 120 "$BUILD/ring_stress" tiny 50000 16
	[ "$status" -eq 0 ]
}

@test "no data race is found by ThreadSanitizer" {
	stress ring_stress_tsan 50000 thread thread-tiny thread-overwrite
}

@test "no bad access is found by AddressSanitizer, no undefined behaviour" {
	stress ring_stress_asan 50000 plain tiny killed handover crash overwrite overwrite-killed
}

@test "a variant that does not exist is a usage error" {
	run "$BUILD/ring_stress" nonsense
	[ "$status" -eq 2 ]
}

@test "no shared-memory file is left" {
	run find /dev/shm -maxdepth 1 -name 'beamweave-stress-*'
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}
