%% SPDX-License-Identifier: Apache-2.0
%% @doc Names, initial calls and parents of processes, and ports with their sockets, into the
%% session's dictionary, for as long as the recording lasts.
%%
%% Lists are worked off in slices that no scheduler feels. A process that is busy answers late and
%% holds only the worker that asked it: the others of its slice are asked by another worker.
-module(beamweave_names).

-export([start/2, finish/2]).

-define(DICT_NAME, 3).
-define(DICT_INITIAL, 4).
-define(DICT_PORT, 5).
-define(DICT_PARENT, 9).

-define(SLICE, 200).
-define(SLICE_PAUSE_MS, 2).
-define(WORKER_PATIENCE_MS, 50).
-define(WORKERS_MAX, 32).
-define(ROUND_MS, 1000).
%% A port is asked again in so many rounds: it may be opened before it is connected.
-define(PORT_ROUNDS, 3).
%% Above so many processes they are listed less often.
-define(MANY_PROCESSES, 20000).
-define(MANY_ROUNDS, 10).
%% '$initial_call' stands in the process dictionary, which is copied whole to be read.
-define(DICTIONARY_MEMORY_BYTES, 1000000).

-define(AF_INET, 2).
-define(AF_INET6, 10).

-record(state, {session :: beamweave_session:session(),
                tracer :: beamweave_trace:tracer(),
                processes :: boolean(),
                ports :: boolean(),
                known :: ets:table(), %% of processes; on no heap that would be collected
                listed = 0 :: non_neg_integer(),
                known_ports = #{} :: #{port() => non_neg_integer()},
                idle = [] :: [pid()],
                workers = 0 :: non_neg_integer(),
                done = 0 :: non_neg_integer(),
                round = 0 :: non_neg_integer(),
                counter :: counters:counters_ref()}).

%% @doc Start the process that keeps the dictionary up to date; it ends with its starter.
-spec start(beamweave_trace:tracer(), #{names => boolean(), ports => boolean(), _ => _}) -> pid().
start(Tracer, Options) ->
    Owner = self(),
    spawn_opt(fun() -> init(Owner, Tracer, Options) end, [{priority, low}]).

%% @doc Write what has come since the last round, then end; at most for so many milliseconds.
-spec finish(pid(), non_neg_integer()) -> ok.
finish(Pid, TimeoutMs) ->
    Monitor = erlang:monitor(process, Pid),
    Pid ! {finish, Monitor},
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    after TimeoutMs ->
        erlang:demonitor(Monitor, [flush]),
        exit(Pid, kill),
        ok
    end.

init(Owner, Tracer, Options) ->
    _ = process_flag(trap_exit, true),
    _ = erlang:monitor(process, Owner),
    ok = beamweave_trace:exempt(Tracer),
    loop(#state{session = beamweave_trace:session(Tracer),
                tracer = Tracer,
                processes = maps:get(names, Options, true),
                ports = maps:get(ports, Options, false),
                known = ets:new(?MODULE, [private]),
                counter = counters:new(1, [])}).

