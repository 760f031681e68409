%% SPDX-License-Identifier: Apache-2.0
%% @doc A session without native code: OTP's own IP trace port, whose stream the recorder reads, and
%% the dictionary and state that it asks for by messages.
%%
%% The recorder connects first, before any flag is set. The port listens on all addresses and serves
%% the first who comes: what it says first is known to the recorder only, so that it knows that it is
%% the one. The same words stand last in the stream, behind all events: the port itself has no way to
%% tell that its queue is empty.
%%
%% Modules that came over a door are deleted before the last question is answered. So the recorder
%% sends messages and calls no function of ours, and the loop makes no call that is qualified by one
%% of our modules.
-module(beamweave_ip).

-export([open/1, session/0, port/1, finish/1]).
-export([put/4, set_tracer/3, poll/1, clock/0, word/1]).

-define(DICT_CLOCK, 10).

%% enum ring_tracer_state and ring_end_reason of ring_layout.h.
-define(TRACER_NONE, 0).
-define(TRACER_ENDED, 3).
-define(END_ASKED, 1).
-define(END_LEASE, 2).
-define(END_FAILED, 5).

%% Without a question for so long there is no recorder.
-define(LEASE_MS, 5000).
-define(LOOK_MS, 200).
-define(CLOCK_KEPT_MS, 10000).
-define(CLOCK_MOVED_NS, 1000).
-define(CLOCK_TRIES, 5).
%% A slow network stack has taken what the driver still had by then.
-define(QUIET_MS, 20).
-define(MARK_MS, 5000).
-define(ANSWER_MS, 10000).
%% What the VM itself has queued for the port goes out first.
-define(FINISH_MS, 60000).
%% Of one answer.
-define(ENTRIES_MAX, 10000).
%% The driver clears as many bytes of its queue as that has places, plus one (trace_ip_drv.c,
%% trace_ip_start): below 8 its first pointer is partly garbage, which has brought down a VM.
-define(QUEUE_MIN, 7).

-record(state, {port :: port(),
                words :: binary(),
                node :: node(),
                run = on :: on | {over, 0..6},
                gone = false :: boolean(),
                tracer = ?TRACER_NONE :: 0..3,
                reason = 0 :: 0..6,
                entries = queue:new() :: queue:queue(binary()),
                sampled = 0 :: integer(),
                offset = none :: none | integer(),
                asked :: integer(),
                mark = none :: none | integer(),
                finishing = [] :: [{pid(), reference()}]}).

