%% SPDX-License-Identifier: Apache-2.0
%% @doc Owns a recording's trace port and keeps its queue short.
%%
%% The VM queues an event for a port and goes on; nothing throttles that, and what the driver answers
%% changes nothing. Processes that have all schedulers busy leave a port a dozen events for each of
%% their time slices, so that no driver is fast enough. When more than 256 kB are queued, or an event
%% was 20 ms in the queue, the NIF takes the port's place in every tracee: it only counts the
%% events, by kind, as discarded, which takes a tenth of the time and no memory. When the queue is
%% empty, the port comes back. What is traced, and by whom it was asked for, does not matter: flags
%% are put back as they were. A process is suspended for the two calls that this takes, some
%% microseconds, so that each of its events is either recorded or counted.
%%
%% Flags cannot be changed while a process runs. What all schedulers produce in their two or three time
%% slices until then is in the queue: with calls some MB, whatever their number. But OTP takes a traced
%% event for no work, so that the time slice of a process that sends messages of 100 kB lasts for
%% hundreds of milliseconds, and each of them is copied whole: that may be hundreds of MB. The NIF
%% copies no message.
-module(beamweave_port).

-export([start/1, lend/1, hold/1, finish/1]).

-define(BIND, 1).
-define(FLUSH, 2).
-define(DICT_NOTE, 7).
-define(DICT_CLOCK, 10).

%% How often the queue is looked at.
-define(LOOK_MS, 5).
-define(LAG_NS, 20000000).
%% The port is away at least so long, and so many times as long as it took to send it away.
-define(AWAY_MS, 20).
-define(AWAY_SHARE, 4).
-define(WORKERS, 256).
%% New processes that were made by ones that had the old tracer still.
-define(ROUNDS, 3).

-define(CLOCK_MS, 1000).
-define(CLOCK_KEPT_MS, 10000).
-define(CLOCK_TRIES, 5).
-define(CLOCK_MOVED_NS, 1000).

%% While the queue is worked off: so many port slots of this scheduler at once, so long between.
-define(PUMP_YIELDS, 100).
-define(PUMP_PAUSE_MS, 1).

-define(ANSWER_MS, 10000).

-record(state, {session :: beamweave_tracer:session(),
                port :: port(),
                owner :: pid(),
                workers = [] :: [pid()],
                offset = 0 :: integer(),
                sampled = none :: none | integer(),
                looked :: integer(),
                behind = 0 :: non_neg_integer(),
                away_ms = 0 :: non_neg_integer()}).

%% @doc Open a port into a session. The process that owns it ends with it.
-spec start(beamweave_tracer:session()) -> {ok, pid(), port()} | {error, term()}.
start(Session) ->
    Caller = self(),
    {Pid, Monitor} = spawn_opt(fun() -> init(Caller, Session) end, [monitor, {priority, high}]),
    receive
        {Pid, Port} ->
            erlang:demonitor(Monitor, [flush]),
            {ok, Pid, Port};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, Reason}
    end.

%% @doc Make the calling process the one that the port belongs to, as if it had opened it itself.
-spec lend(pid()) -> {ok, port()} | {error, term()}.
lend(Pid) ->
    ask(Pid, lend).

%% @doc Leave flags alone from now on.
-spec hold(pid()) -> ok | {error, term()}.
hold(Pid) ->
    ask(Pid, hold).

%% @doc Close the port, after all that was queued for it is in the ring.
-spec finish(pid()) -> ok | {error, term()}.
finish(Pid) ->
    Result = ask(Pid, finish),
    %% It answers nobody any more: its queue is too long, or its scheduler is gone.
    true = exit(Pid, kill),
    Result.

ask(Pid, What) ->
    Monitor = erlang:monitor(process, Pid),
    Pid ! {What, self(), Monitor},
    receive
        {Monitor, Answer} ->
            erlang:demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, Reason}
    after ?ANSWER_MS ->
        erlang:demonitor(Monitor, [flush]),
        {error, timeout}
    end.

