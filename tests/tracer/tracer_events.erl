%% SPDX-License-Identifier: Apache-2.0
%% @doc Every kind of event that OTP 25 has, produced on purpose. Each function is a test.
-module(tracer_events).

-export([messages/0, shapes/0, fingerprints/0, running/0, dirty/0, gc/0, processes/0, spawns/0, initial/0,
         names/0, ports/0, port_lists/0, unknown/0, pids/0, many_names/0, far_begin/0,
         far_send/1, far_end/0]).
-export([start_link/0, init/1, handle_call/3, handle_cast/2]).
-behaviour(gen_server).

-define(NO_INDEX, 16#ffffffff).

text(Pid) ->
    list_to_binary(pid_to_list(Pid)).

word(Term) ->
    beamweave_tracer:word(Term).

of_process(Pid, Result) ->
    tracer_test:of_process(Pid, Result).

%% Run Fun in a process of its own that is traced from its first event.
child(Fun) ->
    {Pid, Monitor} = spawn_monitor(fun() -> receive go -> Fun() end end),
    Pid ! go,
    receive {'DOWN', Monitor, process, Pid, _} -> Pid end.

%% 1,000 messages to another process are 1,000 sends and 1,000 receives, alike in shape.
-spec messages() -> ok.
messages() ->
    Sink = spawn(fun Loop() -> receive stop -> ok; _ -> Loop() end end),
    true = register(tracer_sink, Sink),
    Dead = child(fun() -> ok end),
    Result = tracer_test:record(
               #{events => [messages], pids => [text(self()), text(Sink)], names => false},
               fun() ->
                       _ = [Sink ! {metric, N} || N <- lists:seq(1, 1000)],
                       tracer_sink ! {'$gen_cast', by_name},
                       {tracer_sink, node()} ! by_node,
                       Dead ! gone,
                       receive after 50 -> ok end
               end),
    Sink ! stop,
    Mine = of_process(self(), Result),
    Theirs = of_process(Sink, Result),
    Sends = [E || #{kind := send, atom1 := metric} = E <- Mine],
    Receives = [E || #{kind := 'receive', atom1 := metric} = E <- Theirs],
    1000 = length(Sends),
    1000 = length(Receives),
    [] = [E || #{to := To} = E <- Sends, To =/= word(Sink)],
    %% In the order in which they were sent, and each with the other's fingerprint.
    [] = [pair || {#{fingerprint := A}, #{fingerprint := B}} <- lists:zip(Sends, Receives), A =/= B],
    1000 = length(lists:usort([F || #{fingerprint := F} <- Sends])),
    [#{type := 2, arity := 2}] = lists:usort([maps:with([type, arity], E) || E <- Sends]),
    1 = tracer_test:count(#{kind => send, name => tracer_sink, atom1 => '$gen_cast',
                            atom2 => by_name}, Mine),
    1 = tracer_test:count(#{kind => send, name => tracer_sink, atom1 => by_node, type => 1}, Mine),
    1 = tracer_test:count(#{kind => send_noproc, to => word(Dead), atom1 => gone}, Mine),
    ok.

%% The type of every kind of message, and cost that does not depend on its size.
-spec shapes() -> ok.
shapes() ->
    Messages = [{1, 'Größe'}, {2, {}}, {3, [1]}, {3, lists:seq(1, 100000)}, {4, <<"binary">>},
                {4, binary:copy(<<0>>, 1000000)}, {4, <<1:3>>}, {5, 1}, {5, 1 bsl 100}, {6, self()},
                {7, #{}}, {7, maps:from_list([{N, N} || N <- lists:seq(1, 1000)])}, {8, 1.0},
                {9, make_ref()}, {10, hd(erlang:ports())}, {11, fun() -> ok end}, {12, []}],
    Result = tracer_test:record(#{events => [messages], pids => [text(self())], names => false},
                                fun() -> [self() ! Message || {_, Message} <- Messages] end),
    _ = [receive Message -> ok end || {_, Message} <- Messages],
    Self = word(self()),
    Sends = [E || #{kind := send, to := To} = E <- of_process(self(), Result), To =:= Self],
    Expected = [Type || {Type, _} <- Messages],
    Expected = [Type || #{type := Type} <- Sends],
    [#{atom1 := 'Größe'} | _] = Sends,
    [56] = lists:usort([Bytes || #{bytes := Bytes} <- Sends]),
    ok.

%% What a fingerprint tells apart, and what it does not: for the other node of a pair to print.
-spec fingerprints() -> [{term(), non_neg_integer()}].
fingerprints() ->
    External = binary_to_term(<<131, 88, 119, 3, "a@b", 77:32, 0:32, 1:32>>),
    Terms = [{'$gen_cast', {metric, 1}}, {'$gen_cast', {metric, 2}}, [a, b, "text"], 'Ж',
             <<"abcdefgh", 0:8000>>, <<"abcdefgi", 0:8000>>, 1.5, 1 bsl 40, External, #{a => 1}],
    Result = tracer_test:record(#{events => [messages], pids => [text(self())], names => false},
                                fun() -> [self() ! Term || Term <- Terms] end),
    _ = [receive Term -> ok end || Term <- Terms],
    Self = word(self()),
    Found = [F || #{kind := send, fingerprint := F, to := To} <- of_process(self(), Result),
                  To =:= Self],
    Count = length(Terms),
    Count = length(lists:usort(Found)),
    lists:zip(Terms, Found).

%% Messages to another node: far_begin() and far_end() there, far_send() here. What a message holds
%% that is local on one side and of another node on the other has the same fingerprint on both.
-spec far_begin() -> ok.
far_begin() ->
    Sink = spawn(fun Loop() -> receive stop -> ok; _ -> Loop() end end),
    true = register(tracer_sink, Sink),
    Session = tracer_test:on(#{events => [messages], pids => [<<"tracer_sink">>], names => false}),
    persistent_term:put(?MODULE, {Sink, Session}).

-spec far_send(node()) -> [non_neg_integer()].
far_send(Node) ->
    Port = hd(erlang:ports()),
    Messages = [{'$gen_call', {self(), [alias | make_ref()]}, {get, key}}, {self(), Port, 1.5},
                {'Ж', <<"bytes">>, #{self() => 1}}, [self(), make_ref()]],
    Result = tracer_test:record(#{events => [messages], pids => [text(self())], names => false},
                                fun() -> [{tracer_sink, Node} ! M || M <- Messages] end),
    [F || #{kind := send, name := tracer_sink, fingerprint := F} <- of_process(self(), Result)].

-spec far_end() -> [non_neg_integer()].
far_end() ->
    {Sink, Session} = persistent_term:get(?MODULE),
    true = persistent_term:erase(?MODULE),
    Result = tracer_test:off(Session),
    Sink ! stop,
    [F || #{kind := 'receive', fingerprint := F} <- of_process(Sink, Result)].

%% In and out alternate; the last is out_exited. A process that takes long to exit is seen leaving.
-spec running() -> ok.
running() ->
    Busy = spawn(fun() -> receive go -> leave_slowly() end end),
    Result = tracer_test:record(#{events => [running], pids => [text(Busy)], names => false},
                                fun() ->
                                        Monitor = erlang:monitor(process, Busy),
                                        Busy ! go,
                                        receive {'DOWN', Monitor, process, Busy, _} -> ok end,
                                        receive after 200 -> ok end
                                end),
    Events = of_process(Busy, Result),
    Kinds = tracer_test:kinds(Events),
    in = hd(Kinds),
    out_exited = lists:last(Kinds),
    true = lists:member(out_exiting, Kinds),
    true = lists:member(in_exiting, Kinds),
    ok = alternate(Kinds),
    true = lists:member({?MODULE, leave_slowly, 0}, [M || #{kind := out, mfa := M} <- Events])
        orelse lists:member(out, Kinds),
    Schedulers = [S || #{scheduler := S} <- Events],
    true = lists:all(fun(S) -> S >= 1 andalso S =< erlang:system_info(schedulers) end, Schedulers),
    ok.

leave_slowly() ->
    %% Ending takes turns for each of these.
    Others = [spawn(fun() -> receive after 5000 -> ok end end) || _ <- lists:seq(1, 1000)],
    _ = [erlang:monitor(process, Other) || Other <- Others, _ <- lists:seq(1, 200)],
    exit(normal).

alternate([In, Out | Rest]) ->
    true = lists:member(In, [in, in_exiting]),
    true = lists:member(Out, [out, out_exiting, out_exited]),
    alternate(Rest);
alternate([]) ->
    ok.

%% A dirty scheduler's thread: role and flag. The process is `in' on it.
-spec dirty() -> ok.
dirty() ->
    Worker = spawn(fun() -> receive go -> _ = file:read_file_info("/", [raw]), receive stop -> ok end end end),
    Result = tracer_test:record(#{events => [running], pids => [text(Worker)], names => false},
                                fun() -> Worker ! go, receive after 100 -> ok end end),
    Worker ! stop,
    Dirty = [E || #{flags := 4} = E <- of_process(Worker, Result)],
    true = length(Dirty) >= 2,
    Threads = maps:get(threads, Result),
    [3] = lists:usort([maps:get(role, maps:get(Thread, Threads)) || #{thread := Thread} <- Dirty]),
    [0] = lists:usort([Scheduler || #{scheduler := Scheduler} <- Dirty]),
    %% All schedulers' threads are known, with their numbers and where their data are.
    Normal = [N || #{role := 1, number := N, esdp := Esdp} <- maps:values(Threads), Esdp =/= 0],
    true = lists:sort(Normal) =:= lists:seq(1, erlang:system_info(schedulers)),
    ok.

%% Starts and ends pair up; the figures are the process's own.
-spec gc() -> ok.
gc() ->
    Worker = spawn(fun() -> receive go -> _ = garbage(20), true = erlang:garbage_collect(),
                                          receive stop -> ok end end end),
    Hungry = spawn_opt(fun() -> receive go -> length(garbage(1000)) end end,
                       [{max_heap_size, #{size => 20000, kill => true, error_logger => false}}]),
    Result = tracer_test:record(#{events => [gc], pids => [text(Worker), text(Hungry)],
                                  names => false},
                                fun() ->
                                        Monitor = erlang:monitor(process, Hungry),
                                        Hungry ! go,
                                        receive {'DOWN', Monitor, process, _, killed} -> ok end,
                                        Worker ! go,
                                        receive after 300 -> ok end,
                                        process_info(Worker, [garbage_collection_info, heap_size])
                                end),
    [{garbage_collection_info, Info}, {heap_size, _}] = maps:get(answer, Result),
    Worker ! stop,
    Events = of_process(Worker, Result),
    Kinds = tracer_test:kinds(Events),
    true = lists:member(gc_minor_start, Kinds),
    ok = paired(Kinds),
    #{kind := gc_major_end, heap_size := Heap, heap_block_size := Block, old_heap_size := 0,
      bin_old_vheap_block_size := Vheap} = lists:last(Events),
    true = Heap =< Block,
    {heap_block_size, Block} = lists:keyfind(heap_block_size, 1, Info),
    {bin_old_vheap_block_size, Vheap} = lists:keyfind(bin_old_vheap_block_size, 1, Info),
    Killed = of_process(Hungry, Result),
    1 = tracer_test:count(#{kind => gc_max_heap}, Killed),
    ok.

garbage(0) -> [];
garbage(N) -> [{N, I} || I <- lists:seq(1, 2000)] ++ garbage(N - 1).

paired([gc_minor_start, gc_minor_end | Rest]) -> paired(Rest);
paired([gc_major_start, gc_major_end | Rest]) -> paired(Rest);
paired([]) -> ok.

%% spawn, spawned, exit, links of both sides, names.
-spec processes() -> ok.
processes() ->
    Result = tracer_test:record(#{events => [procs], names => false}, fun() -> child(fun family/0) end),
    Parent = maps:get(answer, Result),
    Events = of_process(Parent, Result),
    [#{other := Word, mfa := {erlang, apply, 2}}] = [E || #{kind := spawn} = E <- Events],
    Child = [E || #{process := Process} = E <- maps:get(events, Result), Process =:= Word],
    [spawned, getting_linked, getting_unlinked, getting_linked, register, unregister, exit] =
        [K || K <- tracer_test:kinds(Child)],
    [#{other := Up}] = [E || #{kind := spawned} = E <- Child],
    Up = word(Parent),
    [#{name := tracer_child}, #{name := tracer_child}] =
        [E || #{kind := K} = E <- Child, K =:= register orelse K =:= unregister],
    [link, unlink, link] = [K || #{kind := K, other := W} <- Events, W =:= Word,
                                 K =:= link orelse K =:= unlink],
    [#{type := 1, atom1 := normal}] = [E || #{kind := exit} = E <- Child],
    [#{type := 2, atom1 := family, arity := 2}] = [E || #{kind := exit} = E <- Events],
    ok.

family() ->
    Child = spawn_link(fun() ->
                               receive register -> true = register(tracer_child, self()) end,
                               receive unregister -> true = unregister(tracer_child) end
                       end),
    true = unlink(Child),
    true = link(Child),
    Monitor = erlang:monitor(process, Child),
    Child ! register,
    Child ! unregister,
    receive {'DOWN', Monitor, process, Child, normal} -> ok end,
    exit({family, over}).

%% 1,000 processes that come and go: each is spawned once on both sides and exits once.
-spec spawns() -> ok.
spawns() ->
    Result = tracer_test:record(#{events => [procs], names => false},
                                fun() -> [child(fun() -> ok end) || _ <- lists:seq(1, 1000)] end),
    Words = maps:from_list([{word(Pid), []} || Pid <- maps:get(answer, Result)]),
    1000 = map_size(Words),
    Count = fun(Kind, Key) ->
                    length(lists:usort([Word || #{kind := K} = E <- maps:get(events, Result),
                                                K =:= Kind, Word <- [maps:get(Key, E)],
                                                is_map_key(Word, Words)]))
            end,
    {1000, 1000, 1000} = {Count(spawn, other), Count(spawned, process), Count(exit, process)},
    ok.

%% What processes of proc_lib and gen really run stands beside what was spawned.
-spec initial() -> ok.
initial() ->
    Result = tracer_test:record(
               #{events => [procs], names => false},
               fun() ->
                       {ok, Server} = gen_server:start(?MODULE, [], []),
                       Plain = proc_lib:spawn(lists, seq, [1, 3]),
                       ok = gen_server:stop(Server),
                       {Server, Plain}
               end),
    {Server, Plain} = maps:get(answer, Result),
    [#{mfa := {proc_lib, init_p, 5}, initial := {?MODULE, init, 1}}] =
        [E || #{kind := spawned} = E <- of_process(Server, Result)],
    [#{mfa := {proc_lib, init_p, 5}, initial := {lists, seq, 2}}] =
        [E || #{kind := spawned} = E <- of_process(Plain, Result)],
    ok.

%% Ports: their life, their links and names, what they do on a scheduler, their data.
-spec ports() -> ok.
ports() ->
    Result = tracer_test:record(
               #{events => [ports, messages, running], names => false},
               fun() ->
                       Port = open_port({spawn, "cat"}, [binary]),
                       true = register(tracer_port, Port),
                       true = port_command(Port, <<"echo">>),
                       receive {Port, {data, <<"echo">>}} -> ok end,
                       true = unlink(Port),
                       true = link(Port),
                       true = unregister(tracer_port),
                       true = register(tracer_port, Port),
                       true = port_close(Port),
                       Port
               end),
    Port = maps:get(answer, Result),
    Self = word(self()),
    Events = of_process(Port, Result),
    [#{owner := Self, driver := cat}] = [E || #{kind := port_open} = E <- Events],
    [#{atom1 := normal}] = [E || #{kind := port_closed} = E <- Events],
    Kinds = tracer_test:kinds(Events),
    [] = [K || K <- [port_in, port_out, 'receive', send, register, unregister, getting_linked,
                     getting_unlinked], not lists:member(K, Kinds)],
    [#{to := Self}] = [E || #{kind := send, type := 2, arity := 2, to := To} = E <- Events, To =:= Self],
    true = lists:member(command, [Name || #{kind := port_in, name := Name} <- Events])
        orelse lists:member(port_in, Kinds),
    ok.

%% Inet ports stand in the dictionary with their addresses, also one that comes later.
-spec port_lists() -> ok.
port_lists() ->
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, Number} = inet:port(Listen),
    Result = tracer_test:record(
               #{names => true, ports => true},
               fun() ->
                       {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Number, []),
                       {ok, Server} = gen_tcp:accept(Listen),
                       {ok, ClientNumber} = inet:port(Client),
                       receive after 1500 -> ok end,
                       {Client, Server, ClientNumber}
               end),
    {Client, Server, ClientNumber} = maps:get(answer, Result),
    _ = [gen_tcp:close(Socket) || Socket <- [Client, Server, Listen]],
    Ports = [{Key, Payload} || {5, Key, Payload} <- maps:get(dict, Result)],
    Address = fun(Port) ->
                      Word = word(Port),
                      {_, <<_:64, Owner:64/little, Family:16/little, Local:16/little,
                            Remote:16/little, _:16, IP:4/binary, _:96, _:128, Name/binary>>} =
                          lists:keyfind(Word, 1, lists:reverse(Ports)),
                      {Owner, Family, Local, Remote, IP, Name}
              end,
    Self = word(self()),
    {Self, 2, Number, 0, <<127, 0, 0, 1>>, <<"tcp_inet">>} = Address(Listen),
    {Self, 2, ClientNumber, Number, <<127, 0, 0, 1>>, <<"tcp_inet">>} = Address(Client),
    {Self, 2, Number, ClientNumber, <<127, 0, 0, 1>>, <<"tcp_inet">>} = Address(Server),
    ok.

%% Registered names, initial calls and parents; one that does not answer holds up nobody.
-spec names() -> ok.
names() ->
    {ok, Server} = gen_server:start({local, tracer_named}, ?MODULE, [], []),
    Plain = spawn(lists, foreach, [fun(_) -> receive stop -> ok end end, [1]]),
    Frozen = spawn(fun() -> receive stop -> ok end end),
    true = erlang:suspend_process(Frozen),
    Result = tracer_test:record(#{names => true}, fun() -> receive after 500 -> ok end end),
    true = erlang:resume_process(Frozen),
    Dict = maps:get(dict, Result),
    Text = fun(Type, Pid) ->
                   Word = word(Pid),
                   [T || {Y, W, <<_:64, T/binary>>} <- Dict, Y =:= Type, W =:= Word]
           end,
    [<<"tracer_named">>] = Text(3, Server),
    [<<"tracer_events:init/1">>] = Text(4, Server),
    [] = Text(3, Plain),
    [<<"lists:foreach/2">>] = Text(4, Plain),
    Parent = word(self()),
    WordOf = word(Plain),
    [<<Parent:64/little>>] = [P || {9, W, P} <- Dict, W =:= WordOf],
    _ = [Pid ! stop || Pid <- [Plain, Frozen]],
    ok = gen_server:stop(Server),
    {Done, Total} = maps:get(names, Result),
    true = Done =< Total andalso Done > 10,
    ok.

%% 20,000 processes are all named within the recording.
-spec many_names() -> ok.
many_names() ->
    Pids = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 20000)],
    Session = tracer_test:on(#{names => true}),
    receive after 4000 -> ok end,
    Result = tracer_test:off(Session),
    Named = maps:from_list([{Key, []} || {4, Key, _} <- maps:get(dict, Result)]),
    [] = [Pid || Pid <- Pids, not is_map_key(word(Pid), Named)],
    _ = [Pid ! stop || Pid <- Pids],
    ok.

%% A tag that this version does not know is recorded with its name.
-spec unknown() -> ok.
unknown() ->
    Result = tracer_test:record(
               #{events => [gc], pids => [text(self())], names => false},
               fun() ->
                       {tracer, {beamweave_tracer, Number}} = erlang:trace_info(self(), tracer),
                       ok = beamweave_tracer:trace(tracer_new_tag, Number, self(), anything, #{}),
                       %% Nothing comes of arguments that make no sense.
                       ok = beamweave_tracer:trace(call, Number, self(), nonsense, #{}),
                       ok = beamweave_tracer:trace(call, not_a_number, self(), nonsense, #{}),
                       ok = beamweave_tracer:trace(call, -1, self(), nonsense, []),
                       ok = beamweave_tracer:trace(in, Number, self(), {a, b}, nonsense),
                       ok = beamweave_tracer:trace(gc_minor_start, Number, self(), [a | b], #{}),
                       discard = beamweave_tracer:enabled(call, Number + 4, self()),
                       remove = beamweave_tracer:enabled(trace_status, Number + 4, self())
               end),
    Events = of_process(self(), Result),
    [#{tag := tracer_new_tag}] = [E || #{kind := unknown} = E <- Events],
    [#{mfa := ?NO_INDEX}] = [E || #{kind := in} = E <- Events],
    [] = [E || #{kind := call} = E <- Events],
    ok.

%% Only those that were asked for, and their children.
-spec pids() -> ok.
pids() ->
    One = spawn(fun() -> receive go -> child(fun() -> ok end) end, receive stop -> ok end end),
    true = register(tracer_one, One),
    Other = spawn(fun() -> receive go -> child(fun() -> ok end) end, receive stop -> ok end end),
    Result = tracer_test:record(#{events => [procs, messages], pids => [<<"tracer_one">>],
                                  names => false},
                                fun() -> One ! go, Other ! go, receive after 100 -> ok end end),
    _ = [Pid ! stop || Pid <- [One, Other]],
    [] = of_process(Other, Result),
    [] = of_process(self(), Result),
    [#{other := Child}] = [E || #{kind := spawn} = E <- of_process(One, Result)],
    [Child] = lists:usort([P || #{process := P} <- maps:get(events, Result)]) -- [word(One)],
    ok.

%% ---- a server ---------------------------------------------------------------------------------

-spec start_link() -> {ok, pid()}.
start_link() ->
    {ok, Pid} = gen_server:start_link(?MODULE, [], []),
    {ok, Pid}.

init([]) -> {ok, []}.
handle_call(_, _, State) -> {reply, ok, State}.
handle_cast(_, State) -> {noreply, State}.
