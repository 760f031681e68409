#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Known truths: programs of which everything is known (tests/workloads/truths.erl), recorded and counted.

# shellcheck disable=SC2016 # $names inside jq filters are jq's
bats_require_minimum_version 1.5.0
load lib/vm

setup_file() {
	vm_setup
	export VM_EPMD_PID
	vm_start t +S 2:2 -pa "$VM_ROOT/build/tests/ebin"
	vm_rpc t 'code:ensure_loaded(truths)'
}

teardown_file() {
	vm_teardown
}

# Record while the VM evaluates EXPRS; its answer is left in $answer, the file in $file.
record_around() { # EXPRS RECORD-OPTIONS...
	local exprs=$1 recorder
	shift
	file="$VM_DIR/truth.bwt"
	rm -f "$VM_DIR/record.err"
	"$BEAMWEAVE" record -p "$(vm_pid t)" -d 0 -o "$file" "$@" 2> "$VM_DIR/record.err" 3>&- &
	recorder=$!
	vm_wait_for 20 grep -q '^recording' "$VM_DIR/record.err"
	answer=$(vm_rpc t "$exprs")
	kill -INT "$recorder"
	wait "$recorder" || { cat "$VM_DIR/record.err"; false; }
	[ "$(report summary .events.discarded)" = 0 ]
}

report() { # SECTION JQ-FILTER JQ-OPTIONS...
	local section=$1 filter=$2
	shift 2
	"$BEAMWEAVE" report "$section" "$file" --json | jq -r "$@" "$filter"
}

count() { # MFA
	report calls '[.calls[] | select(.mfa == $mfa)][0].count // 0' --arg mfa "$1"
}

events() { # JQ-FILTER JQ-OPTIONS...: over the lines of the jsonl export
	local filter=$1
	shift
	"$BEAMWEAVE" export "$file" --to jsonl -o - | jq -r "$@" "$filter"
}

kernel_needed() {
	if [ "$(report summary '.kernel.enabled | index("sched") != null')" != true ]; then
		skip "kernel probes: $(report summary '.kernel.missing[0].why')"
	fi
}

@test "7,000 nested calls are 7,000 calls, each under its caller" {
	record_around 'truths:nested(1000)' -c truths
	[ "$(count truths:outer/1)" = 1000 ]
	[ "$(count truths:middle/1)" = 2000 ]
	[ "$(count truths:inner/1)" = 4000 ]
	[ "$(report calls '[.calls[] | select(.mfa == "truths:inner/1") | .callers[] | "\(.mfa) \(.count)"] | join(",")')" \
		= "truths:middle/1 4000" ]
	[ "$(report calls '[.calls[] | select(.mfa == "truths:middle/1") | .callers[] | "\(.mfa) \(.count)"] | join(",")')" \
		= "truths:outer/1 2000" ]
	[ "$(report calls '[.calls[] | select(.mfa | test(":(outer|middle|inner)/")) | .open] | add')" = 0 ]
}

@test "recursive calls nest in themselves" {
	record_around 'truths:recursion(50, 19)' -c truths:count/1
	[ "$(count truths:count/1)" = 1000 ]
	# Of the 20 of each descent, 19 have count/1 as their caller.
	[ "$(report calls '[.calls[0].callers[] | select(.mfa == "truths:count/1").count] | add')" = 950 ]
}

@test "a million tail calls leave the stack as it was" {
	untraced=$(vm_rpc t 'truths:tail(1000000)')
	record_around 'truths:tail(1000000)' -c truths:loop/1 --buffer-size 128M
	[ "$answer" -le $((untraced + 8)) ]
	[ "$(count truths:loop/1)" = 1000001 ]
}

