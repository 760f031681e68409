#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# However a recording ends, nothing of ours is left in the VM and nothing of others is touched.

bats_require_minimum_version 1.5.0
load lib/vm
load lib/tracer

setup_file() {
	tracer_setup
}

teardown_file() {
	tracer_teardown
}

teardown() {
	tracer_clean
}

@test "the reader stops it" {
	tracer_check 'tracer_ends:asked()'
}

@test "the lease runs out" {
	tracer_check 'tracer_ends:lease()'
}

@test "the reader is killed" {
	tracer_check 'tracer_ends:reader_killed()'
}

@test "its time is over" {
	tracer_check 'tracer_ends:time()'
}

@test "its events are spent, none more" {
	tracer_check 'tracer_ends:events()'
}

@test "the controller is killed" {
	tracer_check 'tracer_ends:controller_killed()'
}

@test "the guard is killed, and then the controller" {
	tracer_check 'tracer_ends:guard_killed()'
}

@test "the guard and the controller are killed at once" {
	tracer_check 'tracer_ends:both_killed()'
}

@test "the node's shell starts and stops it" {
	tracer_check 'tracer_ends:shell()'
}

@test "a pause records nothing" {
	tracer_check 'tracer_ends:paused()'
}

@test "a second recording is refused while there is one" {
	tracer_check 'tracer_ends:busy()'
}

@test "flags and patterns of another tracer stay as they are" {
	tracer_check 'tracer_ends:others()'
}

@test "another tracer's default for new processes stays as it is" {
	tracer_check 'tracer_ends:new_processes()'
}

@test "a recording that another tracer leaves nothing for is refused" {
	tracer_check 'tracer_ends:present()'
}

@test "files that are no session of this user's are refused" {
	tracer_check 'tracer_ends:files()'
}

@test "a session that takes too much memory is not made" {
	tracer_check 'tracer_ends:memory()'
}

@test "5,000 processes that sleep keep no flag" {
	tracer_check 'tracer_ends:sleepers()'
}

@test "attaching to a busy VM and leaving it 20 times" {
	tracer_check 'tracer_ends:rounds(20)'
}

@test "modules that came over a door go, but for the tracer's" {
	vm_start_plain door -pa "$VM_DIR/ebin"
	vm_rpc door "application:set_env(beamweave, library, \"$BUILD/beamweave_tracer.so\")"
	run vm_rpc door "tracer_ends:over_a_door(\"$BUILD/ebin\")"
	echo "$output"
	cat "$VM_DIR/vm/door.log"
	rm -f "/dev/shm/bwtest-$(vm_pid door)-"*
	[ "$output" = ok ]
	[ ! -s "$VM_DIR/vm/door.log" ]
	vm_stop door
}

@test "no error of ours is in the node's log" {
	run ! grep -E 'ERROR|WARNING|only have one tracer' "$VM_DIR/vm/t.log"
}
