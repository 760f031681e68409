#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The tracer inside a VM, read by a small program of its own (tests/tracer/ring_dump.c): events of
# every kind, calls and their trees, captured terms, names. How recordings end: tracer_ends.bats.

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

@test "7,000 nested calls are 7,000 calls, each under its caller" {
	tracer_check 'tracer_calls:nested()'
}

@test "100 recursive calls nest in each other" {
	tracer_check 'tracer_calls:recursion()'
}

@test "a million tail calls leave the stack as deep as it is without tracing" {
	tracer_check 'tracer_calls:tail()'
}

@test "a call that ends in a caught exception is followed by a return to its catcher" {
	tracer_check 'tracer_calls:exceptions()'
}

@test "with values captured, exceptions have events, caught or not" {
	tracer_check 'tracer_calls:exceptions_traced()'
}

@test "the call trees of 1,000 random programs are the interpreter's" {
	run -0 vm_rpc t 'tracer_calls:trees(1000)'
	[ "$output" = "{9921,0}" ]
}

@test "the call trees are right in a VM with frame pointers too" {
	vm_start_plain fp +JPperf map -pa "$BUILD/ebin" -pa "$VM_DIR/ebin" -pa "$BUILD/tests/ebin"
	vm_rpc fp 'tracer_test:setup()'
	run -0 vm_rpc fp 'tracer_calls:trees(200)'
	rm -f "/tmp/perf-$(vm_pid fp).map"
	vm_stop fp
	[ "$output" = "{1893,0}" ]
}

@test "arguments that are not captured are not even counted" {
	tracer_check 'tracer_calls:unseen_arguments()'
}

@test "captured terms of every kind come out as they went in" {
	tracer_check 'tracer_calls:capture()'
}

@test "captured terms never take more bytes than asked for, and say when they were cut" {
	tracer_check 'tracer_calls:capture_budget()'
}

@test "redacted terms show no content" {
	tracer_check 'tracer_calls:redact()'
}

@test "code that is loaded anew is traced again" {
	tracer_check 'tracer_calls:reloaded()'
}

@test "a spec that names nothing is refused with near misses" {
	tracer_check 'tracer_calls:specs()'
}

@test "1,000 messages are 1,000 sends and 1,000 receives of the same fingerprints" {
	tracer_check 'tracer_events:messages()'
}

@test "the shape of a message has its type, whatever its size" {
	tracer_check 'tracer_events:shapes()'
}

@test "two VMs give the same term the same fingerprint" {
	vm_start_plain other -pa "$BUILD/ebin" -pa "$VM_DIR/ebin" -pa "$BUILD/tests/ebin"
	vm_rpc other 'tracer_test:setup()'
	# Other atoms first, so that their numbers differ.
	vm_rpc other '[list_to_atom(integer_to_list(N)) || N <- lists:seq(1, 1000)], ok'
	one=$(vm_rpc t '[F || {_, F} <- tracer_events:fingerprints()]')
	two=$(vm_rpc other '[F || {_, F} <- tracer_events:fingerprints()]')
	vm_stop other
	[ -n "$one" ]
	[ "$one" = "$two" ]
}

@test "a message to another node has the same fingerprint there" {
	for name in here there; do
		vm_start "$name" -pa "$BUILD/ebin" -pa "$VM_DIR/ebin" -pa "$BUILD/tests/ebin"
		vm_rpc "$name" 'tracer_test:setup()'
	done
	vm_rpc there 'tracer_events:far_begin()'
	vm_rpc here "net_kernel:connect_node('$(vm_node there)')"
	sent=$(vm_rpc here "tracer_events:far_send('$(vm_node there)')")
	received=$(vm_rpc there 'receive after 300 -> tracer_events:far_end() end')
	vm_stop here
	vm_stop there
	echo "sent $sent received $received"
	[ "$(tr -cd , <<< "$sent")" = ,,, ]
	[ "$sent" = "$received" ]
}

@test "the library needs no libc and no storage that musl refuses to give" {
	run -0 readelf -d "$BUILD/beamweave_tracer.so"
	[[ $output != *NEEDED* ]]
	run -0 readelf -Wr "$BUILD/beamweave_tracer.so"
	[[ $output == *DTPMOD64* || $output == *TLSDESC* ]]
	[[ $output != *TPOFF64* ]]
	# The symbols that it takes from the VM's libc are old and plain ones.
	run -0 nm -D --undefined-only "$BUILD/beamweave_tracer.so"
	libc=$(awk '{ print $NF }' <<< "$output" | grep -v '^enif_\|^driver_\|^erl_drv_\|^erts_aligned_' | sort | tr '\n' ' ')
	echo "$libc"
	[ "$libc" = "__errno_location __tls_get_addr clock_gettime memchr memcmp memcpy memset strlen syscall " ]
}

@test "in and out alternate until the process has exited" {
	tracer_check 'tracer_events:running()'
}

@test "what runs on dirty schedulers says so, and every scheduler's thread is known" {
	tracer_check 'tracer_events:dirty()'
}

@test "garbage collections have a start, an end and their figures" {
	tracer_check 'tracer_events:gc()'
}

@test "spawns, exits, links and names are seen on both sides" {
	tracer_check 'tracer_events:processes()'
}

@test "1,000 processes that come and go are each spawned and exit once" {
	tracer_check 'tracer_events:spawns()'
}

@test "processes of proc_lib and gen are known by what they really run" {
	tracer_check 'tracer_events:initial()'
}

@test "ports open, close, link, run, receive and send" {
	tracer_check 'tracer_events:ports()'
}

@test "sockets are listed with owner and addresses, those that come later too" {
	tracer_check 'tracer_events:port_lists()'
}

@test "names and initial calls are listed though a process does not answer" {
	tracer_check 'tracer_events:names()'
}

@test "20,000 processes are all named" {
	tracer_check 'tracer_events:many_names()'
}

@test "an unknown event is recorded with its tag, and nonsense harms nobody" {
	tracer_check 'tracer_events:unknown()'
}

@test "only the processes asked for are recorded, with their children" {
	tracer_check 'tracer_events:pids()'
}
