#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# OTP's IP trace port as the source: the same events as the other tracers', no native code in the VM, an
# account of what the port had no room for, and nothing left at any end.

# shellcheck disable=SC2016 # $p inside Erlang is Erlang's
bats_require_minimum_version 1.5.0
load lib/vm

setup_file() {
	vm_setup
	export VM_EPMD_PID
	vm_start t +S 2:2 -pa "$VM_ROOT/build/tests/ebin"
	vm_rpc t 'code:ensure_loaded(truths)'
	# A process that does what it is sent, and says so.
	vm_rpc t 'register(work, spawn(fun() -> F = fun F() -> receive {Do, P} -> Do(), P ! done, F() end end, F() end)), ok'
}

teardown_file() {
	vm_teardown
}

work() { # EXPRS
	vm_rpc t "work ! {fun() -> $1 end, self()}, receive done -> ok end"
}

# Leaves the process in $recorder, the file in $file.
record_begin() { # RECORD-OPTIONS...
	file=$VM_DIR/ip.bwt
	rm -f "$VM_DIR/record.err"
	"$BEAMWEAVE" record -p "$(vm_pid t)" --kernel none -d 0 -o "$file" "$@" 2>"$VM_DIR/record.err" 3>&- &
	recorder=$!
	vm_wait_for 20 grep -q '^recording' "$VM_DIR/record.err" || { cat "$VM_DIR/record.err"; false; }
}

record_end() {
	kill -INT "$recorder"
	wait "$recorder" || { cat "$VM_DIR/record.err"; false; }
}

report() { # SECTION JQ-FILTER
	"$BEAMWEAVE" report "$1" "$file" --json | jq -r "$2"
}

gone() {
	[[ $(vm_rpc t '[whereis(beamweave_ip), [P || P <- erlang:ports(), {name, "trace_ip_drv" ++ _} <- [erlang:port_info(P, name)]]]') == "[undefined,[]]" ]] &&
		vm_clean t
}

@test "the same work makes the same events with all tracers, and their times are the VM's" {
	local tracer kinds="" now bounds first
	for tracer in ip port nif; do
		record_begin --tracer "$tracer" --pids work -c truths -e messages,procs
		work 'truths:nested(300), truths:recursion(5, 19), truths:messages(100), truths:spawn_tree(3)'
		record_end
		[[ $(report summary .tracer) == "$tracer" ]]
		[[ $(report summary .events.discarded) == 0 ]]
		[[ $(report calls '[.calls[] | select(.mfa == "truths:inner/1")][0].count') == 1200 ]]
		[[ $(report processes '[.processes[] | select(.name == "work")][0].calls') -gt 1200 ]]
		now=$(report summary '.events.by_kind' | jq -cS .)
		echo "$tracer: $now"
		[[ -z $kinds || $now == "$kinds" ]]
		kinds=$now

		record_begin --tracer "$tracer" --pids work -c truths:id/1
		vm_rpc t 'register(asker, self()), work ! {fun() -> Now = fun() -> element(2, lists:keyfind(time, 1, erlang:system_info(os_monotonic_time_source))) end,
			A = Now(), truths:inner(1), asker ! {A, Now()} end, self()}, receive {A, B} -> receive done -> [A, B] end end' >"$VM_DIR/bounds"
		record_end
		bounds=$(cat "$VM_DIR/bounds")
		first=$("$BEAMWEAVE" export "$file" --to jsonl -o - | jq 'select(.kind == "call") | .ts_ns')
		echo "$tracer: $first in $bounds"
		# A sample of both clocks is within 10 us of the truth.
		jq -en --argjson b "$bounds" --argjson t "$first" '$t >= $b[0] - 10000 and $t <= $b[1] + 10000'
		# Without native code of ours.
		[[ $tracer != ip || $(vm_rpc t 'code:is_loaded(beamweave_tracer)') == false ]]
	done
}

@test "names and own processes are known" {
	record_begin --tracer ip -c truths:inner/1 -e running,procs
	work 'truths:nested(10)'
	record_end
	[[ $(report processes '[.processes[] | select(.name == "work")][0].calls') == 40 ]]
	[[ $(report summary '.events.own') -gt 0 ]]
	[[ $(report processes '[.processes[] | select(.initial_call // "" | test("beamweave"))] | length') == 0 ]]
	gone
}

