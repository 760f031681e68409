#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# beamweave trace: lines while things happen, of a program of which all is known (workloads/live.erl).

# shellcheck disable=SC2016,SC2154 # $1 is the inner shell's; $stderr is of run --separate-stderr

bats_require_minimum_version 1.5.0
load lib/vm

setup_file() {
	vm_setup
	export VM_EPMD_PID
	vm_start t +S 2:2 -pa "$VM_ROOT/build/tests/ebin"
	vm_rpc t 'code:ensure_loaded(live)'
}

teardown_file() {
	vm_teardown
}

# Begin to trace in the background: $tracer, lines in $out, what is said in $err.
trace_begin() { # OPTIONS...
	out="$VM_DIR/lines" err="$VM_DIR/err"
	rm -f "$err"
	"$BEAMWEAVE" trace -p "$(vm_pid t)" "$@" > "$out" 2> "$err" 3>&- &
	tracer=$!
	vm_wait_for 20 grep -q '^tracing' "$err"
}

trace_around() { # EXPRS OPTIONS...
	local exprs=$1
	shift
	trace_begin -d 0 "$@"
	vm_rpc t "$exprs" > /dev/null
	kill -INT "$tracer"
	wait "$tracer"
}

# Lines without time and process.
said() {
	sed -E 's/^[0-9:.]+ <[0-9.]+> [^ ]+  //; s/ <[0-9.]+ [um]?s>$/ <T>/' "$out"
}

@test "-l 100 prints 100 lines, each call before its end, and says so" {
	trace_begin -l 100 live:add/2
	vm_rpc t 'live:run(1000)'
	wait "$tracer"
	[ "$(wc -l < "$out")" = 100 ]
	grep -q '^100 events: that many were asked for' "$err"
	diff <(said) <(for i in $(seq 1 50); do
		echo "live:add($i, foo)"
		echo "live:add($i, foo) -> {ok,$i,foo} <T>"
	done)
	sort -c -s -k1,1 "$out"
	vm_clean t
}

