# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2317 # each test is a subshell with its own variables
# How a recording ends, and what it leaves: a readable file with a true summary, and nothing else.

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
	if [[ -n ${MOUNTED:-} ]]; then
		umount "$MOUNTED"
	fi
	vm_teardown
}

# One that calls as fast as it can, until it gets `stop`; registered as `storm`.
storm()
{
	vm_rpc "$1" 'spawn(fun() -> register(storm, self()), F = fun F() -> lists:seq(1, 2),
		receive stop -> ok after 0 -> F() end end, F() end)' >/dev/null
}

summary()
{
	"$BEAMWEAVE" report summary --json "${2:-beamweave.bwt}" | jq -r "$1"
}

@test "a duration ends it" {
	vm_start a
	vm_busy a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 0.5
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"ends after 0.5 s or with Ctrl-C"* ]]
	[[ $output == *"next: $BEAMWEAVE report"* ]]
	"$BEAMWEAVE" report summary | grep -q "ended by: duration"
	vm_clean a
}

@test "without anything asked for no flag is set and no pattern" {
	vm_start a
	begin -p "$(vm_pid a)"
	[[ $(vm_traced a) == "[]" ]]
	kill -INT "$RECORD_PID"
	finish
	[[ $status == 0 ]]
	[[ $output == *": names; kernel: "* ]]
	[[ $(summary '.vm.flags | length') == 0 ]]
	vm_clean a
}

@test "Ctrl-C ends it in order" {
	vm_start a
	vm_busy a
	begin -p "$(vm_pid a)" -c lists:seq/2 --messages -d 0
	[[ $(vm_traced a) == *call* ]]
	sleep 0.5
	kill -INT "$RECORD_PID"
	finish
	[[ $status == 0 ]]
	(($(summary .events.by_kind.call) > 0))
	vm_clean a
}

@test "SIGTERM and SIGHUP end it in order" {
	vm_start a
	for signal in TERM HUP; do
		begin -p "$(vm_pid a)" -c lists:seq/2 -d 0
		kill -"$signal" "$RECORD_PID"
		finish
		[[ $status == 0 ]]
		vm_clean a
	done
}

@test "the end of the VM ends it, and the file has what came before" {
	vm_start a
	vm_busy a
	begin -p "$(vm_pid a)" -c lists:seq/2 -d 0
	sleep 0.5
	local pid
	pid=$(vm_pid a)
	vm_stop_hard a
	finish
	[[ $status == 0 ]]
	[[ $output == *"(the VM ended)"* ]]
	(($(summary .events.by_kind.call) > 0))
	[[ -z $(find /dev/shm /tmp -maxdepth 1 -name "beamweave*$pid*") ]]
}

@test "the end of the VM is seen without pidfd as well" {
	vm_start a
	begin -p "$(vm_pid a)" --without pidfd -d 0
	vm_stop_hard a
	finish
	[[ $status == 0 ]]
	[[ $output == *"(the VM ended)"* ]]
}

@test "a number of events ends it and is not exceeded" {
	vm_start a
	storm a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 --kernel none -l 1000 -d 30
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"(--max-events)"* ]]
	local events
	events=$(summary .events.recorded)
	# Blocks of 15 credits are drawn by two schedulers' threads and their dirty ones.
	((events <= 1000 && events >= 700))
	vm_clean a
}

@test "a size ends it and is not exceeded" {
	vm_start a
	storm a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 --max-size 20M --buffer-size 8M -d 60
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"(--max-size)"* ]]
	(($(stat -c %s beamweave.bwt) <= 20 * 1024 * 1024))
	(($(stat -c %s beamweave.bwt) >= 4 * 1024 * 1024))
	vm_clean a
}

@test "a full disk ends it with a readable file" {
	[[ $(id -u) == 0 ]] || skip "mounting needs root"
	vm_start a
	storm a
	mkdir small
	mount -t tmpfs -o size=6m tmpfs small
	MOUNTED=$VM_DIR/small
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 60 -o small/x.bwt
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"cannot write small/x.bwt: No space left on device"* ]]
	[[ $output == *"(the disk is full)"* ]]
	(($(summary .events.by_kind.call small/x.bwt) > 0))
	[[ $(summary .vm.attached small/x.bwt) == true ]]
	run "$BEAMWEAVE" report summary small/x.bwt
	echo "$output"
	[[ $output == *disk* ]]
	vm_clean a
}

