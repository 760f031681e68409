#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The timeline's laws (tests/timeline/timeline_check.c) on recordings of real VMs, and what is known of them.

# shellcheck disable=SC2016 # $names inside jq filters are jq's
bats_require_minimum_version 1.5.0
load lib/vm

setup() {
	vm_setup
	vm_start t +S 2:2 -pa "$VM_ROOT/build/tests/ebin"
	vm_rpc t 'code:ensure_loaded(truths)'
	file="$VM_DIR/a.bwt"
}

teardown() {
	[ -z "${recorder:-}" ] || kill -CONT "$recorder" 2> /dev/null || true
	[ -z "${recorder:-}" ] || kill -INT "$recorder" 2> /dev/null || true
	vm_teardown
}

record_begin() { # RECORD-OPTIONS...
	"$BEAMWEAVE" record -p "$(vm_pid t)" -d 0 -o "$file" "$@" 2> "$VM_DIR/record.err" 3>&- &
	recorder=$!
	vm_wait_for 20 grep -q '^recording' "$VM_DIR/record.err"
}

record_end() {
	kill -INT "$recorder"
	wait "$recorder"
	recorder=
}

# Prints what there is; fails when a law is broken.
laws() { # FILE
	"$VM_ROOT/build/tests/timeline_check" "$1"
}

# One word of what laws() printed: the number after a name.
figure() { # NAME
	tr ' ' '\n' < "$VM_DIR/laws" | grep -x -A1 "$1" | tail -n 1
}

@test "all events of a mixed load keep the laws" {
	record_begin -c truths -e messages,running,gc,procs,ports
	vm_rpc t 'truths:nested(300)'
	vm_rpc t 'truths:caught(300)'
	vm_rpc t 'truths:messages(1000)'
	vm_rpc t 'truths:spawn_tree(5)'
	vm_rpc t 'truths:dirty(2)'
	vm_rpc t 'truths:bytes(100000)'
	vm_rpc t 'truths:crash()'
	vm_rpc t '[file:read_file("/etc/passwd") || _ <- lists:seq(1, 300)], ok'
	record_end
	laws "$file" > "$VM_DIR/laws"
	[ "$(figure runs)" -gt 2000 ]
	[ "$(figure matched)" -ge 2001 ]
	[ "$(figure collections)" -gt 10 ]
}

@test "50 ms of SIGSTOP are 50 ms stopped on every thread" {
	record_begin --kernel sched
	truth=$("$VM_ROOT/build/tests/plant" stop "$(vm_pid t)" 50)
	sleep 0.2
	record_end
	if [ "$("$BEAMWEAVE" report summary "$file" --json | jq '.kernel.enabled | index("sched") != null')" != true ]; then
		skip "kernel probes: $("$BEAMWEAVE" report summary "$file" --json | jq -r '.kernel.missing[0].why')"
	fi
	laws "$file"
	length_ns=$(jq .duration_ns <<< "$truth")
	"$BEAMWEAVE" report threads "$file" --json |
		jq -r '.threads[] | select(.role != "other") | "\(.stopped_ns) \(.runnable_ns)"' > "$VM_DIR/stopped"
	[ "$(wc -l < "$VM_DIR/stopped")" -ge 4 ]
	while read -r stopped_ns runnable_ns; do
		# A thread has to run to stop: on a busy machine it waits for a CPU first.
		[ $((stopped_ns + runnable_ns)) -ge $((length_ns - 2000000)) ]
		[ "$stopped_ns" -le $((length_ns + 2000000)) ]
	done < "$VM_DIR/stopped"
	# Each normal scheduler was kept from its work so long.
	[ "$("$BEAMWEAVE" report stalls "$file" --json |
		jq '[.stalls[] | select(.cause == "stopped" and .thread.role == "normal")] | length')" = 2 ]
}

@test "over a loss calls are marked, and the laws hold" {
	record_begin -c truths -e running,gc --buffer-size 1M
	kill -STOP "$recorder"
	vm_rpc t '[truths:tail(50000) || _ <- lists:seq(1, 4)], ok'
	kill -CONT "$recorder"
	vm_rpc t 'truths:nested(100)'
	record_end
	laws "$file" > "$VM_DIR/laws"
	[ "$(figure losses)" -gt 0 ]
	"$VM_ROOT/build/tests/call_dump" "$file" > "$VM_DIR/calls"
	# What was executing when the gap began is doubtful, however it ended.
	[ "$(grep -c 'truths:\(tail\|loop\)/1 .* 0$' "$VM_DIR/calls")" -gt 0 ]
	# None that began after the gap is doubtful.
	[ "$(grep -c 'truths:inner/1 .* returned 1$' "$VM_DIR/calls")" = 400 ]
}

@test "a VM that is killed and a file that is cut keep the laws" {
	record_begin -c truths -e messages,running,gc,procs
	vm_rpc t 'truths:nested(300)'
	vm_rpc t 'spawn(fun() -> truths:tail(100000000) end), ok'
	sleep 0.3
	vm_stop_hard t
	wait "$recorder" || true
	recorder=
	laws "$file" > "$VM_DIR/laws"
	[ "$(figure calls)" -gt 2100 ]
	[ "$(figure open)" -gt 0 ]
	for part in 3 2; do
		head -c $(($(stat -c %s "$file") / part)) "$file" > "$VM_DIR/cut.bwt"
		laws "$VM_DIR/cut.bwt"
	done
}

@test "twice the same recording read gives twice the same timeline" {
	record_begin -c truths -e messages,running
	vm_rpc t 'truths:nested(100)'
	vm_rpc t 'truths:messages(100)'
	record_end
	"$VM_ROOT/build/tests/call_dump" "$file" > "$VM_DIR/first"
	"$VM_ROOT/build/tests/call_dump" "$file" > "$VM_DIR/second"
	[ "$(wc -l < "$VM_DIR/first")" -ge 700 ]
	cmp "$VM_DIR/first" "$VM_DIR/second"
}
