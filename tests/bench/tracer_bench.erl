%% SPDX-License-Identifier: Apache-2.0
%% @doc What an event costs the process that is traced: ours against a tracer that records nothing
%% and against OTP's process tracer. Ways take turns, so that a machine that is busy elsewhere is so
%% for all of them; medians of the rounds, and their ratios.
%%
%% A process tracer's work goes on in its own process, on another scheduler: the traced process's time
%% is a part of what its events cost. The processor time of the whole VM, until the tracer has
%% worked off its queue, is all of it.
-module(tracer_bench).

-export([main/1]).
-export([call/1, pair/1]).

%% Short enough that most rounds are over before the kernel takes the thread off its CPU.
-define(CALLS, 5000).
%% A process tracer's cost shows only once its process has fallen behind, and the VM tells its
%% processor time in milliseconds.
-define(CALLS_LONG, 500000).
-define(ROUNDS_LONG, 10).
-define(IS_LONG(Name), Name =:= process orelse Name =:= empty_long orelse Name =:= ours_long).
-define(TRACED, {?MODULE, call, 1}).

%% @doc Arguments: the directory of what was built, the rounds.
-spec main([string()]) -> no_return().
main([Build, Rounds]) ->
    ok = application:set_env(beamweave, library, filename:join(Build, "beamweave_tracer.so")),
    ok = empty_tracer:load(filename:join([Build, "tests", "empty_tracer.so"])),
    ok = beamweave_vm:learn(),
    Path = lists:flatten(io_lib:format("/dev/shm/bwtest-~s-bench.session", [os:getpid()])),
    Tool = filename:join([Build, "tests", "ring_dump"]),
    [] = os:cmd(Tool ++ " create " ++ Path ++ " 0x4000000"),
    _ = os:cmd(Tool ++ " count " ++ Path ++ " > /dev/null < /dev/null 2>&1 & echo"),
    {ok, Session} = beamweave_tracer:open_session(list_to_binary(Path), 0, 0, 0, 0),
    Untraced = measure([{untraced, none, call, [1]}], list_to_integer(Rounds)),
    1 = erlang:trace_pattern(?TRACED, true, [local]),
    Figures = maps:merge(Untraced, measure(ways(Session), list_to_integer(Rounds))),
    _ = beamweave_tracer:set_tracer(Session, 3, 1),
    ok = beamweave_tracer:close_session(Session),
    ok = file:delete(Path),
    report(maps:map(fun(_, Times) -> lists:nth((length(Times) + 1) div 2, lists:sort(Times)) end,
                    Figures)),
    halt(0).

ways(Session) ->
    Small = [1],
    Large = lists:seq(1, 5120),
    Ours = {tracer, beamweave_tracer, Session},
    Empty = {tracer, empty_tracer, []},
    Sink = spawn(fun Loop() -> receive _ -> Loop() end end),
    [{empty, [call, arity, Empty], call, Small},
     {ours, [call, arity, Ours], call, Small},
     {ours_large, [call, arity, Ours], call, Large},
     {process, [call, arity, {tracer, Sink}], call, Small},
     {empty_long, [call, arity, Empty], call, Small},
     {ours_long, [call, arity, Ours], call, Small},
     {empty_pair, [call, arity, return_to, Empty], pair, Small},
     {ours_pair, [call, arity, return_to, Ours], pair, Small},
     {empty_send, [send, Empty], send, Small},
     {ours_send, [send, Ours], send, Small},
     {ours_send_large, [send, Ours], send, Large}].