@test "a limit for file sizes ends it like a full disk" {
	vm_start a
	storm a
	run bash -c "ulimit -f 40960; exec '$BEAMWEAVE' record -p $(vm_pid a) -c lists:seq/2 --buffer-size 8M -d 60 -o x.bwt"
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"(the disk is full)"* ]]
	(($(summary .events.by_kind.call x.bwt) > 0))
	vm_clean a
}

@test "a FIFO that nobody reads is said at once" {
	vm_start a
	mkfifo f
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -d 1 -o f
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"cannot write f: "*"start its reader first"* ]]
	vm_clean a
}

@test "a device that takes nothing" {
	vm_start a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" --no-attach -d 1 -o /dev/full
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"cannot write /dev/full: No space left on device"* ]]
	[[ -c /dev/full ]]
}

@test "a pipe whose reader goes away ends it" {
	vm_start a
	storm a
	run bash -c "'$BEAMWEAVE' record -p $(vm_pid a) -c lists:seq/2 -d 60 -o - 2>err | head -c 100000 >part; echo \${PIPESTATUS[0]}"
	cat err
	[[ $output == 1 ]]
	grep -q "nobody reads" err
	vm_clean a
}

@test "a stream to standard output is a recording" {
	vm_start a
	vm_busy a
	"$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 0.5 -o - 2>err | cat >x.bwt
	cat err
	(($(summary .events.by_kind.call x.bwt) > 0))
	[[ ! -e beamweave.bwt ]]
}

@test "an old recording becomes .old" {
	vm_start a
	echo first >beamweave.bwt
	run "$BEAMWEAVE" record -p "$(vm_pid a)" --no-attach -d 0.1
	[[ $(cat beamweave.bwt.old) == first ]]
}

@test "SIGKILL of the recorder: the flags go by themselves, the file reads" {
	vm_start a
	vm_busy a
	begin -p "$(vm_pid a)" -c lists:seq/2 --messages --running -d 0
	[[ $(vm_traced a) != "[]" ]]
	sleep 2.5
	kill -KILL "$RECORD_PID"
	wait "$RECORD_PID" || true
	RECORD_PID=
	# Two seconds of lease, a poll, and slices of processes; how long is not the point here.
	gone()
	{
		[[ $(vm_traced a) == "[]" && $(vm_rpc a 'whereis(beamweave_controller)') == undefined ]]
	}
	vm_wait_for 20 gone
	run "$BEAMWEAVE" report summary beamweave.bwt
	echo "$output"
	[[ $status == 0 ]]
	(($(summary .events.by_kind.call) > 0))
	[[ $(summary .vm.attached) == true ]]
	# And the next recording works.
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 0.3
	echo "$output"
	[[ $status == 0 ]]
	vm_clean a
}

