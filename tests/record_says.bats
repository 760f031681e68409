# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031 # each test is a subshell with its own variables
# What a recording says and refuses, and that it does not record itself.

bats_require_minimum_version 1.5.0
load lib/vm.bash
load lib/record.bash

setup()
{
	vm_setup
	cd "$VM_DIR" || return
}

teardown()
{
	[[ -z ${RECORD_PID:-} ]] || vm_end "$RECORD_PID"
	vm_teardown
}

@test "the process that a door starts the recording by is ours and leaves no event" {
	vm_start a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" --procs --messages --kernel none -d 1
	[[ $status == 0 ]]
	# In an idle VM nothing else spawns or ends; net_kernel lets go of our connection.
	"$BEAMWEAVE" export --to jsonl -o x.jsonl
	jq -c 'select(.kind | IN("spawn", "spawned", "exit", "send", "link"))' x.jsonl | tee said
	[[ ! -s said ]]
	vm_clean a
}

@test "names that are not there are said in their own letters, with near misses in Elixir's too" {
	vm_start a
	cat >Elixir.Enom.erl <<-'END'
		-module('Elixir.Enom').
		-export([map/2]).
		map(F, L) -> lists:map(F, L).
	END
	vm_erlc a Elixir.Enom.erl
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c größe -d 0.2
	[[ $status == 1 && $output == *"the node has no module größe"* ]]
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c "'日本':'関数'/1" -d 0.2
	[[ $status == 1 && $output == *"the node has no module 日本"* && $output != *"did you mean"* ]]
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c Enom.mpa -d 0.2
	[[ $status == 1 && $output == *"nothing on the node matches Enom.mpa"*"did you mean: Enom.map/2"* ]]
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c Enmo.map -d 0.2
	[[ $status == 1 && $output == *"the node has no module Enmo"*"did you mean: Enom"* ]]
	vm_clean a
}

@test "budgets of a capture that cannot be had are refused in words" {
	for depth in 17 -1 x; do
		run "$BEAMWEAVE" record -p $$ --capture args --capture-depth "$depth"
		[[ $status == 2 && $output == *"a number from 0 to 16 is expected"* ]]
	done
	for bytes in 63 8193; do
		run "$BEAMWEAVE" record -p $$ --capture args --capture-bytes "$bytes"
		[[ $status == 2 && $output == *"a number from 64 to 8192 is expected"* ]]
	done
}

@test "code that is loaded again and again is said once, and counted at the end" {
	vm_start a
	cat >again.erl <<-'END'
		-module(again).
		-export([f/0]).
		f() -> ok.
	END
	vm_erlc a again.erl
	vm_rpc a 'again:f()' >/dev/null
	begin -p "$(vm_pid a)" -c again:f/0 -d 0
	vm_rpc a 'spawn(fun() -> F = fun F() -> code:purge(again), code:load_file(again), timer:sleep(50), F() end, F() end)' >/dev/null
	sleep 3.5
	kill -INT "$RECORD_PID"
	finish
	[[ $status == 0 ]]
	[[ $(grep -c "code was loaded anew: 1 function is traced again" err) == 1 ]]
	[[ $(grep -c "traced code was loaded anew in [2-9] of the seconds" err) == 1 ]]
}

@test "too few descriptors are not a process that is not there" {
	vm_start a
	local said=0 limit
	# Which look is the first without one depends on what the test was started with.
	for limit in {4..12}; do
		run bash -c "ulimit -n $limit; exec '$BEAMWEAVE' record -p $(vm_pid a) -d 0.2"
		[[ $output != *"there is no process"* ]]
		[[ $output != *"cannot look at process $(vm_pid a): Too many open files"* ]] || said=1
	done
	[[ $said == 1 ]]
}

@test "a /dev/shm without room is said with the size that is needed, and a smaller ring fits" {
	[[ $(id -u) == 0 ]] || skip "mounting needs root"
	vm_launch a unshare -m sh -c 'mount -t tmpfs -o size=40M tmpfs /dev/shm && exec "$@"' sh -- -sname "bw${VM_ID,,}a"
	run "$BEAMWEAVE" record -p "$(vm_pid a)" --messages --kernel none -d 0.3
	echo "$output"
	[[ $status == 1 && $output == *"no room for the ring"*"40 MB free"*"--buffer-size 16M"* ]]
	run "$BEAMWEAVE" record -p "$(vm_pid a)" --messages --kernel none -d 0.3 --buffer-size 8M
	echo "$output"
	[[ $status == 0 ]]
	vm_alive a
	vm_clean a
}
