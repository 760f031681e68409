# SPDX-License-Identifier: Apache-2.0
# Erlang VMs for tests. Each test has its own directory, home, cookie and epmd, and ends all that it
# started by process id.
#
#   vm_setup                    in setup(): makes $VM_DIR and an epmd of our own
#   vm_teardown                 in teardown(): stops every VM and the epmd, removes $VM_DIR
#   vm_start NAME [FLAGS...]    starts `erl -sname <unique name>` with FLAGS and waits until it is up
#   vm_start_plain NAME [FLAGS...]   the same without distribution
#   vm_start_as USER NAME [FLAGS...] with distribution, as another user (needs root)
#   vm_pid NAME                 prints the process id of the VM (beam.smp)
#   vm_node NAME                prints the node name, short@host
#   vm_rpc NAME EXPRS           evaluates Erlang expressions in the VM, prints the value with ~tp;
#                               fails, with the exception on stdout, when they fail. Works without
#                               distribution (expressions go through a FIFO); one line, < 3000 bytes;
#                               `.` at the end is optional. Takes at most $VM_RPC_SECONDS (30).
#   vm_alive NAME               succeeds while the VM runs
#   vm_stop NAME                ends a VM (SIGTERM, after 10 s SIGKILL)
#   vm_stop_hard NAME           ends a VM with SIGKILL
#   vm_end PID                  ends a process that the test started, by its id
#   vm_wait_for SECONDS COMMAND...   runs COMMAND every 50 ms until it succeeds, fails after SECONDS
#   vm_traced NAME              prints what is traced in the VM: [] when no process, port, pattern or
#                               new-process flag is left
#   vm_residue NAME             prints files of ours that are left for this VM (/dev/shm, /tmp, ...)
#   vm_busy NAME                starts a process that calls lists:seq/2 a hundred times a second
#   vm_clean NAME               fails when a flag, pattern, process or file of ours is left
#   vm_erlc NAME FILE.erl       compiles into the VM's code path ($VM_DIR/ebin)
#
# $BEAMWEAVE is the program under test. Programs started in the background by a test must close
# bats' own descriptor: `$BEAMWEAVE record ... 3>&- &`.

VM_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BEAMWEAVE=${BEAMWEAVE:-$VM_ROOT/build/beamweave}
export BEAMWEAVE

vm_wait_for()
{
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		if ((SECONDS > end)); then
			echo "timed out: $*" >&2
			return 1
		fi
		sleep 0.05
	done
}