@test "SIGKILL of the recorder while it attaches: no file is left" {
	vm_start a
	local code
	code=$(dirname "$BEAMWEAVE")
	vm_rpc a "application:set_env(beamweave, library, \"$code/beamweave_tracer.so\"),
		[{module, _} = code:load_abs(filename:rootname(File)) || File <- filelib:wildcard(\"$code/ebin/*.beam\")]" >/dev/null
	# Somebody who has the controller's name and does not answer: the start tries for a while.
	vm_rpc a 'spawn(fun() -> register(beamweave_controller, self()), receive stop -> ok end end)' >/dev/null
	"$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 30 2>err 3>&- &
	RECORD_PID=$!
	there()
	{
		[[ -n $(vm_residue a) ]]
	}
	gone()
	{
		[[ -z $(vm_residue a) ]]
	}
	vm_wait_for 20 there
	kill -KILL "$RECORD_PID"
	wait "$RECORD_PID" || true
	RECORD_PID=
	vm_wait_for 10 gone
	vm_rpc a 'beamweave_controller ! stop' >/dev/null
	[[ $(vm_traced a) == "[]" ]]
}

@test "a session that is truncated under us: Erlang events end, we do not" {
	[[ $(id -u) == 0 ]] || skip "the kernel side, which goes on, needs privilege"
	vm_start a
	begin -p "$(vm_pid a)" -d 0
	# Its name is gone as soon as both sides have it.
	[[ -z $(vm_residue a) ]]
	local fd
	fd=$(find "/proc/$RECORD_PID/fd" -lname "/dev/shm/beamweave-$(vm_pid a)-*")
	# A stopped VM does not touch the pages that go.
	kill -STOP "$(vm_pid a)"
	truncate -s 0 "$fd"
	vm_wait_for 10 grep -q "truncated by others" err
	kill -INT "$RECORD_PID"
	finish
	[[ $status == 0 ]]
	[[ $output == *"Erlang events end here, the kernel's go on"* ]]
	vm_stop_hard a
}

@test "a full ring: what is lost is counted, and --fail-on-loss says so" {
	vm_start a
	storm a
	begin -p "$(vm_pid a)" -c lists:seq/2 --kernel none --fail-on-loss --buffer-size 1M -d 0
	# A reader that sleeps longer than a ring of 1 MB lasts, but not longer than its lease.
	kill -STOP "$RECORD_PID"
	sleep 1
	kill -CONT "$RECORD_PID"
	sleep 0.3
	kill -INT "$RECORD_PID"
	finish
	[[ $status == 3 ]]
	(($(summary .events.discarded) > 0))
	vm_clean a
}

@test "overwrite mode keeps the newest events until the end" {
	vm_start a
	storm a
	begin -p "$(vm_pid a)" -c lists:seq/2 --kernel none --mode overwrite --buffer-size 1M -d 0
	sleep 1
	vm_rpc a 'storm ! stop' >/dev/null
	kill -INT "$RECORD_PID"
	finish
	[[ $status == 0 ]]
	(($(summary .events.by_kind.call) > 1000))
	# One megabyte, and the names.
	(($(stat -c %s beamweave.bwt) < 4 * 1024 * 1024))
	vm_clean a
}

@test "flags and patterns that others had set stay as they were" {
	vm_start a
	vm_rpc a 'T = spawn(fun() -> register(someone, self()), receive stop -> ok end end),
		P = spawn(fun() -> register(traced, self()), receive stop -> ok end end),
		erlang:trace(P, true, [procs, call, {tracer, T}]),
		erlang:trace_pattern({lists, reverse, 1}, true, [local])' >/dev/null
	local before
	before=$(vm_traced a)
	[[ $before == *traced* || $before == *procs* ]]
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -c string -e messages,gc,running,procs -d 0.5
	echo "$output"
	[[ $status == 0 ]]
	[[ $(vm_traced a) == "$before" ]]
}

@test "each kernel probe can be done without, with one line" {
	[[ $(id -u) == 0 ]] || skip "the kernel side needs privilege"
	vm_start a
	local probe
	for probe in sched process blocking socket socket_io; do
		run "$BEAMWEAVE" record -p "$(vm_pid a)" -d 0.1 --without "$probe"
		echo "$output"
		[[ $status == 0 ]]
		[[ $(grep -c "^  without $probe: " <<<"$output") == 1 ]]
		[[ $(summary ".kernel.enabled | index(\"$probe\")") == null ]]
	done
}

@test "without privilege the VM side works alone" {
	[[ $(id -u) == 0 ]] || skip "becoming another user needs root"
	vm_start_as nobody a
	vm_busy a
	mkdir out
	chown nobody out
	cp "$BEAMWEAVE" out/beamweave
	run setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups \
		out/beamweave record -p "$(vm_pid a)" -c lists:seq/2 -d 0.5 -o out/x.bwt
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"without sched: "* ]]
	(($(summary .events.by_kind.call out/x.bwt) > 0))
	vm_clean a
}

at_most() { # PROCESSES
	(($(vm_rpc a 'length(processes())') <= $1))
}

@test "recording again and again leaves nothing on the node" {
	vm_start a
	vm_busy a
	local processes
	processes=$(vm_rpc a 'length(processes())')
	for _ in 1 2 3 4 5; do
		run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 --gc -d 0.1
		[[ $status == 0 ]]
	done
	# The end of a connection's processes may come a moment after it.
	vm_wait_for 10 at_most "$processes"
	vm_clean a
}

@test "a file of limited size does not grow past it in a storm of calls" {
	vm_start a
	storm a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 --max-size 20M -d 60
	echo "$output"
	[[ $status == 0 && $output == *"(--max-size)"* ]]
	(($(stat -c %s beamweave.bwt) <= 20 * 1024 * 1024))
	"$BEAMWEAVE" report summary | grep -q "ended by: max_size"
	vm_rpc a 'storm ! stop' >/dev/null
	vm_clean a
}
