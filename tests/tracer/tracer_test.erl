%% SPDX-License-Identifier: Apache-2.0
%% @doc Recording in this VM and reading back what came out, for tests/tracer*.bats. The reader is
%% tests/tracer/ring_dump.c; what is expected is worked out here and in tests/workloads, never
%% taken from a recording.
-module(tracer_test).

-export([setup/0, session/0, session/1, dump/1, record/2, record/3, of_process/2, kinds/1, count/2,
         eventually/1, residue/0, decode/2, on/1, off/1, result/1, taken/1, gone/0]).

-define(NO_DEPTH, 16#ffffffff).

%% Where the program and its tests were built.
build() ->
    os:getenv("BUILD", filename:absname("build")).

-spec setup() -> ok.
setup() ->
    ok = application:set_env(beamweave, library, filename:join(build(), "beamweave_tracer.so")),
    lists:foreach(fun(Module) -> {module, Module} = code:ensure_loaded(Module) end,
                  [beamweave_tracer, beamweave_controller, beamweave_guard, beamweave_names,
                   beamweave_spec, beamweave_trace, beamweave_vm, beamweave_port, beamweave,
                   beamweave_memory]).

tool(Arguments) ->
    Command = [filename:join([build(), "tests", "ring_dump"]), " ", lists:join(" ", Arguments)],
    os:cmd(lists:flatten(Command)).

%% @doc A new session file.
-spec session() -> file:filename().
session() ->
    session([]).

-spec session([string()]) -> file:filename().
session(Arguments) ->
    Name = io_lib:format("/dev/shm/bwtest-~s-~b.session",
                         [os:getpid(), erlang:unique_integer([positive])]),
    Path = lists:flatten(Name),
    [] = tool(["create", Path | Arguments]),
    Path.

%% @doc Run ring_dump with these arguments.
-spec dump([string()]) -> string().
dump(Arguments) ->
    tool(Arguments).

%% @doc Start recording into a session, with a reader (reader: read, count or false).
-spec on(map()) -> map().
on(Options) ->
    Path = maps:get(path, Options, session()),
    Out = Path ++ ".out",
    case maps:get(reader, Options, read) of
        false -> ok;
        How -> os:cmd(lists:flatten([filename:join([build(), "tests", "ring_dump"]), " ",
                                      atom_to_list(How), " ", Path, " > ", Out, " 2> ", Out, ".err < /dev/null & echo $!"]))
    end,
    %% The tests of how recordings end are run with every tracer.
    Tracer = application:get_env(beamweave, test_tracer, nif),
    Given = maps:merge(#{tracer => Tracer}, maps:without([path, reader, keep], Options)),
    {ok, Pid, Info} = beamweave_controller:start(Given#{session => list_to_binary(Path), shell => true}),
    eventually(fun() -> tool(["state", Path]) >= "2" end),
    #{path => Path, out => Out, controller => Pid, info => Info}.

%% @doc End a recording and read it.
-spec off(map()) -> map().
off(Session) ->
    ok = beamweave:stop(),
    result(Session).

%% @doc What a recording that ends or has ended left.
-spec result(map()) -> map().
result(#{path := Path, out := Out, info := Info}) ->
    eventually(fun() ->
                       case file:read_file(Out) of
                           {ok, Text} -> binary:match(Text, <<"\n{ended,">>) =/= nomatch;
                           _ -> false
                       end
               end),
    {ok, Terms} = file:consult(Out),
    _ = [file:delete(File) || File <- [Path, Out, Out ++ ".err"]],
    (understand(Terms))#{info => Info}.

%% @doc The same of a recording without a reader.
-spec taken(map()) -> map().
taken(#{path := Path, out := Out} = Session) ->
    ok = file:write_file(Out, tool(["take", Path])),
    result(Session).

%% @doc Wait until nothing of ours is left.
-spec gone() -> ok.
gone() ->
    eventually(fun() -> residue() =:= [] end).

%% @doc Record while Fun runs.
-spec record(map(), fun(() -> term())) -> map().
record(Options, Fun) ->
    record(Options, Fun, fun() -> ok end).

%% @doc Prepare runs before the recording, in the same process.
-spec record(map(), fun(() -> term()), fun(() -> term())) -> map().
record(Options, Fun, Prepare) ->
    _ = Prepare(),
    Session = on(Options),
    Answer = Fun(),
    (off(Session))#{answer => Answer}.

understand(Terms) ->
    Atoms = maps:from_list([{Key, binary_to_atom(Text)} || {dict, 1, Key, Text} <- Terms]),
    Mfas = maps:from_list([{Index, {maps:get(M, Atoms), maps:get(F, Atoms), A}}
                           || {mfa, Index, M, F, A} <- Terms]),
    Fields = [{mfa, Mfas}, {initial, Mfas}, {name, Atoms}, {atom1, Atoms}, {atom2, Atoms},
              {driver, Atoms}, {tag, Atoms}],
    Events = [(maps:map(fun(Key, Value) -> name(Key, Value, Fields) end, Map))
              #{ts => Ts, thread => Thread, kind => Kind, flags => Flags, process => Process}
              || {event, Ts, Thread, Kind, Flags, Process, Map} <- Terms],
    [{vm, 1, Vm}] = [T || {vm, _, _} = T <- Terms],
    [{ended, Tracer, Reason, Done, Total}] = [T || {ended, _, _, _, _} = T <- Terms],
    [] = [T || {broken, _} = T <- Terms],
    #{events => lists:sort(fun(A, B) -> maps:get(ts, A) =< maps:get(ts, B) end, Events),
      dict => [{Type, Key, Payload} || {dict, Type, Key, Payload} <- Terms, Type =/= 1],
      atoms => Atoms,
      threads => maps:from_list([{Index, Map} || {thread, Index, Map} <- Terms]),
      counts => [{Thread, Kind, Recorded, Discarded}
                 || {count, Thread, Kind, Recorded, Discarded} <- Terms],
      vm => Vm, tracer => Tracer, reason => Reason, names => {Done, Total}}.

%% What stands for nothing stays a number.
name(Key, Value, Fields) ->
    case lists:keyfind(Key, 1, Fields) of
        {Key, Map} -> maps:get(Value, Map, Value);
        false -> Value
    end.

-spec of_process(pid() | port(), map()) -> [map()].
of_process(Pid, #{events := Events}) ->
    Word = beamweave_tracer:word(Pid),
    [Event || #{process := Process} = Event <- Events, Process =:= Word].

-spec kinds([map()]) -> [atom()].
kinds(Events) ->
    [Kind || #{kind := Kind} <- Events].

-spec count(map(), [map()]) -> non_neg_integer().
count(Wanted, Events) ->
    length([Event || Event <- Events, maps:with(maps:keys(Wanted), Event) =:= Wanted]).

-spec eventually(fun(() -> boolean())) -> ok.
eventually(Fun) ->
    eventually(Fun, 2000).

eventually(Fun, Tries) when Tries > 0 ->
    case Fun() of
        true -> ok;
        false ->
            receive after 10 -> eventually(Fun, Tries - 1) end
    end.

%% @doc What of ours is left in this VM: [] when nothing is.
-spec residue() -> [term()].
residue() ->
    Flags = [{Tracee, Is} || Tracee <- processes() ++ erlang:ports() ++ [new_processes, new_ports],
                             {tracer, Is} <- [info(Tracee)], is_port(Is) orelse is_tuple(Is)],
    Ports = [{Port, Name} || Port <- erlang:ports(), {name, Name} <- [erlang:port_info(Port, name)],
                             lists:prefix("beamweave", Name)],
    Mapped = [Line || Line <- string:lexemes(os:cmd("cat /proc/" ++ os:getpid() ++ "/maps"), "\n"),
                      string:find(Line, ".session") =/= nomatch],
    Processes = [Pid || Pid <- processes(), {current_stacktrace, Stack} <-
                            [process_info(Pid, current_stacktrace)],
                        lists:any(fun({M, _, _, _}) ->
                                          lists:prefix("beamweave", atom_to_list(M))
                                  end, Stack)],
    Patterns = [{M, F, A} || {M, _} <- code:all_loaded(), erlang:module_loaded(M),
                             {F, A} <- M:module_info(functions),
                             erlang:trace_info({M, F, A}, traced) =:= {traced, local}],
    Flags ++ Ports ++ Mapped ++ Processes ++ Patterns
        ++ [controller || whereis(beamweave_controller) =/= undefined].

info(Tracee) ->
    try erlang:trace_info(Tracee, tracer)
    catch error:badarg -> none
    end.

%% @doc The call tree of one process's events, by the chain rule and the scan, as facts about OTP
%% have it: [{Parent, MFA}] in the order of calls, whose ids are 1, 2, 3, ...
-spec decode([map()], map()) -> [{non_neg_integer(), mfa()}].
decode(Events, #{frame_words := Frame, slack := Slack}) ->
    {_, _, Calls} =
        lists:foldl(fun(Event, Sum) -> decode(Event, Frame, Slack, Sum) end, {[], 1, []}, Events),
    lists:reverse(Calls).

decode(#{kind := call, depth := Depth, frame := Nearest, tail := Tail, mfa := Mfa}, Frame, _,
       {Chains0, Id, Calls}) ->
    %% No frame found: not within the 64 words that were looked at.
    Bound = case Nearest of
                ?NO_DEPTH when Tail =:= 0 -> max(0, Depth - 63);
                ?NO_DEPTH -> Depth;
                _ -> min(Depth, Nearest)
            end,
    Chains1 = lists:dropwhile(fun({_, Top, _}) -> Top > Bound end, Chains0),
    Chains = case Chains1 of
                 [{First, Depth, _} | Rest] when Tail =:= 1 -> [{First, Depth, Id} | Rest];
                 _ -> [{Depth, Depth + Frame, Id} | Chains1]
             end,
    Parent = case Chains of
                 [_, {_, _, Outer} | _] -> Outer;
                 [_] -> 0
             end,
    {Chains, Id + 1, [{Parent, Mfa} | Calls]};
decode(#{kind := return_to, depth := Depth}, _, Slack, {Chains, Id, Calls}) ->
    {lists:dropwhile(fun({First, _, _}) -> First >= Depth - Slack end, Chains), Id, Calls};
decode(_, _, _, Sum) ->
    Sum.
