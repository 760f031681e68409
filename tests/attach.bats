# SPDX-License-Identifier: Apache-2.0
# Ways into a VM: by process, by node, as a command, as another user, without distribution.

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

calls()
{
	"$BEAMWEAVE" report summary --json x.bwt | jq '.events.by_kind.call // 0'
}

@test "by process id" {
	vm_start a
	vm_busy a
	run "$BEAMWEAVE" record -c lists:seq/2 -d 1 -o x.bwt -p "$(vm_pid a)"
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"recording $(vm_node a) (pid $(vm_pid a)): calls of 1 function"* ]]
	(($(calls) >= 5))
	[[ $("$BEAMWEAVE" report summary --json x.bwt | jq -r .vm.node) == "$(vm_node a)" ]]
	[[ $("$BEAMWEAVE" report summary --json x.bwt | jq -r .vm.attached) == true ]]
	vm_clean a
}

@test "by node name, short and whole, with two nodes running" {
	vm_start a
	vm_start b
	vm_busy a
	local node
	node=$(vm_node a)
	for name in "$node" "${node%@*}"; do
		run "$BEAMWEAVE" record -c lists:seq/2 -d 0.5 -n "$name"
		echo "$output"
		[[ $status == 0 ]]
		[[ $output == *"recording $node (pid $(vm_pid a))"* ]]
	done
	vm_clean a
	vm_clean b
}

@test "by node name through epmd alone" {
	vm_start a
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.3 --without cmdline -n "$(vm_node a)"
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"recording $(vm_node a) (pid $(vm_pid a))"* ]]
	vm_clean a
}

@test "by process id without epmd: its listening sockets are tried" {
	vm_start a
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.3 --without epmd -p "$(vm_pid a)"
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"recording $(vm_node a)"* ]]
	vm_clean a
}

@test "a node that nobody told on the command line: it became one later" {
	vm_start_plain a
	vm_rpc a "net_kernel:start(['bw${VM_ID,,}late', shortnames]), erlang:set_cookie(node(), '$VM_COOKIE')" >/dev/null
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.3 -p "$(vm_pid a)"
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"recording bw${VM_ID,,}late@"* ]]
	vm_clean a
}

@test "with a long name, and a cookie on the command line" {
	vm_launch a -- -name "bw${VM_ID,,}a@127.0.0.1" -setcookie secret
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.3 -p "$(vm_pid a)"
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"recording bw${VM_ID,,}a@127.0.0.1"* ]]
	[[ $output != *secret* ]]
	vm_clean a
}

@test "the cookie from a file that is given" {
	vm_start a
	vm_rpc a "erlang:set_cookie(node(), other)" >/dev/null
	printf 'other\n' >cookie
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.3 -p "$(vm_pid a)" --cookie-file cookie
	echo "$output"
	[[ $status == 0 ]]
	vm_clean a
}

@test "a VM of another user" {
	[[ $(id -u) == 0 ]] || skip "starting a VM as another user needs root"
	vm_start_as nobody a
	vm_busy a
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.5 -p "$(vm_pid a)" -o x.bwt
	echo "$output"
	[[ $status == 0 ]]
	(($(calls) >= 2))
	vm_clean a
}

@test "another user's cookie file that is a link to what that user may not read is not read" {
	[[ $(id -u) == 0 ]] || skip "starting a VM as another user needs root"
	vm_start_as nobody a
	(umask 077 && echo top-secret >"$VM_DIR/secret")
	rm -f "$VM_DIR/home.nobody/.erlang.cookie"
	ln -s "$VM_DIR/secret" "$VM_DIR/home.nobody/.erlang.cookie"
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.3 -p "$(vm_pid a)"
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"no cookie of the VM could be read"* ]]
	vm_clean a
}

@test "where the VM's /tmp is noexec the library goes elsewhere" {
	[[ $(id -u) == 0 ]] || skip "mounting needs root"
	vm_launch a unshare -m sh -c 'mount -t tmpfs -o noexec tmpfs /var/tmp && mount -o remount,noexec /dev/shm && exec "$@"' sh -- \
		-sname "bw${VM_ID,,}a"
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.3 -p "$(vm_pid a)"
	echo "$output"
	[[ $status == 0 ]]
	vm_clean a
}