init(Caller, Session) ->
    _ = process_flag(trap_exit, true),
    ok = beamweave_trace:exempt(Session),
    case open(Session) of
        {ok, Port} ->
            Caller ! {self(), Port},
            loop(clock(#state{session = Session, port = Port, owner = self(), looked = now_ms()}));
        {error, Reason} ->
            exit(Reason)
    end.

open(Session) ->
    case beamweave_tracer:port_driver() of
        {error, _} ->
            {error, no_driver};
        Name ->
            Port = open_port({spawn_driver, Name}, [binary]),
            case erlang:port_control(Port, ?BIND, <<Session:64/little>>) of
                [0] -> {ok, Port};
                [Errno] -> {error, {bind, Errno}}
            end
    end.

now_ms() ->
    erlang:monotonic_time(millisecond).

loop(#state{port = Port} = State) ->
    receive
        {lend, Pid, Reference} ->
            %% The new owner is linked to it; so are we still.
            true = erlang:port_connect(Port, Pid),
            Pid ! {Reference, {ok, Port}},
            loop(State#state{owner = Pid});
        {hold, Pid, Reference} ->
            Pid ! {Reference, ok},
            held(State);
        {finish, Pid, Reference} ->
            leave(Pid, Reference, State);
        {'EXIT', Port, _} ->
            over()
    after ?LOOK_MS ->
        look(State)
    end.

%% The session is ending: whoever ends it will say so.
held(#state{port = Port} = State) ->
    receive
        {hold, Pid, Reference} ->
            Pid ! {Reference, ok},
            held(State);
        {finish, Pid, Reference} ->
            leave(Pid, Reference, State);
        {'EXIT', Port, _} ->
            over()
    end.

%% The workers are linked.
-spec over() -> no_return().
over() ->
    exit(shutdown).

-spec leave(pid(), reference(), #state{}) -> no_return().
leave(Pid, Reference, #state{port = Port, session = Session} = State) ->
    Result = flush(Port),
    _ = sample(Session),
    told(State),
    _ = catch port_close(Port),
    Pid ! {Reference, Result},
    over().

%% Ordered behind all events that were queued before.
flush(Port) ->
    try erlang:port_control(Port, ?FLUSH, <<>>) of
        [0] -> ok;
        [Errno] -> {error, Errno}
    catch
        error:badarg -> {error, closed}
    end.

told(#state{behind = 0}) ->
    ok;
told(#state{session = Session, behind = Behind, away_ms = Ms}) ->
    Time = beamweave_tracer:clock(),
    Text = io_lib:format("the trace port fell behind ~s: in ~.1f s events were counted only",
                         [times(Behind), Ms / 1000]),
    Line = unicode:characters_to_binary(Text),
    _ = beamweave_tracer:put(Session, ?DICT_NOTE, 0, <<Time:64/little, Line/binary>>),
    ok.

times(1) -> "once";
times(Count) -> [integer_to_list(Count), " times"].

%% ---- The queue ----

look(#state{session = Session, port = Port, owner = Owner} = State) ->
    case {beamweave_tracer:port_lag(Session), is_busy(Port, Owner)} of
        {{error, _}, _} ->
            %% The session is over and nobody has told us.
            _ = catch port_close(Port),
            over();
        {_, closed} ->
            over();
        {Lag, Busy} when Busy; Lag > ?LAG_NS ->
            loop(relieve(workers(State)));
        _ ->
            loop(clock(State))
    end.

%% Nothing can be sent to a port that has more in its queue than it wants.
is_busy(Port, Owner) ->
    try erlang:send(Port, {Owner, {command, <<>>}}, [nosuspend]) of
        ok -> false;
        nosuspend -> true
    catch
        error:badarg -> closed
    end.

relieve(#state{session = Session, port = Port, workers = Workers, behind = Behind,
               away_ms = Ms} = State) ->
    Begun = now_ms(),
    Counter = {beamweave_tracer, Session},
    ok = replace_all(Port, Counter, Workers),
    Took = now_ms() - Begun,
    ok = work_off(Session, Port),
    receive after max(?AWAY_MS, ?AWAY_SHARE * Took) -> ok end,
    ok = replace_all(Counter, Port, Workers),
    (clock(State))#state{behind = Behind + 1, away_ms = Ms + now_ms() - Begun}.

%% The queue gets a dozen of its events done whenever a process of its scheduler is scheduled out.
work_off(Session, Port) ->
    Flush = fun() ->
                    ok = beamweave_trace:exempt({Session, Port}),
                    _ = flush(Port)
            end,
    {Pid, Monitor} = spawn_opt(Flush, [monitor, {priority, high}]),
    pump(Pid, Monitor).

pump(Pid, Monitor) ->
    lists:foreach(fun(_) -> erlang:yield() end, lists:seq(1, ?PUMP_YIELDS)),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    after ?PUMP_PAUSE_MS ->
        pump(Pid, Monitor)
    end.

%% A question about a process is answered when that is scheduled next, which takes a while where all
%% schedulers are busy: many are asked at once.
replace_all(Old, New, Workers) ->
    lists:foreach(fun(Kind) -> replace(Kind, Old, New) end, [new_processes, new_ports]),
    ok = replace_rounds(processes() ++ erlang:ports(), Old, New, Workers, ?ROUNDS).

%% Some may have been made by processes that had the old tracer still.
replace_rounds(_, _, _, _, 0) ->
    ok;
replace_rounds(Tracees, Old, New, Workers, Rounds) ->
    Reference = make_ref(),
    Hands = deal(Tracees, Workers),
    lists:foreach(fun({Worker, Hand}) ->
                          Worker ! {replace, self(), Reference, Hand, Old, New}
                  end, Hands),
    Counts = [receive {Reference, Count} -> Count end || _ <- Hands],
    case lists:sum(Counts) of
        0 -> ok;
        _ -> replace_rounds(processes() -- Tracees, Old, New, Workers, Rounds - 1)
    end.

deal(Tracees, Workers) ->
    deal(Tracees, Workers, length(Tracees) div length(Workers) + 1).

deal([], _, _) ->
    [];
deal(Tracees, [Worker | Rest], Size) ->
    {Hand, Left} = beamweave_trace:slice(Size, Tracees),
    [{Worker, Hand} | deal(Left, Rest, Size)].

workers(#state{workers = [], session = Session, port = Port} = State) ->
    Start = fun() ->
                    ok = beamweave_trace:exempt({Session, Port}),
                    work()
            end,
    State#state{workers = [spawn_opt(Start, [link, {priority, high}])
                           || _ <- lists:seq(1, ?WORKERS)]};
workers(State) ->
    State.

work() ->
    receive
        {replace, Pid, Reference, Hand, Old, New} ->
            Pid ! {Reference, length([Tracee || Tracee <- Hand, replace(Tracee, Old, New)])},
            work()
    end.

%% Returns whether it had the old one.
replace(Tracee, Old, New) ->
    case beamweave_trace:holder(Tracee) of
        Old ->
            %% What runs would make events between the two calls that nobody sees.
            Suspended = is_pid(Tracee) andalso suspend(Tracee),
            try
                {flags, Flags} = erlang:trace_info(Tracee, flags),
                _ = erlang:trace(Tracee, false, [tracer(Old) | Flags]),
                _ = erlang:trace(Tracee, true, [tracer(New) | Flags]),
                true
            catch
                %% It has ended.
                error:_ -> false
            after
                Suspended andalso resume(Tracee)
            end;
        _ ->
            false
    end.

tracer({Module, State}) -> {tracer, Module, State};
tracer(Port) -> {tracer, Port}.

suspend(Pid) ->
    try erlang:suspend_process(Pid, [asynchronous])
    catch
        error:_ -> false
    end.

resume(Pid) ->
    try erlang:resume_process(Pid)
    catch
        error:_ -> false
    end.

%% ---- Clocks ----

%% A sample now and then, and whenever Erlang's clock has moved against the kernel's.
clock(#state{looked = Looked, sampled = Sampled} = State) ->
    case now_ms() of
        Now when Sampled =:= none ->
            kept(sample(State#state.session), State#state{looked = Now, sampled = Now});
        Now when Now - Looked < ?CLOCK_MS ->
            State;
        Now when Now - Sampled >= ?CLOCK_KEPT_MS ->
            kept(sample(State#state.session), State#state{looked = Now, sampled = Now});
        Now ->
            {_, Offset, _} = pair(),
            case abs(Offset - State#state.offset) > ?CLOCK_MOVED_NS of
                true -> kept(sample(State#state.session), State#state{looked = Now, sampled = Now});
                false -> State#state{looked = Now}
            end
    end.

kept(Offset, State) ->
    State#state{offset = Offset}.

sample(Session) ->
    {Clock, Offset, Erlang} = pair(),
    PerSecond = erlang:convert_time_unit(1, second, native),
    Us = os:system_time(microsecond),
    _ = beamweave_tracer:put(Session, ?DICT_CLOCK, 0,
                             <<Clock:64/little, Erlang:64/little-signed, PerSecond:64/little,
                               Us:64/little-signed>>),
    Offset.

%% Both clocks at one moment: the closest of some tries.
pair() ->
    Tries = [begin
                 Before = beamweave_tracer:clock(),
                 Erlang = erlang:monotonic_time(),
                 After = beamweave_tracer:clock(),
                 {After - Before, (Before + After) div 2, Erlang}
             end || _ <- lists:seq(1, ?CLOCK_TRIES)],
    {_, Clock, Erlang} = lists:min(Tries),
    {Clock, Clock - erlang:convert_time_unit(Erlang, native, nanosecond), Erlang}.
