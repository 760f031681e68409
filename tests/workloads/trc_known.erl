%% SPDX-License-Identifier: Apache-2.0
%% @doc A program of which everything is known, traced by OTP's own dbg into a file: 1,000 calls of
%% work/1 and of leaf/1 in them, one of fail/1 that raises, 1,000 pings and pongs and a stop, 10 children
%% that exit, a message to nobody.
-module(trc_known).

-export([main/3]).
-export([work/1, leaf/1, fail/1, echo/1, child/1]).

%% @doc Trace the program into File; `wrap' makes a set of 4 files of at most Bytes.
-spec main(string(), none | pos_integer(), none | atom()) -> ok.
main(File, Bytes, Timestamp) ->
    Port = case Bytes of
               none -> dbg:trace_port(file, File);
               _ -> dbg:trace_port(file, {File, wrap, ".trc", Bytes, 4})
           end,
    {ok, _} = dbg:tracer(port, Port),
    {Runner, Monitor} = spawn_monitor(fun() -> receive go -> run() end end),
    Flags = [call, return_to, m, p, sos, running, garbage_collection]
        ++ [Timestamp || Timestamp =/= none],
    {ok, _} = dbg:p(Runner, Flags),
    {ok, _} = dbg:tpl(?MODULE, work, 1, [{'_', [], [{return_trace}]}]),
    {ok, _} = dbg:tpl(?MODULE, fail, 1, x),
    {ok, _} = dbg:tpl(?MODULE, leaf, 1, []),
    Runner ! go,
    receive {'DOWN', Monitor, process, Runner, _} -> ok end,
    _ = dbg:flush_trace_port(),
    dbg:stop().

run() ->
    true = register(trc_runner, self()),
    Echo = spawn(?MODULE, echo, [self()]),
    _ = [work(N) || N <- lists:seq(1, 1000)],
    _ = [begin Echo ! {ping, N}, receive {pong, N} -> ok end end || N <- lists:seq(1, 1000)],
    _ = (catch fail(7)),
    Children = [spawn_monitor(?MODULE, child, [N]) || N <- lists:seq(1, 10)],
    _ = [receive {'DOWN', Monitor, process, _, _} -> ok end || {_, Monitor} <- Children],
    {Dead, Gone} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Gone, process, Dead, _} -> ok end,
    Dead ! hello,
    Echo ! stop,
    true = erlang:garbage_collect(),
    true = unregister(trc_runner).

%% @private
-spec work(integer()) -> integer().
work(N) -> leaf(N) + 1.

%% @private
-spec leaf(integer()) -> integer().
leaf(N) -> N.

%% @private
-spec fail(term()) -> no_return().
fail(N) -> error({bad, N}).

%% @private
-spec echo(pid()) -> no_return().
echo(Peer) ->
    receive
        stop -> exit(bye);
        {ping, N} -> Peer ! {pong, N}, echo(Peer)
    end.

%% @private
-spec child(integer()) -> no_return().
child(N) -> exit({child, N}).