%% @doc Open the port and start the process that owns it. Returns the TCP port and the words that the
%% stream begins with.
-spec open(#{node := binary(), queue := pos_integer()}) ->
          {ok, inet:port_number(), binary()} | {error, term()}.
open(#{node := Node, queue := Queue}) when Queue >= ?QUEUE_MIN ->
    Caller = self(),
    {Pid, Monitor} = spawn_monitor(fun() -> init(Caller, binary_to_atom(Node), Queue) end),
    receive
        {Pid, Answer} ->
            erlang:demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, Reason}
    end.

%% @doc The process of the session.
-spec session() -> {ok, pid()} | {error, no_session}.
session() ->
    case whereis(?MODULE) of
        undefined -> {error, no_session};
        Pid -> {ok, Pid}
    end.

%% @doc Its trace port.
-spec port(pid()) -> {ok, port()} | {error, term()}.
port(Session) -> ask(Session, port).

%% @doc Close the port, after all that was sent to it has reached the recorder.
-spec finish(pid()) -> ok | {error, term()}.
finish(Session) -> ask(Session, finish, ?FINISH_MS).

%% @doc See {@link beamweave_session}.
-spec put(pid(), pos_integer(), term(), binary()) -> ok.
put(Session, Type, Key, Payload) ->
    Number = case is_integer(Key) of
                 true -> Key;
                 false -> word(Key)
             end,
    Session ! {entry, <<Type:16/little, Number:64/little, Payload/binary>>},
    ok.

%% @doc See {@link beamweave_session}.
-spec set_tracer(pid(), 0..3, 0..6) -> ok.
set_tracer(Session, State, Reason) ->
    Session ! {tracer, State, Reason},
    ok.

%% @doc See {@link beamweave_session}.
-spec poll(pid()) -> {run, integer()} | {over, 0..6} | {error, term()}.
poll(Session) ->
    case ask(Session, poll) of
        on -> {run, 1};
        Answer -> Answer
    end.

%% @doc CLOCK_MONOTONIC in nanoseconds.
-spec clock() -> non_neg_integer().
clock() ->
    {time, Time} = lists:keyfind(time, 1, erlang:system_info(os_monotonic_time_source)),
    erlang:convert_time_unit(Time, native, nanosecond).

%% @doc What the reader makes of a printed process or port.
-spec word(pid() | port()) -> non_neg_integer().
word(Pid) when is_pid(Pid) ->
    [_, Number, Serial] = string:lexemes(pid_to_list(Pid), "<.>"),
    (list_to_integer(Serial) bsl 32) bor (list_to_integer(Number) bsl 4) bor 3;
word(Port) ->
    [_, _, Number] = string:lexemes(erlang:port_to_list(Port), "<.>"),
    (list_to_integer(Number) bsl 4) bor 7.

ask(Session, What) ->
    ask(Session, What, ?ANSWER_MS).

ask(Session, What, TimeoutMs) ->
    Monitor = erlang:monitor(process, Session),
    Session ! {What, self(), Monitor},
    receive
        {Monitor, Answer} ->
            erlang:demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Session, Reason} ->
            {error, Reason}
    after TimeoutMs ->
        erlang:demonitor(Monitor, [flush]),
        {error, timeout}
    end.

%% ---- The process ----

