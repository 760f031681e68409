%% SPDX-License-Identifier: Apache-2.0
%% @doc Small programs of which everything is known: what tests/truths.bats records and counts.
-module(truths).

-export([nested/1, recursion/2, tail/1, loop/1, caught/1, thrower/1, crash/0, messages/1, garbage/1,
         spawn_tree/1, names/0, timed/1, spin/1, bytes/1, dirty/1]).
-export([outer/1, middle/1, inner/1, count/1]).

%% N times outer -> 2 x middle -> 2 x inner: N + 2N + 4N calls.
-spec nested(non_neg_integer()) -> ok.
nested(0) ->
    ok;
nested(N) ->
    8 = ?MODULE:outer(N) - N,
    nested(N - 1).

outer(N) ->
    A = ?MODULE:middle(1),
    B = ?MODULE:middle(2),
    A + B + N.

middle(N) ->
    A = ?MODULE:inner(N),
    B = ?MODULE:inner(N),
    A + B + 1.

inner(N) ->
    N + id(0).

id(X) ->
    X.

%% Times * (Depth + 1) calls of count/1, each nested in the one before.
-spec recursion(non_neg_integer(), non_neg_integer()) -> ok.
recursion(0, _) ->
    ok;
recursion(Times, Depth) ->
    Depth = ?MODULE:count(Depth),
    recursion(Times - 1, Depth).

count(0) ->
    0;
count(N) ->
    1 + ?MODULE:count(N - 1).

%% N tail calls; the words on the stack at the last one.
-spec tail(non_neg_integer()) -> non_neg_integer().
tail(N) ->
    Words = ?MODULE:loop(N),
    Words + id(0).

loop(0) ->
    {stack_size, Words} = process_info(self(), stack_size),
    Words;
loop(N) ->
    ?MODULE:loop(N - 1).

%% N calls of thrower/1 that end in an exception that is caught here.
-spec caught(non_neg_integer()) -> ok.
caught(0) ->
    ok;
caught(N) ->
    try ?MODULE:thrower(N) of
        _ -> error(no_throw)
    catch
        throw:N -> ok
    end,
    caught(N - 1).

thrower(N) ->
    _ = ?MODULE:inner(N),
    throw(N).

%% A process whose exception nobody catches: the call ends with the process.
-spec crash() -> ok.
crash() ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        process_flag(trap_exit, false),
        exit(?MODULE:thrower(1))
    end),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end.

%% N messages from one process to another, N answers back.
-spec messages(non_neg_integer()) -> {string(), string()}.
messages(N) ->
    Self = self(),
    Echo = spawn(fun() -> echo(Self) end),
    ping(Echo, N),
    Echo ! stop,
    {pid_to_list(Self), pid_to_list(Echo)}.

ping(_, 0) ->
    ok;
ping(Echo, N) ->
    Echo ! {ping, N},
    receive {pong, N} -> ok end,
    ping(Echo, N - 1).

echo(Peer) ->
    receive
        {ping, N} -> Peer ! {pong, N}, echo(Peer);
        stop -> ok
    end.

%% A process that collects itself N times; the pid.
-spec garbage(non_neg_integer()) -> string().
garbage(N) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        Live = lists:seq(1, 200_000),
        [true = erlang:garbage_collect() || _ <- lists:seq(1, N)],
        exit({shutdown, length(Live)})
    end),
    receive {'DOWN', Monitor, process, Pid, {shutdown, 200_000}} -> pid_to_list(Pid) end.

%% A tree of processes, each with two children, Depth levels below the root: {Pid, Parent} of all.
-spec spawn_tree(non_neg_integer()) -> [{string(), string()}].
spawn_tree(Depth) ->
    Self = self(),
    Root = spawn(fun() -> node(Self, Self, Depth) end),
    collect(Root, (2 bsl Depth) - 1, []).

node(Collector, Parent, Depth) ->
    Collector ! {tree, self(), Parent},
    Me = self(),
    Depth > 0 andalso [spawn(fun() -> node(Collector, Me, Depth - 1) end) || _ <- [1, 2]],
    ok.

collect(_, 0, Tree) ->
    Tree;
collect(Root, N, Tree) ->
    receive {tree, Pid, Parent} -> collect(Root, N - 1, [{pid_to_list(Pid), pid_to_list(Parent)} | Tree]) end.

%% A name that two processes have one after the other, with a call of inner/1 by each while it has it.
-spec names() -> [string()].
names() ->
    [begin
         {Pid, Monitor} = spawn_monitor(fun() ->
             ?MODULE:inner(1),
             register(Name, self()),
             ?MODULE:inner(2),
             unregister(Name),
             ?MODULE:inner(3)
         end),
         receive {'DOWN', Monitor, process, Pid, _} -> pid_to_list(Pid) end
     end || Name <- [shared_name, shared_name]].

%% One call of spin/1 that lasts Ms milliseconds, with the time that timer:tc gives, in nanoseconds (it measures microseconds).
-spec timed(non_neg_integer()) -> non_neg_integer().
timed(Ms) ->
    {Time, ok} = timer:tc(?MODULE, spin, [Ms]),
    Time * 1000.

spin(Ms) ->
    spin_until(erlang:monotonic_time(microsecond) + Ms * 1000).

spin_until(End) ->
    case erlang:monotonic_time(microsecond) >= End of
        true -> ok;
        false -> spin_until(End)
    end.

%% Send N bytes over a loopback connection and read them: {ClientPort, ServerPort}.
-spec bytes(non_neg_integer()) -> {inet:port_number(), inet:port_number()}.
bytes(N) ->
    Options = [binary, {active, false}],
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}} | Options]),
    {ok, ServerPort} = inet:port(Listen),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, ServerPort, Options),
    {ok, Server} = gen_tcp:accept(Listen),
    {ok, ClientPort} = inet:port(Client),
    {Sender, Monitor} = spawn_monitor(fun() -> ok = gen_tcp:send(Client, binary:copy(<<"y">>, N)) end),
    {ok, <<_:N/binary>>} = gen_tcp:recv(Server, N),
    receive {'DOWN', Monitor, process, Sender, normal} -> ok end,
    ok = gen_tcp:close(Client),
    {error, closed} = gen_tcp:recv(Server, 0),
    ok = gen_tcp:close(Server),
    ok = gen_tcp:close(Listen),
    {ClientPort, ServerPort}.

%% A process whose big heap is collected on a dirty scheduler N times; the pid.
-spec dirty(non_neg_integer()) -> string().
dirty(N) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        Live = [{X, X} || X <- lists:seq(1, 1_500_000)],
        [true = erlang:garbage_collect() || _ <- lists:seq(1, N)],
        exit({shutdown, length(Live)})
    end),
    receive {'DOWN', Monitor, process, Pid, {shutdown, _}} -> pid_to_list(Pid) end.
