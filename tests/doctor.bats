# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2030,SC2031 # what bash -c expands; each test is a subshell
# What doctor says of hosts and VMs whose state the test has made.

bats_require_minimum_version 1.5.0

load lib/vm.bash

setup()
{
	vm_setup
	cd "$VM_DIR" || return
}

teardown()
{
	vm_teardown
}

# doctor STATUS ARGUMENT...: its JSON is in $output.
doctor()
{
	local want=$1
	shift
	run --separate-stderr timeout 60 "$BEAMWEAVE" doctor --json "$@"
	jq -c '.checks[] | select(.status == "missing")' <<<"$output"
	[[ $status == "$want" ]]
	jq -e '.schema == 1' <<<"$output" >/dev/null
}

# row AREA WHAT: its status, detail and fix.
row()
{
	jq -r --arg area "$1" --arg what "$2" \
		'.checks[] | select(.area == $area and .what == $what) | "\(.status) \(.detail) | \(.fix)"' \
		<<<"$output"
}

@test "a healthy host and VM have all that a recording needs, and are left as they were" {
	[[ $(id -u) == 0 ]] || skip "kernel probes need root"
	vm_start a
	doctor 0 -p "$(vm_pid a)"
	[[ $(row vm node) == "ok $(vm_node a | cut -d@ -f1)"* ]]
	[[ $(row vm cookie) == "ok accepted, from $VM_DIR/home/.erlang.cookie"* ]]
	[[ $(row vm OTP) == "ok OTP $(vm_rpc a 'list_to_integer(erlang:system_info(otp_release))') (jit), $(
		vm_rpc a 'erlang:system_info(schedulers)') schedulers"* ]]
	[[ $(row vm clock) == "ok CLOCK_MONOTONIC"* ]]
	[[ $(row vm tracer) == "ok "* ]]
	for probe in sched process blocking socket socket_io syscall; do
		[[ $(row kernel "$probe") == "ok "* ]]
	done
	jq -e --argjson pid "$(vm_pid a)" '.vms[] | select(.pid == $pid).about | test("user root")' <<<"$output"
	vm_clean a
	[[ $(vm_rpc a 'code:is_loaded(beamweave_controller)') == false ]]
	"$BEAMWEAVE" doctor -n "$(vm_node a)" >out
	grep -q "ok .* cookie" out
}

@test "each probe that is missing is said with its reason" {
	for probe in sched process blocking socket socket_io syscall; do
		doctor 1 --without "$probe"
		[[ $(row kernel "$probe") == "missing "* ]]
	done
}

@test "without rights it says which are missing and how to have them" {
	[[ $(id -u) == 0 ]] || skip "changing the user needs root"
	cp "$BEAMWEAVE" "$VM_DIR/beamweave"
	run -1 --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$VM_DIR/beamweave" doctor --json
	[[ $(row host rights) == "missing missing: CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE | sudo "* ]]
	[[ $(row kernel sched) == "missing "*"run as root"* ]]
}

@test "a VM without distribution, a wrong cookie, another tracer, a recording" {
	vm_start_plain plain
	doctor 1 -p "$(vm_pid plain)"
	[[ $(row vm node) == "missing the VM is not distributed"*"beamweave:start("* ]]
	[[ $(row vm library) == "ok "* ]]

	vm_start a
	(umask 077 && echo wrong >cookie)
	doctor 1 -p "$(vm_pid a)" --cookie-file cookie
	[[ $(row vm cookie) == "missing "* ]]

	vm_rpc a 'erlang:trace(new_processes, true, [procs, {tracer, whereis(init)}])'
	doctor 1 -p "$(vm_pid a)"
	[[ $(row vm tracer) == "missing new processes have a tracer already: {tracer, <"*".0.0>}"*"dbg:stop()" ]]
	vm_rpc a 'erlang:trace(new_processes, false, [all])'

	"$BEAMWEAVE" record -p "$(vm_pid a)" -d 20 --kernel none --gc -o r.bwt 2>err 3>&- &
	local recorder=$!
	vm_wait_for 10 grep -q "recording" err
	vm_wait_for 10 vm_rpc a 'true = is_pid(whereis(beamweave_controller))'
	doctor 1 -p "$(vm_pid a)"
	[[ $(row vm recording) == "missing beamweave records this VM already"* ]]
	kill -INT "$recorder"
	wait "$recorder"
	vm_clean a
}

@test "where no epmd answers it says so, and that it is not needed" {
	ERL_EPMD_PORT=$(vm_free_port)
	export ERL_EPMD_PORT
	run --separate-stderr "$BEAMWEAVE" doctor --json
	[[ $(row host epmd) == "note none answers at 127.0.0.1:$ERL_EPMD_PORT"*"| epmd -daemon" ]]
}

@test "every fix is a command that there is, or says what to do" {
	cp "$BEAMWEAVE" "$VM_DIR/beamweave"
	run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
		"$VM_DIR/beamweave" doctor --json
	[[ $(jq '[.checks[] | select(.status == "missing" and .fix == null)] | length' <<<"$output") == 0 ]]
}

@test "bad input is one line and exit 2 or 1" {
	for arguments in "-p x" "-p 0" "-p -5" "extra" "--without nonsense" "-p 1 -n a" "--nonsense"; do
		# shellcheck disable=SC2086 # words
		run "$BEAMWEAVE" doctor $arguments
		[[ $status == 2 ]]
	done
	run "$BEAMWEAVE" doctor -n "nobody$$"
	[[ $status == 1 && $output == "beamweave: no node nobody$$ runs on this host"* ]]
	run "$BEAMWEAVE" doctor -p $$
	[[ $status == 1 && $output == *"is no Erlang VM"* ]]
	run -1 bash -c '"$1" doctor --json >/dev/full' bash "$BEAMWEAVE"
	[[ $output == "beamweave: cannot write: No space left on device" ]]
}
