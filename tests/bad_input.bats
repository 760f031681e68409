# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031 # each test is a subshell with its own variables
# What cannot be done is said in one clear line, with the exit code that the manual names, and leaves
# nothing behind: no file, no shared memory, no trace flag.

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

# refused STATUS TEXT ARGUMENT...: record fails so, says TEXT, and makes no recording.
refused()
{
	local want=$1 text=$2
	shift 2
	run timeout 60 "$BEAMWEAVE" record "$@"
	echo "$output"
	[[ $status == "$want" ]]
	[[ $output == *"$text"* ]]
	[[ ! -e beamweave.bwt ]]
}

# The message is one line, and maybe an indented one of what to do.
one_line()
{
	[[ $(grep -cv '^  ' <<<"$output") == 1 ]]
}

@test "no such process" {
	local pid
	sleep 0 &
	pid=$!
	wait "$pid"
	refused 1 "there is no process $pid" -p "$pid"
	one_line
}

@test "a process that is no Erlang VM" {
	refused 1 "process $BASHPID is no Erlang VM: it runs " -p "$BASHPID"
	one_line
}

@test "a kernel thread and a thread are no VMs" {
	vm_start a
	local tid
	tid=$(find "/proc/$(vm_pid a)/task" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -n 1)
	refused 1 "$tid is a thread of process $(vm_pid a)" -p "$tid"
	if [[ -e /proc/2 && ! -s /proc/2/cmdline ]]; then
		refused 1 "process 2 is no Erlang VM" -p 2
	fi
}

@test "a process id that is no number" {
	refused 2 "a process id is expected" -p 12x
	refused 2 "a process id is expected" -p -1
	refused 2 "a process id is expected" -p 99999999999999999999
}

@test "no node of that name" {
	refused 1 "no node nobody@here runs on this host" -n nobody@here
	one_line
}

@test "no target, and two" {
	refused 2 "what is to be recorded?"
	refused 2 "give one target" -p 1 -n x
	refused 2 "give one target" -p 1 -- true
}

@test "unknown options and words" {
	refused 2 "unrecognized option" -p 1 --no-such-option
	refused 2 "there is no 'messges'; there are: messages running gc" -p 1 -e gc,messges
	refused 2 "there is no 'x'; there are: sched process" -p 1 --without x
	refused 2 "nif, port, ip or none is expected" -p 1 --tracer x
	refused 2 "discard or overwrite is expected" -p 1 --mode x
	refused 2 "a time like" -p 1 -d x
	refused 2 "a time like" -p 1 -d -1
	refused 2 "a size like" -p 1 --max-size x
	refused 2 "a size like" -p 1 --buffer-size 1
	refused 2 "a number of events" -p 1 -l 0
	run "$BEAMWEAVE" nonsense
	[[ $status == 2 && $output == *"no command 'nonsense'"* ]]
}

@test "options that exclude each other" {
	refused 2 "without attaching" -p 1 --no-attach -c lists
	refused 2 "without attaching" -p 1 --tracer none -e gc
	refused 2 "is chosen in beamweave:start/1" --session x -c lists
	refused 2 "--kernel none excludes" -p 1 --kernel none -e sched
	refused 2 "--pids goes with" -p 1 --pids init
}

# caret SPEC COLUMN TEXT: the message shows the spec with a caret under that column (from 0).
caret()
{
	local spec=$1 column=$2 text=$3
	run "$BEAMWEAVE" record -p 1 -c "$spec"
	echo "$output"
	[[ $status == 2 ]]
	[[ ${lines[0]} == "beamweave: -c: $text" ]]
	[[ ${lines[1]} == "  $spec" ]]
	[[ ${lines[2]} == "  $(printf '%*s' "$column" '')^" ]]
}

@test "a malformed spec is shown with a caret under the wrong character" {
	caret "lists:seq/x" 10 "an arity is a number from 0 to 255"
	caret "lists:seq/256" 10 "an arity is a number from 0 to 255"
	caret "lists:seq/2x" 11 "this character does not belong here"
	caret "lists:" 6 "a name is expected here"
	caret "lists:seq/" 10 "an arity is a number from 0 to 255"
	caret "lists/2" 5 "a function is expected before an arity"
	caret "lists seq" 5 "this character does not belong here"
	caret "lists:'seq" 6 "this quote is not closed"
	caret "4lists" 0 "a module's name does not begin with a digit"
	caret "My.App.4x" 7 "a function's name does not begin with a digit"
	caret "_:seq/2" 0 "a module has to be named: all of them are too many"
	caret "größe:läuft ab" 11 "this character does not belong here"
}

@test "a wrong cookie" {
	vm_start a
	printf wrong >cookie
	refused 1 "refused the cookie (from cookie)" -p "$(vm_pid a)" -c lists --cookie-file cookie
	[[ $output == *"--cookie-file FILE"* ]]
	[[ $(vm_traced a) == "[]" ]]
}

@test "a wrong cookie without anything asked for by name: the kernel side alone, and why" {
	vm_start a
	printf wrong >cookie
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -d 0.2 --cookie-file cookie
	echo "$output"
	if [[ $(id -u) != 0 ]]; then
		skip "the kernel side needs CAP_BPF and CAP_PERFMON, or root"
	fi
	[[ $status == 0 ]]
	[[ $output == *"kernel only"* ]]
	[[ $output == *"without the VM side: "*"refused the cookie"* ]]
}

