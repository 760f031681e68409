# SPDX-License-Identifier: Apache-2.0
# A VM without distribution, t, in which tests/tracer records itself. After lib/vm.bash.

BUILD=${BUILD:-$VM_ROOT/build}
VM_RPC_SECONDS=120
export BUILD VM_RPC_SECONDS

tracer_setup()
{
	local file
	vm_setup
	export VM_EPMD_PID
	for file in "$VM_ROOT"/tests/tracer/*.erl; do
		vm_erlc t "$file"
	done
	vm_start_plain t +S 2:2 -pa "$BUILD/ebin" -pa "$VM_DIR/ebin" -pa "$BUILD/tests/ebin"
	vm_rpc t 'tracer_test:setup()'
}

tracer_teardown()
{
	rm -f "/dev/shm/bwtest-$(vm_pid t)-"* "/dev/shm/beamweave-$(vm_pid t)-"*
	vm_teardown
}

# Nothing of ours is left in it.
tracer_clean()
{
	[ "$(vm_rpc t 'tracer_test:residue()')" = "[]" ]
}

# tracer_check MODULE:FUNCTION(...): a test in tests/tracer, which returns ok.
tracer_check()
{
	run vm_rpc t "$1"
	# shellcheck disable=SC2154 # `run` sets it
	echo "$output"
	[ "$output" = ok ]
}
