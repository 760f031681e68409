%% SPDX-License-Identifier: Apache-2.0
%% @doc The trace port: what comes through it, under load too, and other tools' use of it. Each
%% function is a test.
-module(tracer_port).

-export([counts/0, terms/0, capture/0, cut/0, overload/2, messages/1, dbg/0, program/0, closed/0,
         owner_killed/0, wrong_use/0, twice/0]).
-export([step/1, work/0]).

-define(F_CUT, 2).
-define(F_TERM, 16).
-define(DICT_CLOCK, 10).
-define(END_SHELL, 6).
-define(END_FAILED, 5).

text(Pid) ->
    list_to_binary(pid_to_list(Pid)).

-spec step(term()) -> term().
step(Term) -> Term.

%% Always the same events.
-spec work() -> ok.
work() ->
    receive go -> ok end,
    _ = [?MODULE:step(N) || N <- lists:seq(1, 1000)],
    Echo = spawn_link(fun() -> echo(100) end),
    _ = [begin Echo ! {self(), N}, receive {answer, N} -> ok end end || N <- lists:seq(1, 100)],
    true = register(tracer_port_work, self()),
    true = unregister(tracer_port_work),
    Echo ! {self(), last},
    receive {answer, last} -> ok end,
    unlink(Echo),
    _ = [true = erlang:garbage_collect() || _ <- lists:seq(1, 10)],
    Monitor = erlang:monitor(process, Echo),
    Echo ! stop,
    receive {'DOWN', Monitor, process, Echo, _} -> ok end.

echo(0) ->
    receive {Pid, last} -> Pid ! {answer, last} end,
    receive stop -> exit(done) end;
echo(N) ->
    receive {Pid, M} -> Pid ! {answer, M} end,
    echo(N - 1).

record_work(Options) ->
    {Pid, Monitor} = spawn_monitor(fun ?MODULE:work/0),
    tracer_test:record(Options#{pids => [text(Pid)], names => false, calls => [{?MODULE, step, 1}]},
                       fun() ->
                               Pid ! go,
                               receive {'DOWN', Monitor, process, Pid, normal} -> Pid end
                       end).