measure(Ways, Rounds) ->
    lists:foldl(fun(Round, Sum) ->
                        lists:foldl(fun(Way, S) -> once(Way, Round, S) end, Sum, shuffled(Ways))
                end, #{}, lists:seq(1, Rounds)).

%% No way always comes after the same other one.
shuffled(Ways) ->
    [Way || {_, Way} <- lists:sort([{rand:uniform(), Way} || Way <- Ways])].

once({Name, _, _, _}, Round, Sum) when (?IS_LONG(Name)), Round rem ?ROUNDS_LONG =/= 0 ->
    Sum;
once({Name, Flags, What, Argument}, _, Sum) when ?IS_LONG(Name) ->
    {Before, _} = statistics(runtime),
    Timed = timed(Name, Flags, What, Argument, ?CALLS_LONG, Sum),
    {After, _} = statistics(runtime),
    add({cpu, Name}, (After - Before) * 1000000 / (?CALLS_LONG * 1.1), Timed);
once({Name, Flags, What, Argument}, _, Sum) ->
    timed(Name, Flags, What, Argument, ?CALLS, Sum).

timed(Name, Flags, What, Argument, Calls, Sum) ->
    Owner = self(),
    {Pid, Monitor} = spawn_opt(fun() ->
                                       receive go -> ok end,
                                       _ = run(What, Argument, Calls div 10),
                                       Start = beamweave_tracer:clock(),
                                       _ = run(What, Argument, Calls),
                                       Owner ! {Name, beamweave_tracer:clock() - Start}
                               end, [monitor, {min_heap_size, 100000}]),
    _ = Flags =/= none andalso erlang:trace(Pid, true, Flags),
    Pid ! go,
    receive {Name, Time} -> ok end,
    receive {'DOWN', Monitor, process, Pid, _} -> ok end,
    ok = drained(Flags),
    add(Name, Time / Calls, Sum).

add(Name, Figure, Sum) ->
    maps:update_with(Name, fun(Figures) -> [Figure | Figures] end, [Figure], Sum).

%% A process tracer works off its queue before the next one has its turn; so does the reader.
drained([_, _, {tracer, Pid}]) ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, 0} -> ok;
        _ -> receive after 1 -> drained([call, arity, {tracer, Pid}]) end
    end;
drained(_) ->
    receive after 2 -> ok end.

run(_, _, 0) -> ok;
run(call, Argument, N) -> ?MODULE:call(Argument), run(call, Argument, N - 1);
run(pair, Argument, N) -> [_] = ?MODULE:pair(Argument), run(pair, Argument, N - 1);
run(send, Argument, N) -> nobody(Argument), run(send, Argument, N - 1).

call(Argument) -> Argument.

pair(Argument) -> [?MODULE:call(Argument)].

%% A reference that is no alias: sent, traced, and dropped without a copy.
nobody(Message) ->
    erlang:send(make_ref(), Message).

report(Medians) ->
    Line = fun(Name, Key) -> io:format("~-46s ~8.1f ns~n", [Name, maps:get(Key, Medians)]) end,
    Line("call, untraced", untraced),
    Line("call event, a tracer that records nothing", empty),
    Line("call event", ours),
    Line("call event, a list of 5,120 as argument", ours_large),
    Line("call event, a process tracer", process),
    Line("call event, processor time of the VM", {cpu, ours_long}),
    Line("the same, a process tracer", {cpu, process}),
    Line("call and return_to, recording nothing", empty_pair),
    Line("call and return_to", ours_pair),
    Line("send event, recording nothing", empty_send),
    Line("send event", ours_send),
    Line("send event, a list of 5,120", ours_send_large),
    Ratio = fun(Name, A, B) ->
                    io:format("~-46s ~8.2f", [Name, maps:get(A, Medians) / maps:get(B, Medians)])
            end,
    Goal = fun(Name, A, B, Most) -> Ratio(Name, A, B), io:format("   at most ~4.2f~n", [Most]) end,
    Goal("a call event / recording nothing", ours, empty, 1.35),
    Ratio("recording nothing / a process tracer's", empty_long, process),
    io:format("   the floor of the next~n"),
    Goal("a call event / a process tracer's", ours_long, process, 0.45),
    Goal("the same, processor time of the VM", {cpu, ours_long}, {cpu, process}, 0.45),
    Goal("a large argument / a small one", ours_large, ours, 1.10).