@test "what the port has no room for is counted, and when" {
	record_begin --tracer ip --queue-size 7 --pids work -c truths:inner/1
	# Its reader sleeps: what the sockets hold and seven messages more are kept.
	kill -STOP "$recorder"
	work 'truths:nested(50000)'
	kill -CONT "$recorder"
	record_end
	cat "$VM_DIR/record.err"
	report summary '.events'
	[[ $(report summary '.events.discarded') -gt 0 ]]
	# 200,000 calls, each of which returns.
	[[ $(report summary '.events.by_kind.call + .events.by_kind.return_to + .events.discarded') == 400000 ]]
	[[ $("$BEAMWEAVE" report loss "$file") == *"dropped by the trace port"* ]]
	grep -q "$(report summary '.events.discarded' | sed ':a;s/\B[0-9]\{3\}\>/,&/;ta') lost" "$VM_DIR/record.err"
	gone
}

@test "a limit of events ends it behind the first event too many" {
	record_begin --tracer ip --pids work -c truths:inner/1 -l 100
	work 'truths:nested(100)'
	wait "$recorder"
	[[ $(report summary .end.reason) == max_events ]]
	[[ $(report summary '.events.by_kind.call + .events.by_kind.return_to') -ge 100 ]]
	gone
}

@test "whoever connects while it records is sent away" {
	local port
	record_begin --tracer ip --pids work -c truths:inner/1
	port=$(vm_rpc t '[P] = [P || P <- erlang:ports(), {name, "trace_ip_drv" ++ _} <- [erlang:port_info(P, name)]], [0, A, B] = binary_to_list(iolist_to_binary(erlang:port_control(P, $p, ""))), A * 256 + B')
	[[ -z $(timeout 10 cat <"/dev/tcp/127.0.0.1/$port") ]]
	work 'truths:nested(10)'
	record_end
	[[ $(report summary .events.by_kind.call) == 40 ]]
	gone
}

@test "a recorder that is killed leaves nothing on the node" {
	record_begin --tracer ip -c truths -e messages,running
	kill -KILL "$recorder"
	wait "$recorder" || true
	vm_wait_for 20 gone
}

@test "it is ended from the node" {
	record_begin --tracer ip -c truths:inner/1
	vm_rpc t 'beamweave_controller:stop()'
	wait "$recorder"
	[[ $(report summary .end.reason) == stopped_on_node ]]
	gone
}

@test "the port is closed by somebody" {
	record_begin --tracer ip -c truths:inner/1
	vm_rpc t '[exit(P, kill) || P <- erlang:ports(), {name, "trace_ip_drv" ++ _} <- [erlang:port_info(P, name)]], ok'
	status=0
	wait "$recorder" || status=$?
	[[ $status == 1 ]]
	grep -q 'the tracer ended before its time' "$VM_DIR/record.err"
	vm_wait_for 20 gone
}

@test "the VM ends" {
	vm_start far
	rm -f "$VM_DIR/far.err"
	"$BEAMWEAVE" record -p "$(vm_pid far)" --tracer ip --kernel none -e procs -d 0 -o "$VM_DIR/far.bwt" \
		2>"$VM_DIR/far.err" 3>&- &
	recorder=$!
	vm_wait_for 20 grep -q '^recording' "$VM_DIR/far.err"
	# a VM that ends while it is still being attached is another story
	vm_wait_for 20 vm_rpc far '{flags, [_ | _]} = erlang:trace_info(new_processes, flags)'
	sleep 1
	vm_stop_hard far
	wait "$recorder" || { cat "$VM_DIR/far.err" && false; }
	[[ $("$BEAMWEAVE" report summary --json "$VM_DIR/far.bwt" | jq -r '.end.reason') == target_ended ]]
}

@test "a node without runtime_tools is told so in one line" {
	vm_start bare
	vm_rpc bare 'code:del_path(runtime_tools)'
	run -1 "$BEAMWEAVE" record -p "$(vm_pid bare)" --tracer ip --kernel none -e procs -d 1 -o "$VM_DIR/bare.bwt"
	echo "$output"
	[[ $output == *"has no runtime_tools"* && $output == *"erlang-runtime-tools"* ]]
	[[ ! -e $VM_DIR/bare.bwt ]]
	vm_clean bare
	vm_stop bare
}

@test "what cannot be had is refused" {
	run -2 "$BEAMWEAVE" record -p 1 --tracer ip --redact
	[[ $output == *"--redact needs --tracer nif"* ]]
	run -2 "$BEAMWEAVE" record -p 1 --tracer ip --mode overwrite
	[[ $output == *"which --tracer ip has not"* ]]
	run -2 "$BEAMWEAVE" record -p 1 --tracer ip --queue-size 6
	[[ $output == *"a number from 7"* ]]
}

@test "no error of ours is in the node's log" {
	cat "$VM_DIR/vm/t.log"
	run ! grep -E 'ERROR|WARNING|beamweave' "$VM_DIR/vm/t.log"
}