loop(State0) ->
    State = round_(State0),
    receive
        {finish, _} -> leave(round_(State#state{round = 0}));
        {'DOWN', _, process, _, _} -> leave(State)
    after ?ROUND_MS ->
        loop(State)
    end.

-spec leave(#state{}) -> no_return().
leave(#state{idle = Idle}) ->
    %% Workers are linked: those that still wait for an answer go with us.
    _ = [exit(Worker, shutdown) || Worker <- Idle],
    exit(shutdown).

round_(#state{round = Round} = State0) ->
    {Processes, State1} = new_processes(State0),
    {Ports, State2} = new_ports(State1),
    State = slices(Processes ++ Ports, tell(length(Processes), State2)),
    (tell(0, State))#state{round = Round + 1}.

new_processes(#state{processes = false} = State) ->
    {[], State};
new_processes(#state{listed = Listed, round = Round} = State)
  when Listed > ?MANY_PROCESSES, Round rem ?MANY_ROUNDS =/= 0 ->
    {[], State};
new_processes(#state{known = Known} = State) ->
    All = processes(),
    New = [Pid || Pid <- All, ets:insert_new(Known, {Pid})],
    Listed = length(All),
    case ets:info(Known, size) > 2 * Listed + ?MANY_PROCESSES of
        true ->
            %% Mostly processes that are gone.
            true = ets:delete_all_objects(Known),
            lists:foreach(fun(Pid) -> ets:insert(Known, {Pid}) end, All);
        false ->
            ok
    end,
    {New, State#state{listed = Listed}}.

new_ports(#state{ports = false} = State) ->
    {[], State};
new_ports(#state{known_ports = Known} = State) ->
    All = maps:from_list([{Port, maps:get(Port, Known, 0) + 1} || Port <- erlang:ports()]),
    {[Port || {Port, Rounds} <- maps:to_list(All), Rounds =< ?PORT_ROUNDS],
     State#state{known_ports = All}}.

%% How many of how many processes have their names in the dictionary.
tell(More, #state{session = Session, counter = Counter, done = Total} = State) ->
    _ = beamweave_session:set_names(Session, counters:get(Counter, 1), Total + More),
    State#state{done = Total + More}.

slices([], State) ->
    State;
slices(List, State) ->
    {Slice, Rest} = beamweave_trace:slice(?SLICE, List),
    Worked = slice(list_to_tuple(Slice), State),
    receive
        {'DOWN', _, process, _, _} -> leave(Worked)
    after ?SLICE_PAUSE_MS ->
        slices(Rest, tell(0, Worked))
    end.

%% One slice: workers claim its members one by one.
slice(Slice, State) ->
    Claims = atomics:new(1, []),
    {Worker, Next} = worker(State),
    Worker ! {slice, Slice, Claims},
    wait_slice(Slice, Claims, 0, Next).

wait_slice(Slice, Claims, Seen, State) ->
    receive
        {idle, Worker, Claims} ->
            State#state{idle = [Worker | State#state.idle]};
        {idle, Worker, _} ->
            wait_slice(Slice, Claims, Seen, State#state{idle = [Worker | State#state.idle]});
        {'EXIT', _, _} ->
            wait_slice(Slice, Claims, Seen, State#state{workers = State#state.workers - 1});
        {'DOWN', _, process, _, _} ->
            leave(State)
    after ?WORKER_PATIENCE_MS ->
        case atomics:get(Claims, 1) of
            Seen -> help(Slice, Claims, Seen, State);
            More -> wait_slice(Slice, Claims, More, State)
        end
    end.

%% Nobody got on: the process asked is busy. Another worker takes what is left.
help(Slice, Claims, Seen, State) when Seen < tuple_size(Slice),
                                      (State#state.idle =/= []
                                       orelse State#state.workers < ?WORKERS_MAX) ->
    {Worker, Next} = worker(State),
    Worker ! {slice, Slice, Claims},
    wait_slice(Slice, Claims, Seen, Next);
help(Slice, _, Seen, State) when Seen >= tuple_size(Slice) ->
    State;
help(Slice, Claims, Seen, State) ->
    wait_slice(Slice, Claims, Seen, State).

worker(#state{idle = [Worker | Idle]} = State) ->
    {Worker, State#state{idle = Idle}};
worker(#state{session = Session, tracer = Tracer, counter = Counter, workers = Workers} = State) ->
    Coordinator = self(),
    Worker = spawn_opt(fun() ->
                               ok = beamweave_trace:exempt(Tracer),
                               work(Coordinator, Session, Counter)
                       end, [link, {priority, low}]),
    {Worker, State#state{workers = Workers + 1}}.

work(Coordinator, Session, Counter) ->
    receive
        {slice, Slice, Claims} ->
            ok = claim(Slice, Claims, Session, Counter),
            Coordinator ! {idle, self(), Claims},
            work(Coordinator, Session, Counter)
    end.

claim(Slice, Claims, Session, Counter) ->
    case atomics:add_get(Claims, 1, 1) of
        Index when Index > tuple_size(Slice) ->
            ok;
        Index ->
            ask(element(Index, Slice), Session, Counter),
            claim(Slice, Claims, Session, Counter)
    end.

ask(Port, Session, _) when is_port(Port) ->
    port(Port, Session);
ask(Pid, Session, Counter) ->
    _ = case process_info(Pid, [registered_name, initial_call, memory, parent]) of
            undefined -> ok;
            Info -> process(Pid, Info, Session)
        end,
    counters:add(Counter, 1, 1).

process(Pid, [{registered_name, Name}, {initial_call, Call}, {memory, Bytes}, {parent, Parent}],
        Session) ->
    _ = case Name of
            [] -> ok;
            _ -> put_text(Session, ?DICT_NAME, Pid, atom_to_binary(Name))
        end,
    _ = put_text(Session, ?DICT_INITIAL, Pid, beamweave_spec:mfa_text(initial(Pid, Call, Bytes))),
    case is_pid(Parent) andalso node(Parent) =:= node() of
        true ->
            Word = beamweave_session:word(Session, Parent),
            beamweave_session:put(Session, ?DICT_PARENT, Pid, <<Word:64/little>>);
        false ->
            ok
    end.

initial(Pid, {proc_lib, init_p, _} = Call, Bytes) when Bytes =< ?DICTIONARY_MEMORY_BYTES ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} ->
            case lists:keyfind('$initial_call', 1, Dictionary) of
                {_, {M, F, A} = MFA} when is_atom(M), is_atom(F), is_integer(A) -> MFA;
                _ -> Call
            end;
        undefined ->
            Call
    end;
initial(_, Call, _) ->
    Call.

put_text(Session, Type, Key, Text) ->
    Time = beamweave_session:clock(Session),
    beamweave_session:put(Session, Type, Key, <<Time:64/little, Text/binary>>).

port(Port, Session) ->
    case {erlang:port_info(Port, name), erlang:port_info(Port, connected)} of
        {{name, Name}, {connected, Owner}} ->
            {Local, Remote} = addresses(Port, Name),
            Time = beamweave_session:clock(Session),
            Payload = port_payload(Time, beamweave_session:word(Session, Owner), Local, Remote),
            Text = unicode:characters_to_binary(Name),
            _ = beamweave_session:put(Session, ?DICT_PORT, Port, <<Payload/binary, Text/binary>>),
            ok;
        _ ->
            ok
    end.

addresses(Port, Name) when Name =:= "tcp_inet"; Name =:= "udp_inet"; Name =:= "sctp_inet" ->
    {address(fun() -> inet:sockname(Port) end), address(fun() -> inet:peername(Port) end)};
addresses(_, _) ->
    {none, none}.

%% The port may be closed while it is asked.
address(Ask) ->
    try Ask() of
        {ok, {Address, Number}} when is_tuple(Address), is_integer(Number) -> {Address, Number};
        _ -> none
    catch
        _:_ -> none
    end.

port_payload(Time, Owner, Local, Remote) ->
    {Family, LocalPort, LocalBytes} = address_bytes(Local),
    {_, RemotePort, RemoteBytes} = address_bytes(Remote),
    <<Time:64/little, Owner:64/little, Family:16/little, LocalPort:16/little,
      RemotePort:16/little, 0:16, LocalBytes/binary, RemoteBytes/binary>>.

address_bytes(none) ->
    {0, 0, <<0:128>>};
address_bytes({{A, B, C, D}, Port}) ->
    {?AF_INET, Port, <<A, B, C, D, 0:96>>};
address_bytes({Address, Port}) when tuple_size(Address) =:= 8 ->
    {?AF_INET6, Port, << <<Part:16>> || Part <- tuple_to_list(Address) >>}.