# A port number that nothing uses now.
vm_free_port()
{
	local port
	while :; do
		port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
		if ! (exec 4<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
}

vm_setup()
{
	VM_DIR=$(mktemp -d "${TMPDIR:-/tmp}/bwtest.XXXXXX")
	chmod 755 "$VM_DIR"
	VM_ID=$(basename "$VM_DIR")
	VM_ID=${VM_ID#bwtest.}
	VM_COOKIE=cookie$VM_ID$RANDOM
	mkdir -p "$VM_DIR/home" "$VM_DIR/ebin" "$VM_DIR/vm"
	(umask 077 && printf '%s' "$VM_COOKIE" >"$VM_DIR/home/.erlang.cookie")
	chmod 400 "$VM_DIR/home/.erlang.cookie"
	ERL_EPMD_PORT=$(vm_free_port)
	export VM_DIR VM_ID ERL_EPMD_PORT
	unset ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS RELEASE_NODE
	epmd -port "$ERL_EPMD_PORT" </dev/null >/dev/null 2>&1 3>&- &
	VM_EPMD_PID=$!
	vm_wait_for 10 epmd -names
}

vm_pid()
{
	cat "$VM_DIR/vm/$1.pid"
}

vm_node()
{
	echo "bw${VM_ID,,}$1@$(hostname -s)"
}

vm_alive()
{
	local pid state
	pid=$(vm_pid "$1") || return 1
	state=$(awk '/^State:/ { print $2 }' "/proc/$pid/status" 2>/dev/null) || return 1
	[[ -n $state && $state != Z ]]
}

# The VM reads "ID EXPRS" lines from its standard input and leaves each answer in a file.
vm_control()
{
	cat <<-'END' | tr '\n\t' '  '
		Dir = os:getenv("VM_CONTROL"),
		spawn(fun() ->
			register(vm_control, self()),
			Loop = fun Loop() ->
				case io:get_line('') of
					Line when is_list(Line) ->
						{Id, [_ | Text]} = lists:splitwith(fun(C) -> C =/= $\s end, string:trim(Line)),
						Me = self(),
						spawn(fun() ->
							unlink(Me),
							{Status, Value} = try
								{ok, Tokens, _} = erl_scan:string(string:trim(Text, trailing, ". ") ++ "."),
								{ok, Exprs} = erl_parse:parse_exprs(Tokens),
								{value, V, _} = erl_eval:exprs(Exprs, erl_eval:new_bindings()),
								{"ok", V}
							catch C:R:S -> {"error", {C, R, S}}
							end,
							Out = filename:join(Dir, Id),
							ok = file:write_file(Out ++ ".part",
								unicode:characters_to_binary([Status, $\n, io_lib:format("~tp", [Value]), $\n])),
							ok = file:rename(Out ++ ".part", Out)
						end),
						Loop();
					_ -> ok
				end
			end,
			Loop()
		end)
	END
}

# vm_launch NAME PREFIX... -- FLAGS...
vm_launch()
{
	local name=$1 control=$VM_DIR/vm/$1
	local -a prefix=()
	shift
	while [[ $1 != -- ]]; do
		prefix+=("$1")
		shift
	done
	shift
	mkdir -p "$control"
	chmod 777 "$control"
	[[ -p $control.in ]] || mkfifo -m 666 "$control.in"
	HOME=${VM_HOME:-$VM_DIR/home} VM_CONTROL=$control ERL_CRASH_DUMP=/dev/null \
		"${prefix[@]}" erl -noshell -start_epmd false -pa "$VM_DIR/ebin" "$@" -eval "$(vm_control)" \
		<>"$control.in" >"$control.log" 2>&1 3>&- &
	echo "$!" >"$control.pid"
	if ! VM_RPC_SECONDS=20 vm_rpc "$name" "ok" >/dev/null; then
		echo "VM $name did not start:" >&2
		cat "$control.log" >&2
		return 1
	fi
}

vm_start()
{
	local name=$1 node
	shift
	node=$(vm_node "$name")
	vm_launch "$name" -- -sname "${node%@*}" "$@"
}

vm_start_plain()
{
	local name=$1
	shift
	vm_launch "$name" -- "$@"
}

vm_start_as()
{
	local user=$1 name=$2 node home
	shift 2
	node=$(vm_node "$name")
	home=$VM_DIR/home.$user
	mkdir -p "$home"
	cp "$VM_DIR/home/.erlang.cookie" "$home/.erlang.cookie"
	chmod 400 "$home/.erlang.cookie"
	chown -R "$user:" "$home"
	VM_HOME=$home vm_launch "$name" setpriv --reuid "$user" --regid "$(id -g "$user")" \
		--clear-groups -- -sname "${node%@*}" "$@"
}

vm_rpc()
{
	local name=$1 id=q$RANDOM$RANDOM$RANDOM out status
	out=$VM_DIR/vm/$name/$id
	printf '%s %s\n' "$id" "${2//$'\n'/ }" >"$VM_DIR/vm/$name.in"
	vm_wait_for "${VM_RPC_SECONDS:-30}" test -e "$out" || return 1
	status=$(head -n 1 "$out")
	tail -n +2 "$out"
	rm -f "$out"
	[[ $status == ok ]]
}

vm_end()
{
	local pid=$1
	kill -CONT "$pid" 2>/dev/null || true
	kill "$pid" 2>/dev/null || return 0
	local _
	for _ in {1..200}; do
		# A zombie of this shell is reaped by wait; another parent's is over as well.
		if ! kill -0 "$pid" 2>/dev/null || grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; then
			wait "$pid" 2>/dev/null || true
			return 0
		fi
		sleep 0.05
	done
	kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
}

vm_stop()
{
	[[ -e $VM_DIR/vm/$1.pid ]] || return 0
	vm_end "$(vm_pid "$1")"
	rm -f "$VM_DIR/vm/$1.pid"
}

vm_stop_hard()
{
	local pid
	pid=$(vm_pid "$1")
	kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
	rm -f "$VM_DIR/vm/$1.pid"
}

vm_traced()
{
	vm_rpc "$1" "
		Flags = fun(P) -> try erlang:trace_info(P, flags) of {flags, []} -> []; {flags, F} -> [{P, F}];
			_ -> [] catch _:_ -> [] end end,
		On = fun(M, F, A) -> case erlang:trace_info({M, F, A}, all) of {all, false} -> []; {all, undefined} -> [];
			{all, L} -> case [X || {K, V} = X <- L, V =/= false, K =/= match_spec] of [] -> []; X -> [{M, F, A, X}] end end end,
		lists:append([Flags(P) || P <- processes() ++ erlang:ports() ++ [new_processes, new_ports]])
		++ [{K, V} || {K, V} <- [erlang:trace_info(send, match_spec), erlang:trace_info('receive', match_spec)], V =/= true]
		++ lists:append([On(M, F, A) || {M, _} <- code:all_loaded(), erlang:module_loaded(M),
			{F, A} <- M:module_info(functions)])"
}

vm_residue()
{
	local pid dir
	pid=$(vm_pid "$1")
	for dir in /dev/shm /tmp /var/tmp "$VM_DIR/home"; do
		find "$dir" -maxdepth 1 -name "beamweave*$pid*" 2>/dev/null
	done
}

vm_busy()
{
	vm_rpc "$1" 'spawn(fun() -> F = fun F() -> lists:seq(1, 2), timer:sleep(10), F() end, F() end)' >/dev/null
}

vm_clean()
{
	[[ $(vm_traced "$1") == "[]" ]]
	[[ -z $(vm_residue "$1") ]]
	[[ $(vm_rpc "$1" 'whereis(beamweave_controller)') == undefined ]]
	[[ $(vm_rpc "$1" 'nodes(hidden)') == "[]" ]]
}

vm_erlc()
{
	erlc -o "$VM_DIR/ebin" +debug_info "$2"
}

vm_teardown()
{
	local file
	[[ -n ${VM_DIR:-} ]] || return 0
	for file in "$VM_DIR"/vm/*.pid; do
		[[ -e $file ]] || continue
		vm_stop "$(basename "$file" .pid)"
	done
	[[ -z ${VM_EPMD_PID:-} ]] || vm_end "$VM_EPMD_PID"
	rm -rf "$VM_DIR"
}