@test "a VM with process, network and mount namespaces of its own, as in a container" {
	[[ $(id -u) == 0 ]] || skip "namespaces need root"
	local inside
	vm_launch a unshare --fork --kill-child --pid --net --mount --mount-proc sh -c \
		'ip link set lo up && mount -t tmpfs tmpfs /dev/shm && { epmd & } && sleep 0.5 && exec "$@"' sh -- \
		-sname "bw${VM_ID,,}a"
	inside=$(pgrep -P "$(vm_pid a)")
	vm_busy a
	run "$BEAMWEAVE" record -p "$inside" -c lists:seq/2 -d 1 -o x.bwt
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"recording $(vm_node a) (pid $inside): calls of 1 function"* ]]
	(($(calls) >= 5))
	# The threads that wrote are known by their numbers out here.
	local tid
	tid=$("$BEAMWEAVE" report loss --json x.bwt | jq '[.rings[] | select(.tid) | .tid] | max')
	[[ -d /proc/$inside/task/$tid ]]
	[[ -z $(ls "/proc/$inside/root/dev/shm") ]]
	[[ $(vm_traced a) == "[]" ]]
}

@test "a session in /tmp where /dev/shm cannot be had" {
	vm_start a
	vm_busy a
	run "$BEAMWEAVE" record -c lists:seq/2 -d 0.5 -p "$(vm_pid a)" --without devshm -o x.bwt
	echo "$output"
	[[ $status == 0 ]]
	(($(calls) >= 2))
	vm_clean a
}

@test "a command: from its exec, Erlang events from the end of its boot, and its own exit status" {
	run timeout 60 "$BEAMWEAVE" record -c lists:seq/2 -o x.bwt -- \
		env HOME="$VM_DIR/home" erl -noshell -start_epmd false -sname "bw${VM_ID,,}c" \
		-eval 'timer:sleep(2000), [lists:seq(1, 3) || _ <- lists:seq(1, 10)], timer:sleep(300), halt(7).'
	echo "$output"
	[[ $status == 7 ]]
	[[ $output == *"ends with the command"* ]]
	[[ $output == *"(the command ended)"* ]]
	# Ten by the list comprehension's body, one for its own list.
	[[ $(calls) == 11 ]]
}

@test "a command that a script starts as its child" {
	cat >start <<-END
		#!/bin/sh
		HOME=$VM_DIR/home erl -noshell -start_epmd false -sname bw${VM_ID,,}c \
			-eval 'timer:sleep(1500), lists:seq(1, 3), halt().'
		exit 5
	END
	chmod +x start
	run timeout 60 "$BEAMWEAVE" record -c lists:seq/2 -o x.bwt -- ./start
	echo "$output"
	[[ $status == 5 ]]
	[[ $(calls) == 1 ]]
}

@test "a command has the signals that we were started with" {
	"$BEAMWEAVE" record --kernel none -o x.bwt -- grep '^SigIgn' /proc/self/status >with
	grep '^SigIgn' /proc/self/status >without
	diff without with
}

@test "a command's output is its own" {
	run --separate-stderr "$BEAMWEAVE" record -o x.bwt --no-attach -- sh -c 'echo out; exit 3'
	[[ $status == 3 ]]
	[[ $output == out ]]
}

@test "a terminal signal to a command ends it, and its status is passed on" {
	"$BEAMWEAVE" record -o x.bwt --no-attach -- sh -c 'trap "exit 9" TERM; while :; do sleep 0.1; done' 2>err 3>&- &
	local pid=$!
	vm_wait_for 10 grep -q recording err
	kill -TERM "$pid"
	wait "$pid" || status=$?
	cat err
	[[ $status == 9 ]]
	grep -q "the command ended" err
}

@test "a node that is stopped does not hang us: the kernel side alone, and why" {
	[[ $(id -u) == 0 ]] || skip "the kernel side needs privilege"
	vm_start a
	kill -STOP "$(vm_pid a)"
	SECONDS=0
	run timeout 60 "$BEAMWEAVE" record -p "$(vm_pid a)" -d 0.5
	kill -CONT "$(vm_pid a)"
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"kernel only"* ]]
	[[ $output == *"without the VM side: "*"does not answer"* ]]
	vm_clean a
}