-spec init(pid(), node(), pos_integer()) -> ok.
init(Caller, Node, Queue) ->
    _ = process_flag(trap_exit, true),
    _ = process_flag(priority, high),
    %% Nobody traces us, by a default for new processes for one.
    _ = erlang:trace(self(), false, [all]),
    try register(?MODULE, self())
    catch
        error:badarg -> exit(busy)
    end,
    case driver(Queue) of
        {ok, Port} ->
            Words = <<"beamweave", (rand:bytes(16))/binary>>,
            true = erlang:monitor_node(Node, true),
            true = port_command(Port, Words),
            Caller ! {self(), {ok, listens(Port), Words}},
            loop(sample(#state{port = Port, words = Words, node = Node, asked = now_ms()}));
        {error, Reason} ->
            exit(Reason)
    end.

driver(Queue) ->
    case {code:ensure_loaded(dbg), code:priv_dir(runtime_tools)} of
        {{module, dbg}, Dir} when is_list(Dir) ->
            try
                {ok, (dbg:trace_port(ip, {0, Queue}))()}
            catch
                _:Reason -> {error, {driver, Reason}}
            end;
        _ ->
            {error, no_runtime_tools}
    end.

listens(Port) ->
    <<0, Number:16>> = iolist_to_binary(erlang:port_control(Port, $p, "")),
    Number.

now_ms() ->
    erlang:monotonic_time(millisecond).

loop(State0) ->
    receive
        Message -> over(handle(Message, State0))
    after ?LOOK_MS ->
        over(look(State0))
    end.

%% Nobody will ask any more, and nobody has anything of ours.
over(#state{gone = true, tracer = Tracer}) when Tracer =:= ?TRACER_NONE; Tracer =:= ?TRACER_ENDED ->
    ok;
over(State) ->
    loop(State).

handle({entry, Entry}, State) ->
    entry(Entry, State);
handle({tracer, Tracer, Reason}, State) ->
    State#state{tracer = Tracer, reason = Reason};
handle({poll, Pid, Reference}, #state{run = Run} = State) ->
    Pid ! {Reference, Run},
    State;
handle({port, Pid, Reference}, #state{port = Port} = State) ->
    Pid ! {Reference, {ok, Port}},
    State;
handle({take, Pid, Stop, Seen}, State) ->
    take(Pid, Stop, marked(Seen, State#state{asked = now_ms()}));
handle({finish, Pid, Reference}, #state{finishing = Finishing} = State) ->
    %% Ordered behind all that was sent to the port.
    _ = catch listens(State#state.port),
    _ = Finishing =:= [] andalso erlang:send_after(?QUIET_MS, self(), mark),
    left(State#state{finishing = [{Pid, Reference} | Finishing]});
handle(mark, #state{port = Port, words = Words} = State) ->
    _ = catch port_command(Port, Words),
    State#state{mark = now_ms()};
handle({nodedown, Node}, #state{node = Node} = State) ->
    gone(State);
handle({'EXIT', Port, _}, #state{port = Port} = State) ->
    left(State#state{run = first(State#state.run, ?END_FAILED)});
handle(_, State) ->
    State.

look(#state{asked = Asked, mark = Mark} = State) ->
    Now = now_ms(),
    if
        Now - Asked > ?LEASE_MS -> gone(State);
        is_integer(Mark), Now - Mark > ?MARK_MS -> closed(State);
        true -> State
    end.

gone(State) ->
    left(State#state{gone = true, run = first(State#state.run, ?END_LEASE)}).

%% The reason that came first.
first(on, Reason) -> {over, Reason};
first(Run, _) -> Run.

%% Nobody reads what is still to come.
left(#state{gone = true} = State) -> closed(State);
left(State) -> State.

marked(true, #state{mark = Mark} = State) when Mark =/= none -> closed(State);
marked(_, State) -> State.

closed(#state{port = Port, finishing = Finishing} = State) ->
    _ = catch port_close(Port),
    _ = [Pid ! {Reference, ok} || {Pid, Reference} <- Finishing],
    State#state{finishing = [], mark = none}.

%% The answer looks as one of rex does: the recorder knows no other.
take(Pid, Stop, State0) ->
    State = sample(case Stop of
                       true -> State0#state{run = first(State0#state.run, ?END_ASKED)};
                       false -> State0
                   end),
    #state{entries = Entries, tracer = Tracer, reason = Reason} = State,
    {Now, Later} = queue:split(min(?ENTRIES_MAX, queue:len(Entries)), Entries),
    Pid ! {rex, {Tracer, Reason, queue:to_list(Now)}},
    %% It has been told all.
    State#state{entries = Later,
                gone = State#state.gone
                orelse (Tracer =:= ?TRACER_ENDED andalso queue:is_empty(Later))}.

entry(Entry, #state{entries = Entries} = State) ->
    State#state{entries = queue:in(Entry, Entries)}.

%% ---- Clocks ----

%% A sample now and then, and whenever Erlang's clock has moved against the kernel's.
sample(#state{sampled = Sampled, offset = Before} = State) ->
    {Clock, Offset, Erlang} = pair(),
    Now = now_ms(),
    case Before =:= none orelse Now - Sampled >= ?CLOCK_KEPT_MS
        orelse abs(Offset - Before) > ?CLOCK_MOVED_NS of
        true ->
            PerSecond = erlang:convert_time_unit(1, second, native),
            Us = os:system_time(microsecond),
            entry(<<?DICT_CLOCK:16/little, 0:64, Clock:64/little, Erlang:64/little-signed,
                    PerSecond:64/little, Us:64/little-signed>>,
                  State#state{sampled = Now, offset = Offset});
        false ->
            State
    end.

%% Both clocks at one moment: the closest of some tries. No call that is qualified may stand here:
%% the code may be old.
pair() ->
    Tries = [begin
                 Before = clock(),
                 Erlang = erlang:monotonic_time(),
                 After = clock(),
                 {After - Before, (Before + After) div 2, Erlang}
             end || _ <- lists:seq(1, ?CLOCK_TRIES)],
    {_, Clock, Erlang} = lists:min(Tries),
    {Clock, Clock - erlang:convert_time_unit(Erlang, native, nanosecond), Erlang}.