@test "calls that end in a caught exception end, and the next ones do not nest in them" {
	record_around 'truths:caught(1000)' -c truths
	[ "$(count truths:thrower/1)" = 1000 ]
	[ "$(report calls '[.calls[] | select(.mfa == "truths:thrower/1")][0].open')" = 0 ]
	[ "$(report calls '[.calls[] | select(.mfa == "truths:thrower/1") | .callers[] | select(.mfa == "truths:thrower/1")] | length')" = 0 ]
	# inner/1 is called by thrower/1 and by nobody else.
	[ "$(report calls '[.calls[] | select(.mfa == "truths:inner/1") | .callers[] | "\(.mfa) \(.count)"] | join(",")')" \
		= "truths:thrower/1 1000" ]
}

@test "a call that nobody's catch ends is ended by its process's exit" {
	record_around 'truths:crash()' -c truths:thrower/1
	[ "$(count truths:thrower/1)" = 1 ]
	[ "$(report calls '.calls[0].open')" = 0 ]
}

@test "1,000 messages each way are 1,000 sends and 1,000 receives, paired" {
	record_around 'truths:messages(1000)' --messages
	pids=$(jq -c . <<< "$(tr '{}' '[]' <<< "$answer")")
	from=$(jq -r '.[0]' <<< "$pids") to=$(jq -r '.[1]' <<< "$pids")
	# 1,000 pings and one stop there, 1,000 pongs back.
	[ "$(report messages '[.pairs[] | select(.from == $f and .to == $t)][0] | "\(.count) \(.unmatched)"' \
		--arg f "$from" --arg t "$to")" = "1001 0" ]
	[ "$(report messages '[.pairs[] | select(.from == $t and .to == $f)][0] | "\(.count) \(.unmatched)"' \
		--arg f "$from" --arg t "$to")" = "1000 0" ]
	[ "$(events 'select(.kind == "send" and .process == $t) | .kind' --arg t "$to" | wc -l)" = 1000 ]
	[ "$(events 'select(.kind == "receive" and .process == $t) | .kind' --arg t "$to" | wc -l)" = 1001 ]
}

@test "GC starts and ends pair up" {
	record_around 'truths:garbage(20)' --gc
	pid=$(jq -r . <<< "$answer")
	[ "$(report gc '[.processes[] | select(.process == $p)][0].major >= 20' --arg p "$pid")" = true ]
	starts=$(events 'select(.process == $p and (.kind | test("^gc_(minor|major)_start$"))) | .kind' --arg p "$pid" | wc -l)
	ends=$(events 'select(.process == $p and (.kind | test("^gc_(minor|major)_end$"))) | .kind' --arg p "$pid" | wc -l)
	[ "$starts" -ge 20 ]
	[ "$starts" = "$ends" ]
	[ "$(report gc '[.processes[] | select(.process == $p)][0] | .minor + .major' --arg p "$pid")" = "$starts" ]
}

@test "GC on dirty schedulers has its starts and ends, on a dirty thread" {
	record_around 'truths:dirty(3)' --gc
	pid=$(jq -r . <<< "$answer")
	[ "$(report gc '[.processes[] | select(.process == $p)][0].major >= 3' --arg p "$pid")" = true ]
	dirty=$(events 'select(.process == $p and .kind == "gc_major_end" and .thread.role == "dirty_cpu") | .kind' \
		--arg p "$pid" | wc -l)
	[ "$dirty" -ge 3 ]
}

@test "a spawn tree has its parents" {
	record_around 'truths:spawn_tree(5)' -e procs
	events 'select(.kind == "spawned") | "\(.process) \(.parent)"' | sort > "$VM_DIR/seen"
	tr -d '[]" \n' <<< "$answer" | sed 's/{//g; s/}/\n/g' | sed 's/^,//; s/,/ /' | sort > "$VM_DIR/known"
	[ "$(wc -l < "$VM_DIR/known")" -ge 63 ]
	[ "$(comm -23 <(grep . "$VM_DIR/known") "$VM_DIR/seen" | wc -l)" = 0 ]
}

