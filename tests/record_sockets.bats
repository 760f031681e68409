# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031 # each test is a subshell with its own variables
# Whose sockets they are.

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
	vm_teardown
}

@test "connections that live for milliseconds: the port and the owner of each are known" {
	[[ $(id -u) == 0 ]] || skip "the kernel side needs root"
	cat >short.erl <<-'END'
		-module(short).
		-export([go/1]).
		%% "LOCAL-PORT REMOTE-PORT ERLANG-PORT OWNER" of both ends of so many connections.
		go(Count) ->
			{ok, L} = gen_tcp:listen(0, [binary, {active, false}]),
			{ok, Number} = inet:port(L),
			Me = self(),
			spawn_link(fun() -> accept(L, Me) end),
			Lines = lists:append([connect(Number) || _ <- lists:seq(1, Count)]),
			ok = file:write_file("truth", Lines),
			ok.
		connect(Number) ->
			{ok, S} = gen_tcp:connect("127.0.0.1", Number, [binary, {active, false}]),
			Ours = line(S),
			ok = gen_tcp:send(S, <<"hello">>),
			{ok, <<"hello">>} = gen_tcp:recv(S, 5),
			ok = gen_tcp:close(S),
			receive {served, Theirs} -> [Ours, Theirs] end.
		accept(L, Me) ->
			{ok, S} = gen_tcp:accept(L),
			Handler = spawn_link(fun() -> receive go -> serve(S, Me) end end),
			ok = gen_tcp:controlling_process(S, Handler),
			Handler ! go,
			accept(L, Me).
		serve(S, Me) ->
			Line = line(S),
			{ok, Data} = gen_tcp:recv(S, 5),
			ok = gen_tcp:send(S, Data),
			{error, closed} = gen_tcp:recv(S, 0),
			Me ! {served, Line}.
		line(S) ->
			{ok, {_, Local}} = inet:sockname(S),
			{ok, {_, Remote}} = inet:peername(S),
			io_lib:format("~b ~b ~s ~s~n", [Local, Remote, erlang:port_to_list(S), pid_to_list(self())]).
	END
	vm_start a
	vm_erlc a short.erl
	begin -p "$(vm_pid a)" -d 0
	vm_rpc a 'short:go(200)' >/dev/null
	kill -INT "$RECORD_PID"
	finish
	[[ $status == 0 ]]
	[[ $(wc -l <truth) == 400 ]]
	"$BEAMWEAVE" report sockets --json | jq -r '.sockets[] | select(.sends > 0 and .remote) |
		[(.local | split(":")[-1]), (.remote | split(":")[-1]), .erlang_port, .owner] | join(" ")' | sort >seen
	sort truth >expected
	diff expected <(grep -Fxf expected seen)
}
