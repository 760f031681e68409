#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The trace port: the same events as the NIF's, a queue that stays short under any load, clients that
# are not ours, and the same ends. SOAK_SECONDS makes the overload longer.

bats_require_minimum_version 1.5.0
load lib/vm
load lib/tracer

setup_file() {
	tracer_setup
	# The tests of tracer_ends.erl record through the port here.
	vm_rpc t 'application:set_env(beamweave, test_tracer, port)'
}

teardown_file() {
	tracer_teardown
}

teardown() {
	tracer_clean
}

@test "the same work makes the same events with both tracers" {
	tracer_check 'tracer_port:counts()'
}

@test "a message is OTP's own, with a time that fits the clock samples" {
	tracer_check 'tracer_port:terms()'
}

@test "arguments come with the message" {
	tracer_check 'tracer_port:capture()'
}

@test "a message that is too long keeps its beginning and its end" {
	tracer_check 'tracer_port:cut()'
}

@test "under overload every event is recorded or counted, and memory grows by less than 20 MB" {
	tracer_check "tracer_port:overload(${SOAK_SECONDS:-5}, 6)"
}

@test "the same with one process a scheduler" {
	tracer_check 'tracer_port:overload(3, 2)'
}

@test "the same with processes that send to each other and wait" {
	tracer_check 'tracer_port:messages(4)'
}

@test "dbg traces through the port" {
	tracer_check 'tracer_port:dbg()'
}

@test "a program traces through the port, without timestamps" {
	tracer_check 'tracer_port:program()'
}

@test "the port is closed by somebody" {
	tracer_check 'tracer_port:closed()'
}

@test "the port's owner is killed" {
	tracer_check 'tracer_port:owner_killed()'
}

@test "wrong use of the port does no harm" {
	tracer_check 'tracer_port:wrong_use()'
}

@test "the driver is loaded once and stays" {
	tracer_check 'tracer_port:twice()'
}

@test "a recording through the port ends as one through the NIF does" {
	local how
	for how in asked lease time events controller_killed guard_killed both_killed reader_killed paused; do
		echo "$how"
		tracer_check "tracer_ends:$how()"
		tracer_clean
	done
}

@test "nothing of others is touched" {
	local how
	for how in others new_processes present sleepers; do
		echo "$how"
		tracer_check "tracer_ends:$how()"
		tracer_clean
	done
}

@test "attaching to a busy VM and leaving it 10 times" {
	tracer_check 'tracer_ends:rounds(10)'
}

@test "record --tracer port after a recording by the NIF, from outside" {
	local tracer count
	vm_start far
	vm_rpc far 'register(storm, spawn(fun() -> F = fun F() -> receive {go, P} -> [lists:seq(1, 2) || _ <- lists:seq(1, 500)], P ! done end, F() end, F() end)), ok'
	for tracer in nif port; do
		rm -f "$VM_DIR/far.log"
		"$BEAMWEAVE" record -p "$(vm_pid far)" --tracer "$tracer" -c lists:seq/2 --pids storm \
			--kernel none -d 0 -o "$VM_DIR/far.bwt" 2>"$VM_DIR/far.log" 3>&- &
		vm_wait_for 20 grep -q '^recording' "$VM_DIR/far.log"
		vm_rpc far 'storm ! {go, self()}, receive done -> ok end'
		kill -INT "$!"
		wait "$!"
		cat "$VM_DIR/far.log"
		[[ $("$BEAMWEAVE" report summary --json "$VM_DIR/far.bwt" | jq -r .tracer) == "$tracer" ]]
		# One more call is that of the list comprehension's own lists:seq/2.
		count=$("$BEAMWEAVE" report summary --json "$VM_DIR/far.bwt" | jq .events.by_kind.call)
		echo "$tracer: $count"
		[[ $count == 501 ]]
		vm_clean far
	done
	run -2 "$BEAMWEAVE" record -p "$(vm_pid far)" --tracer port --redact
	[[ $output == *"--redact needs --tracer nif"* ]]
	vm_stop far
}

@test "no error of ours is in the node's log" {
	cat "$VM_DIR/vm/t.log"
	run ! grep -E 'ERROR|WARNING|only have one tracer' "$VM_DIR/vm/t.log"
}