@test "a cookie file that cannot be read or is empty" {
	vm_start a
	refused 1 "cannot read a cookie from nothing: No such file" -p "$(vm_pid a)" -c lists --cookie-file nothing
	: >empty
	refused 1 "cannot read a cookie from empty: it is empty" -p "$(vm_pid a)" -c lists --cookie-file empty
}

@test "a node that is down: it has a name and listens nowhere" {
	vm_start a -dist_listen false
	refused 1 "listens nowhere" -p "$(vm_pid a)" -c lists
	one_line
}

@test "a module that is not there, with near misses" {
	vm_start a
	refused 1 "the node has no module listss" -p "$(vm_pid a)" -c listss
	[[ $output == *"did you mean: "*"lists"* ]]
	[[ $(vm_traced a) == "[]" ]]
	[[ -z $(vm_residue a) ]]
}

@test "a function that is not there, with near misses" {
	vm_start a
	refused 1 "nothing on the node matches lists:seqq" -p "$(vm_pid a)" -c lists:seqq
	[[ $output == *"did you mean: "*"seq"* ]]
	[[ $(vm_traced a) == "[]" ]]
	[[ -z $(vm_residue a) ]]
}

@test "a process that is not there" {
	vm_start a
	refused 1 "the node has no process nobody" -p "$(vm_pid a)" -e gc --pids nobody
	[[ -z $(vm_residue a) ]]
}

other_tracer()
{
	vm_rpc "$1" 'T = spawn(fun() -> register(someone, self()), receive stop -> ok end end),
		erlang:trace(whereis(vm_control), true, [procs, {tracer, T}])' >/dev/null
}

@test "a tracer that is already there: whose" {
	vm_start a
	other_tracer a
	refused 1 "another tracer is there" -p "$(vm_pid a)" -e gc --pids vm_control
	[[ $output == *someone* ]]
	[[ $(vm_rpc a 'element(2, erlang:trace_info(whereis(vm_control), flags))') == "[procs]" ]]
	[[ -z $(vm_residue a) ]]
}

@test "a tracer of one process: the others are recorded, with a line that says whose" {
	vm_start a
	other_tracer a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -e gc -d 0.5
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"traced by"*someone* ]]
	[[ $(vm_rpc a 'element(2, erlang:trace_info(whereis(vm_control), flags))') == "[procs]" ]]
}

@test "output that cannot be written" {
	vm_start a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -o /nonexistent/x.bwt
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"cannot write /nonexistent/x.bwt: No such file or directory"* ]]
	mkdir folder
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -o folder
	[[ $status == 1 ]]
	[[ $output == *"cannot write folder: "* ]]
	[[ $(vm_traced a) == "[]" ]]
}

@test "what stood in the output's place is back after a failure" {
	vm_start a
	echo old >kept.bwt
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c listss -o kept.bwt
	[[ $status == 1 ]]
	[[ $(cat kept.bwt) == old ]]
	[[ ! -e kept.bwt.old ]]
}

@test "no room for the ring" {
	[[ $(id -u) == 0 ]] || skip "mounting needs root"
	# A VM with a small /dev/shm, as containers have: it is the VM's that counts.
	vm_launch a unshare -m sh -c 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$@"' sh -- \
		-sname "bw${VM_ID,,}a"
	refused 1 "no room for the ring: /dev/shm/beamweave-" -p "$(vm_pid a)"
	[[ $output == *"has 8 MB free, "*" MB are needed"* ]]
	[[ $output == *"--buffer-size"* ]]
	one_line
	[[ -z $(ls "/proc/$(vm_pid a)/root/dev/shm") ]]
	[[ $(vm_traced a) == "[]" ]]
}

@test "a probe that is asked for by name and refused" {
	vm_start a
	refused 1 "the kernel probe 'sched' was asked for and cannot be had" -p "$(vm_pid a)" -e sched --without sched
	one_line
	refused 1 "the kernel probe 'syscall' was asked for" -p "$(vm_pid a)" --kernel syscall --without syscall
}

@test "a session that is none" {
	echo nothing >x
	refused 1 "x is no session of beamweave" --session x
	refused 1 "cannot open the session y: No such file" --session y
	ln -s x z
	refused 1 "cannot open the session z" --session z
	[[ -e x && -L z ]]
	head -c 1000000 /dev/urandom >r
	refused 1 "r is no session of beamweave" --session r
	mkfifo f
	refused 1 "f is no session of beamweave" --session f
}

@test "a command that cannot be run" {
	refused 1 "cannot run ./nothing: No such file or directory" -- ./nothing
	one_line
}

@test "a command that is no Erlang VM, with calls asked for" {
	run "$BEAMWEAVE" record -c lists -- true
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"the recording ended before the VM was attached"* ]]
}

@test "standard output that is a terminal" {
	command -v script >/dev/null || skip "no script(1)"
	run script -qec "$BEAMWEAVE record -p 1 -o -" /dev/null
	[[ $status == 2 ]]
	[[ $output == *"standard output is a terminal"* ]]
}