@test "a name registered, dropped and taken by another is right at each moment" {
	record_around 'truths:names()' -e procs -c truths:inner/1
	first=$(jq -r '.[0]' <<< "$answer") second=$(jq -r '.[1]' <<< "$answer")
	for pid in "$first" "$second"; do
		# Of its three calls only the second was made under the name.
		[ "$(events 'select(.kind == "call" and .process == $p) | .name == "shared_name"' --arg p "$pid" | tr '\n' ' ')" \
			= "false true false " ]
	done
}

# Record a stop of 50 ms; succeeds when each scheduler thread was stopped as long, to within 2 ms.
stop_is_seen() {
	rm -f "$VM_DIR/record.err"
	"$BEAMWEAVE" record -p "$(vm_pid t)" -d 0 -o "$file" --kernel sched 2> "$VM_DIR/record.err" 3>&- &
	local recorder=$! truth length_ns stopped_ns
	vm_wait_for 20 grep -q '^recording' "$VM_DIR/record.err"
	truth=$("$VM_ROOT/build/tests/plant" stop "$(vm_pid t)" 50)
	kill -INT "$recorder"
	wait "$recorder"
	length_ns=$(jq .duration_ns <<< "$truth")
	report threads '.threads[] | select(.role == "normal") | .stopped_ns' > "$VM_DIR/stopped"
	echo "stopped for $length_ns ns, seen: $(tr '\n' ' ' < "$VM_DIR/stopped")"
	[ "$(wc -l < "$VM_DIR/stopped")" = 2 ] || return 1
	while read -r stopped_ns; do
		[ $((stopped_ns - length_ns)) -lt 2000000 ] && [ $((length_ns - stopped_ns)) -lt 2000000 ] || return 1
	done < "$VM_DIR/stopped"
}

@test "50 ms of SIGSTOP are 50 ms stopped on every scheduler thread" {
	record_around 'ok' --kernel sched
	kernel_needed
	# A thread stops when it next has a CPU: on a busy host that may be later than the 2 ms.
	stop_is_seen || stop_is_seen || stop_is_seen || stop_is_seen
	[ "$(report stalls '[.stalls[] | select(.cause == "stopped" and .thread.role == "normal")] | length')" = 2 ]
}

@test "a byte count sent over a socket is the byte count reported" {
	record_around 'truths:bytes(1234567)' --kernel socket
	if [ "$(report summary '.kernel.enabled | index("socket_io") != null')" != true ]; then
		skip "kernel probes: $(report summary '.kernel.missing[0].why')"
	fi
	ports=$(tr '{}' '[]' <<< "$answer")
	client=$(jq '.[0]' <<< "$ports") server=$(jq '.[1]' <<< "$ports")
	[ "$(report sockets '[.sockets[] | select(.local | endswith(":\($c)"))][0].sent_bytes' --arg c "$client")" = 1234567 ]
	[ "$(report sockets '[.sockets[] | select((.local | endswith(":\($s)")) and (.remote | endswith(":\($c)")))][0].received_bytes' \
		--arg c "$client" --arg s "$server")" = 1234567 ]
}

@test "a call's duration agrees with timer:tc around it" {
	record_around 'truths:timed(30)' -c truths:spin/1
	call_ns=$(report calls '.calls[0].max_ns')
	# timer:tc is around the call and counts whole microseconds; what stands between is a few.
	[ "$call_ns" -ge 30000000 ]
	[ "$call_ns" -le $((answer + 1000)) ]
	[ "$call_ns" -ge $((answer - 1000000)) ]
}

@test "a process's time on its scheduler is inside the recording and its slices do not overlap" {
	record_around 'truths:messages(1000)' --running --messages
	[ "$(report processes '.processes[] | select(.running_ns + .runnable_ns + .waiting_ns > $d) | .process' \
		--argjson d "$(report summary .duration_ns)")" = "" ]
	# In the exports' own check, tests/export.bats, nesting and overlap are looked at slice by slice.
	pid=$(jq -r '.[1]' <<< "$(tr '{}' '[]' <<< "$answer")")
	[ "$(report processes '[.processes[] | select(.process == $p)][0].running_ns > 0' --arg p "$pid")" = true ]
}