@test "a node that is stopped, with calls asked for: exit 1" {
	vm_start a
	kill -STOP "$(vm_pid a)"
	run timeout 60 "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 0.5
	kill -CONT "$(vm_pid a)"
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"does not answer"* ]]
	[[ ! -e beamweave.bwt ]]
	vm_clean a
}

@test "without distribution: the kernel side, and the lines that start it from the VM's shell work" {
	vm_start_plain a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -d 0.3 2>&1
	echo "$output"
	if [[ $(id -u) == 0 ]]; then
		[[ $status == 0 ]]
		[[ $output == *"kernel only"* ]]
	fi
	[[ $output == *"the VM is not distributed"* ]]
	[[ $output == *"$BEAMWEAVE record --session PATH"* ]]
	local line path
	line=$(grep -o 'code:add_pathz.*' <<<"$output")
	line=${line/\#\{events*\}/#\{calls => [\{lists, seq, 2\}]\}}
	vm_busy a
	run vm_rpc a "$line"
	echo "$output"
	path=$(sed -n 's/.*{ok,"\(.*\)"}.*/\1/p' <<<"$output")
	[[ -e $path ]]
	run "$BEAMWEAVE" record --session "$path" -d 0.5 -o x.bwt
	echo "$output"
	[[ $status == 0 ]]
	[[ $output == *"recording pid $(vm_pid a): what the session was started with"* ]]
	(($(calls) >= 2))
	[[ ! -e $path ]]
	vm_clean a
}

@test "without distribution, with calls asked for: exit 1 and the line" {
	vm_start_plain a
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 0.3
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"the VM is not distributed"* ]]
	[[ $output == *"beamweave:start("* ]]
	[[ ! -e beamweave.bwt ]]
}

@test "a session is no other process's" {
	vm_start_plain a
	vm_start_plain b
	local path
	path=$(vm_rpc a "code:add_pathz(\"$(dirname "$BEAMWEAVE")/ebin\"), application:set_env(beamweave, library, \"$(dirname "$BEAMWEAVE")/beamweave_tracer.so\"), {ok, P} = beamweave:start(), P")
	path=${path//\"/}
	run "$BEAMWEAVE" record --session "$path" -p "$(vm_pid b)" -d 0.3
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"does not use the session"* ]]
	vm_rpc a 'beamweave:stop()' >/dev/null
	rm -f "$path"
}

@test "TLS distribution is named, not tried" {
	# What counts is the name of the program and its command line.
	cp "$(command -v bash)" beam.smp
	mkfifo never
	./beam.smp -c 'read -t 60 <>never' beam -- -root /nowhere -- -sname x -proto_dist inet_tls 3>&- &
	local pid=$!
	vm_wait_for 5 grep -q inet_tls "/proc/$pid/cmdline"
	run "$BEAMWEAVE" record -p "$pid" -c lists -d 0.3
	vm_end "$pid"
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"distribution runs over inet_tls"* ]]
	[[ $output == *"beamweave:start("* ]]
}

@test "waiting for a node that does not run yet" {
	local node
	node=$(vm_node a)
	"$BEAMWEAVE" record --wait -n "$node" -c lists:seq/2 -d 0.5 -o x.bwt 2>err 3>&- &
	local pid=$!
	vm_start a
	wait "$pid" || { cat err; false; }
	cat err
	grep -q "recording $node" err
	vm_clean a
}

@test "two VMs are recorded at the same time, one VM only once" {
	vm_start a
	vm_start b
	vm_busy a
	vm_busy b
	"$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 30 -o a.bwt 2>a.err 3>&- &
	local pid=$!
	vm_wait_for 20 grep -q recording a.err
	run "$BEAMWEAVE" record -p "$(vm_pid b)" -c lists:seq/2 -d 0.5 -o x.bwt
	echo "$output"
	[[ $status == 0 ]]
	(($(calls) >= 2))
	run "$BEAMWEAVE" record -p "$(vm_pid a)" -c lists:seq/2 -d 0.5 -o y.bwt
	echo "$output"
	[[ $status == 1 ]]
	[[ $output == *"another beamweave is recording this VM"* ]]
	[[ ! -e y.bwt ]]
	kill -INT "$pid"
	wait "$pid"
	cp a.bwt x.bwt
	(($(calls) >= 2))
	vm_clean a
	vm_clean b
}