by_kind(#{counts := Counts}) ->
    lists:foldl(fun({_, Kind, Recorded, 0}, Sum) when Recorded > 0 ->
                        maps:update_with(Kind, fun(Count) -> Count + Recorded end, Recorded, Sum);
                   ({_, _, 0, 0}, Sum) ->
                        Sum
                end, #{}, Counts).

%% The same work makes the same events with both tracers.
-spec counts() -> ok.
counts() ->
    Options = #{events => [messages, procs, gc]},
    Nif = by_kind(record_work(Options#{tracer => nif})),
    Port = by_kind(record_work(Options#{tracer => port})),
    #{call := 1000, return_to := 1000, spawn := 1, spawned := 1, exit := 2, link := 1, unlink := 1,
      register := 1, unregister := 1} = Port,
    Stable = maps:without([gc_minor_start, gc_minor_end], Nif),
    Stable = maps:without([gc_minor_start, gc_minor_end], Port),
    ok.

decoded(#{events := Events}) ->
    [{Kind, Ts, binary_to_term(<<131, Term/binary>>)}
     || #{kind := Kind, flags := ?F_TERM, ts := Ts, term := Term} <- Events].

%% Messages are OTP's own, and their times are the record's less how late they came.
-spec terms() -> ok.
terms() ->
    #{answer := Pid, dict := Dict} = Result = record_work(#{tracer => port}),
    Decoded = decoded(Result),
    Calls = [{Ts, Own} || {call, Ts, {trace_ts, P, call, {?MODULE, step, 1}, Own}} <- Decoded,
                          P =:= Pid],
    1000 = length(Calls),
    [{Clock, Erlang, Unit, Us} | _] =
        [{C, E, U, W} || {?DICT_CLOCK, 0, <<C:64/little, E:64/little-signed, U:64/little,
                                            W:64/little-signed>>} <- Dict],
    Unit = erlang:convert_time_unit(1, second, native),
    true = abs(Us - os:system_time(microsecond)) < 3600 * 1000000,
    Offset = Clock - erlang:convert_time_unit(Erlang, native, nanosecond),
    Times = [Own || {_, Own} <- Calls],
    Times = lists:sort(Times),
    %% Not before it happened, and clocks that agree within 1 ms.
    [] = [late || {Ts, Own} <- Calls, Ts < Own + Offset - 1000000],
    ok.

-spec capture() -> ok.
capture() ->
    Decoded = decoded(record_work(#{tracer => port, capture => args})),
    Numbers = [N || {call, _, {trace_ts, _, call, {?MODULE, step, [N]}, _}} <- Decoded],
    Numbers = lists:seq(1, 1000),
    ok.

%% A message that is too long keeps its beginning, and its end with receiver and time.
-spec cut() -> ok.
cut() ->
    Message = binary:copy(<<"0123456789">>, 10000),
    Result = tracer_test:record(#{tracer => port, events => [messages], names => false,
                                  pids => [text(self())]},
                                fun() -> self() ! Message, receive Message -> ok end end),
    [{Term, Tail}] = [{Term, Tail}
                      || #{kind := send, flags := Flags, term := Term, tail := Tail}
                             <- maps:get(events, Result), Flags =:= ?F_TERM bor ?F_CUT],
    1024 = byte_size(Term),
    <<131, Whole/binary>> = term_to_binary({trace_ts, self(), send, Message, self(), 0}),
    Head = byte_size(Term) - Tail,
    <<Begin:Head/binary, End/binary>> = Term,
    <<Begin:Head/binary, _/binary>> = Whole,
    %% ... Message, To, Time}: the receiver stands before a timestamp of 11 bytes.
    <<131, To/binary>> = term_to_binary(self()),
    Before = Tail - 11 - byte_size(To),
    <<_:Before/binary, To:(byte_size(To))/binary, 110, 8, _/binary>> = End,
    ok.

%% Processes that call all the time, more of them than schedulers. Every call is recorded or counted,
%% and the VM's memory does not grow with the queue.
-spec overload(pos_integer(), pos_integer()) -> ok.
overload(Seconds, Processes) ->
    Count = counters:new(1, [write_concurrency]),
    Stop = counters:new(1, []),
    Session = tracer_test:on(#{tracer => port, calls => [{?MODULE, step, 1}], names => false,
                               reader => count}),
    Before = erlang:memory(total),
    Callers = [spawn_monitor(fun() -> call_until(Count, Stop) end)
               || _ <- lists:seq(1, Processes)],
    Most = lists:max([receive after 50 -> erlang:memory(total) end
                      || _ <- lists:seq(1, 20 * Seconds)]),
    counters:add(Stop, 1, 1),
    _ = [receive {'DOWN', Monitor, process, _, _} -> ok end || {_, Monitor} <- Callers],
    #{counts := Counts, dict := Dict} = tracer_test:off(Session),
    Calls = counters:get(Count, 1),
    {Recorded, Discarded} =
        lists:foldl(fun({_, call, R, D}, {Rs, Ds}) -> {R + Rs, D + Ds};
                       (_, Sum) -> Sum
                    end, {0, 0}, Counts),
    Notes = [Text || {7, 0, <<_:64, Text/binary>>} <- Dict],
    io:format(user, "~b calls, ~b recorded, ~b discarded, memory +~b kB, ~s~n",
              [Calls, Recorded, Discarded, (Most - Before) div 1024, lists:join(", ", Notes)]),
    Calls = Recorded + Discarded,
    true = Recorded > 0,
    true = Discarded > 0,
    true = Most - Before < 20 * 1024 * 1024,
    [_] = [Note || Note <- Notes, binary:match(Note, <<"fell behind">>) =/= nomatch],
    ok.

call_until(Count, Stop) ->
    case counters:get(Stop, 1) of
        0 ->
            _ = ?MODULE:step(1),
            counters:add(Count, 1, 1),
            call_until(Count, Stop);
        _ ->
            ok
    end.

%% The same of processes that mostly wait for each other.
-spec messages(pos_integer()) -> ok.
messages(Pairs) ->
    Session = tracer_test:on(#{tracer => port, events => [messages], names => false,
                               reader => count, pids => new}),
    Players = [spawn_monitor(fun() ->
                                     Other = spawn_link(fun bounce/0),
                                     _ = [begin Other ! {self(), N}, receive N -> ok end end
                                          || N <- lists:seq(1, 20000)],
                                     unlink(Other),
                                     exit(Other, kill)
                             end) || _ <- lists:seq(1, Pairs)],
    _ = [receive {'DOWN', Monitor, process, _, normal} -> ok end || {_, Monitor} <- Players],
    #{counts := Counts} = tracer_test:off(Session),
    {Recorded, Discarded} =
        lists:foldl(fun({_, send, R, D}, {Rs, Ds}) -> {R + Rs, D + Ds};
                       (_, Sum) -> Sum
                    end, {0, 0}, Counts),
    io:format(user, "~b sends recorded, ~b discarded~n", [Recorded, Discarded]),
    true = Recorded + Discarded =:= 2 * 20000 * Pairs,
    ok.

bounce() ->
    receive {Pid, N} -> Pid ! N end,
    bounce().

session_of_shell() ->
    {ok, Path} = beamweave:session(),
    #{path => Path, out => Path ++ ".out", info => #{}}.

%% As dbg's own trace port.
-spec dbg() -> ok.
dbg() ->
    {ok, _} = dbg:tracer(port, beamweave:trace_port(#{names => false})),
    Session = session_of_shell(),
    {ok, _} = dbg:p(self(), [call, strict_monotonic_timestamp]),
    {ok, _} = dbg:tpl(?MODULE, step, []),
    _ = [?MODULE:step(N) || N <- lists:seq(1, 100)],
    ok = dbg:stop_clear(),
    ok = tracer_test:gone(),
    #{reason := ?END_SHELL} = Result = tracer_test:taken(Session),
    Numbers = [N || {call, _, {trace_ts, _, call, {_, step, [N]}, {_, _}}} <- decoded(Result)],
    Numbers = lists:seq(1, 100),
    ok.

%% A program of one's own, without timestamps.
-spec program() -> ok.
program() ->
    Port = (beamweave:trace_port(#{names => false}))(),
    {connected, Self} = erlang:port_info(Port, connected),
    Self = self(),
    Session = session_of_shell(),
    {Pid, Monitor} = spawn_monitor(fun ?MODULE:work/0),
    1 = erlang:trace(Pid, true, [send, {tracer, Port}]),
    Pid ! go,
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end,
    Reference = erlang:trace_delivered(Pid),
    receive {trace_delivered, Pid, Reference} -> ok end,
    true = port_close(Port),
    ok = tracer_test:gone(),
    Result = tracer_test:taken(Session),
    Sends = [Message || {send, _, {trace, P, send, Message, _}} <- decoded(Result), P =:= Pid],
    102 = length(Sends),
    ok.

%% Somebody closes the port that a recording uses.
-spec closed() -> ok.
closed() ->
    Session = busy_recording(),
    [Port] = our_ports(),
    true = exit(Port, kill),
    ended(Session).

-spec owner_killed() -> ok.
owner_killed() ->
    Session = busy_recording(),
    [Port] = our_ports(),
    {connected, Owner} = erlang:port_info(Port, connected),
    true = exit(Owner, kill),
    ended(Session).

busy_recording() ->
    tracer_test:on(#{tracer => port, events => [messages, running, gc, procs, ports],
                     calls => [{lists, '_', '_'}], reader => false}).

ended(Session) ->
    ok = tracer_test:gone(),
    #{tracer := 3, reason := Reason} = tracer_test:taken(Session),
    true = Reason =:= ?END_FAILED orelse Reason =:= ?END_SHELL,
    ok.

our_ports() ->
    Name = beamweave_tracer:port_driver(),
    [Port || Port <- erlang:ports(), erlang:port_info(Port, name) =:= {name, Name}].

%% Nothing that is sent to a port of ours does any harm.
-spec wrong_use() -> ok.
wrong_use() ->
    Name = beamweave_tracer:port_driver(),
    Port = open_port({spawn_driver, Name}, [binary]),
    [2] = erlang:port_control(Port, 2, <<>>),
    [22] = erlang:port_control(Port, 1, <<1, 2, 3>>),
    [2] = erlang:port_control(Port, 1, <<77:64/little>>),
    [2] = erlang:port_control(Port, 1, <<0:64>>),
    {'EXIT', {badarg, _}} = (catch erlang:port_control(Port, 3, <<>>)),
    {'EXIT', {badarg, _}} = (catch erlang:port_call(Port, 1, hello)),
    Garbage = [<<>>, <<131>>, <<131, 104>>, term_to_binary({trace, self(), call, {a, b, 1}}),
               noise(5000), <<131, 104, 255, 100, 255, 255>>],
    _ = [true = port_command(Port, Bytes) || Bytes <- Garbage],
    true = port_close(Port),
    %% The same into a session: only what is a trace message is an event.
    Session = tracer_test:on(#{tracer => port, names => false, reader => read}),
    [Ours] = our_ports(),
    _ = [true = port_command(Ours, Bytes) || Bytes <- Garbage],
    [16] = erlang:port_control(Ours, 1, <<1:64/little>>),
    [0] = erlang:port_control(Ours, 2, <<>>),
    Result = tracer_test:off(Session),
    [{call, _, {trace, _, call, {a, b, 1}}}] = decoded(Result),
    ok.

noise(Count) ->
    list_to_binary([erlang:phash2(N, 256) || N <- lists:seq(1, Count)]).

%% Loading the driver once more is refused or does nothing, and a recording works after it.
-spec twice() -> ok.
twice() ->
    {ok, Path} = application:get_env(beamweave, library),
    Name = beamweave_tracer:port_driver(),
    {error, permanent} = erl_ddll:try_load(filename:dirname(Path), Name, []),
    {error, permanent} = erl_ddll:try_unload(Name, []),
    ok = counts(),
    ok = counts().