@test "arguments, values and exceptions are Erlang terms, with nothing that a terminal obeys" {
	trace_around 'live:all()' live:add live:crash live:odd
	diff <(said) - <<- 'EOF'
		live:add(97, 98)
		live:add(97, 98) -> {ok,97,98} <T>
		live:add([], #{a => 1})
		live:add([], #{a => 1}) -> {ok,[],#{a => 1}} <T>
		live:crash({bad,[1,2]})
		live:crash({bad,[1,2]}) raised {error,{bad,[1,2]}} <T>
		live:odd(<<103,114,195,188,195,159,101,32,27,91,51,49,109>>)
		live:odd(<<103,114,195,188,195,159,101,32,27,91,51,49,109>>) -> <<103,114,195,188,195,159,101,32,27,91,51,49,109>> <T>
		live:odd('�[31mé')
		live:odd('�[31mé') -> '�[31mé' <T>
	EOF
	run ! grep -q $'\e' "$out"
	vm_clean t
}

@test "--json lines have the keys of the export, and durations" {
	trace_around 'live:all()' --json live:add
	[ "$(jq -s length "$out")" = 4 ]
	[ "$(jq -r 'select(.kind == "call") | .args' "$out" | tail -1)" = '[[],#{a => 1}]' ]
	[ "$(jq -r 'select(.kind == "return_from") | .value' "$out" | tail -1)" = '{ok,[],#{a => 1}}' ]
	jq -se '[.[] | select(.kind == "return_from") | .duration_ns > 0 and .mfa == "live:add/2"] | all' "$out"
	jq -se 'map(.ts_ns) | . == sort' "$out"
}

@test "a process that waits prints its lines at once, and -d ends" {
	local loop
	loop=$(vm_rpc t 'register(live_loop, spawn(live, loop, [x])), ok')
	[ "$loop" = ok ]
	trace_begin -d 2 -l 0 --capture args live:add
	vm_wait_for 2 grep -q 'live_loop  live:add(' "$out"
	kill -0 "$tracer"
	wait "$tracer"
	grep -q 'events: the time is over (-d)$' "$err"
	run ! grep -q -- '->' "$out"
	vm_clean t
}

@test "a reader that has enough ends it, and nothing is left on the node" {
	run -0 --separate-stderr bash -c '"$1" trace -p "$2" -d 60 -l 0 live:add/2 | head -3' - "$BEAMWEAVE" "$(vm_pid t)"
	[ "${#lines[@]}" = 3 ]
	vm_clean t
}

@test "a reader that reads nothing loses lines, which are counted, and does not keep us" {
	local reader lost
	mkfifo "$VM_DIR/fifo"
	# shellcheck disable=SC2217 # it holds the pipe open
	sleep 120 < "$VM_DIR/fifo" 3>&- &
	reader=$!
	vm_rpc t 'register(live_busy, spawn(fun F() -> live:run(1000), erlang:yield(), F() end)), ok'
	rm -f "$VM_DIR/err"
	"$BEAMWEAVE" trace -p "$(vm_pid t)" -d 2 -l 0 live:add/2 > "$VM_DIR/fifo" 2> "$VM_DIR/err" 3>&-
	vm_rpc t 'exit(whereis(live_busy), kill)'
	lost=$(sed -nE 's/.*; ([0-9]+) of them lost: standard output was not read in time$/\1/p' "$VM_DIR/err")
	kill "$reader"
	[ "$lost" -gt 0 ]
	vm_clean t
}

@test "messages show what was sent, and only what was asked for is printed" {
	trace_around 'P = spawn(fun() -> receive {stop, _} -> ok end end), P ! {stop, now}, ok' --messages -l 0
	grep -qE 'send to <[0-9.]+>.*: \{stop,now\}$' "$out"
	grep -qE 'receive \{stop,now\}$' "$out"
	run ! grep -qE '  (spawn|link|exit) ' "$out"
}

@test "colour is for terminals, or for whoever wants it" {
	trace_around 'live:all()' live:add
	run ! grep -q $'\e' "$out"
	trace_around 'live:all()' --color always live:add
	grep -q $'\e\\[36mlive:add\e\\[0m(97, 98)' "$out"
}

@test "a VM that ends ends it, and what it did last is printed" {
	vm_start u +S 2:2 -pa "$VM_ROOT/build/tests/ebin"
	vm_rpc u 'code:ensure_loaded(live)'
	rm -f "$VM_DIR/err"
	"$BEAMWEAVE" trace -p "$(vm_pid u)" -d 60 -l 0 live:add > "$VM_DIR/lines" 2> "$VM_DIR/err" 3>&- &
	tracer=$!
	vm_wait_for 20 grep -q '^tracing' "$VM_DIR/err"
	vm_rpc u 'live:run(3)'
	vm_stop_hard u
	wait "$tracer"
	[ "$(grep -c 'live:add(3, foo)' "$VM_DIR/lines")" = 2 ]
	grep -q '^6 events: the VM ended' "$VM_DIR/err"
}

@test "wrong use is told where it is wrong" {
	run -2 "$BEAMWEAVE" trace lists
	[[ "$output" == *"what is to be traced?"* ]]
	run -2 "$BEAMWEAVE" trace -p 1
	[[ "$output" == *"what is to be printed?"* ]]
	run -2 "$BEAMWEAVE" trace -p 1 'live:+'
	[[ "$output" == *"live:+"*"     ^"* ]]
	run -1 "$BEAMWEAVE" trace -p "$(vm_pid t)" live:ad/2
	[[ "$output" == *"did you mean: live:add/2"* ]]
	vm_clean t
}

@test "a command is traced from its start, and its status passed on" {
	run -7 --separate-stderr "$BEAMWEAVE" trace live:add/2 -l 0 -- erl -noshell -sname "live$$" \
		-pa "$VM_ROOT/build/tests/ebin" -eval 'code:ensure_loaded(live), timer:sleep(3000), live:add(1, 2), timer:sleep(300), halt(7).'
	[[ "$output" == *"live:add(1, 2) -> {ok,1,2} <"* ]]
	[[ "$stderr" == *"the command ended"* ]]
}
