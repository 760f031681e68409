%% SPDX-License-Identifier: Apache-2.0
%% @doc Trace flags and patterns: putting ours on and taking exactly those off again.
%%
%% OTP 25 crashes when flags of all processes are set in one call under dirty load: they are set
%% one by one, and by the default for new ones. A tracer of somebody else's is left as it is. With
%% our tracer named, taking flags off touches only processes that are ours.
-module(beamweave_trace).

-export([process_flags/1, port_flags/1, on/3, off/2, default_on/3, default_off/2, holder/1,
         tracer_text/1]).
-export([patterns/2, patterns_on/2, patterns_off/1, patterns_lost/1, patterns_merge/2]).
-export([exempt/1, exempt/2, session/1, slice/2]).
-export_type([patterns/0, tracer/0]).

%% The type that OTP gives trace_info/2 knows of no tracer modules.
-dialyzer({no_match, [on/3, off/2, default_off/2, ours/2, tracer_text/1]}).

-define(DICT_OWN, 6).

-type session() :: beamweave_session:session().
-type tracer() :: session() | {session(), port()}.
%% What ours is: the NIF with its session; or a trace port, whose place the NIF takes at times, when the
%% session is a ring.
-opaque patterns() :: {MatchSpec :: term(), [beamweave_spec:group()]}.
%% What was set, with the match spec that it was set with.

%% @doc The flags of processes for a recording.
-spec process_flags(map()) -> [atom()].
process_flags(Options) ->
    Events = maps:get(events, Options, []),
    Calls = maps:get(calls, Options, []) =/= [],
    Capture = maps:get(capture, Options, none),
    lists:usort(lists:append([
        [call || Calls],
        [return_to || Calls, Capture =:= none orelse Capture =:= args],
        [arity || Calls, Capture =:= none orelse Capture =:= return],
        [procs || Calls orelse lists:member(procs, Events)],
        event_flags(messages, Events, [send, 'receive']),
        event_flags(running, Events, [running, exiting]),
        event_flags(gc, Events, [garbage_collection])])).

%% @doc The flags of ports; none unless port events are asked for.
-spec port_flags(map()) -> [atom()].
port_flags(Options) ->
    Events = maps:get(events, Options, []),
    case lists:member(ports, Events) of
        false -> [];
        true -> [ports | event_flags(messages, Events, [send, 'receive'])
                 ++ event_flags(running, Events, [running_ports])]
    end.

event_flags(Event, Events, Flags) ->
    case lists:member(Event, Events) of
        true -> Flags;
        false -> []
    end.

%% Whoever traces through a port is late, and must say when it was.
tracer_flags({_, Port}) ->
    [{tracer, Port}, monotonic_timestamp];
tracer_flags(Session) ->
    [{tracer, beamweave_tracer, Session}].

%% The holder's tracer, when that is ours.
ours({beamweave_tracer, Session}, Session) -> {tracer, beamweave_tracer, Session};
ours({beamweave_tracer, Session}, {Session, _}) -> {tracer, beamweave_tracer, Session};
ours(Port, {_, Port}) -> {tracer, Port};
ours(_, _) -> none.

%% @doc Trace a process or port, unless somebody else does. The VM is not asked to try: it would
%% write an error to the node's log.
-spec on(pid() | port(), [atom()], tracer()) -> traced | {other, term()} | gone.
on(Tracee, Flags, Tracer) ->
    case holder(Tracee) of
        none ->
            try erlang:trace(Tracee, true, tracer_flags(Tracer) ++ Flags) of
                _ -> traced
            catch
                error:badarg -> gone
            end;
        Holder ->
            case {ours(Holder, Tracer), Holder} of
                {none, {beamweave_tracer, Before}} ->
                    %% What a recording left whose controller and guard were killed.
                    ok = off(Tracee, Before),
                    on(Tracee, Flags, Tracer);
                {none, Other} ->
                    {other, Other};
                _ ->
                    traced
            end
    end.

%% @doc Take our flags off. Nothing happens to a tracee of another tracer.
-spec off(pid() | port(), tracer()) -> ok.
off(Tracee, Tracer) ->
    case ours(holder(Tracee), Tracer) of
        none ->
            ok;
        Ours ->
            try
                _ = erlang:trace(Tracee, false, [Ours, all]),
                ok
            catch
                error:badarg -> ok
            end
    end.

%% @doc Have new processes or ports traced, unless somebody else has them.
-spec default_on(new_processes | new_ports, [atom()], tracer()) -> traced | {other, term()}.
default_on(Kind, Flags, Tracer) ->
    case holder(Kind) of
        none ->
            _ = erlang:trace(Kind, true, tracer_flags(Tracer) ++ Flags),
            traced;
        Other ->
            {other, Other}
    end.

-spec default_off(new_processes | new_ports, tracer()) -> ok.
default_off(Kind, Tracer) ->
    case ours(holder(Kind), Tracer) of
        none ->
            ok;
        Ours ->
            _ = erlang:trace(Kind, false, [Ours, all]),
            ok
    end.

%% @doc Whose tracer it is.
-spec holder(pid() | port() | new_processes | new_ports) -> none | term().
holder(Tracee) ->
    try erlang:trace_info(Tracee, tracer) of
        {tracer, []} -> none;
        {tracer, Tracer} -> Tracer;
        undefined -> none
    catch
        error:badarg -> none
    end.

%% @doc A tracer in words.
-spec tracer_text(term()) -> binary().
tracer_text(Pid) when is_pid(Pid) ->
    Name = case node(Pid) =:= node() andalso process_info(Pid, registered_name) of
               {registered_name, Registered} -> [" (", atom_to_binary(Registered), ")"];
               _ -> []
           end,
    iolist_to_binary(["the process ", pid_to_list(Pid), Name]);
tracer_text(Port) when is_port(Port) ->
    iolist_to_binary(["the port ", erlang:port_to_list(Port)]);
tracer_text({Module, _State}) when is_atom(Module) ->
    iolist_to_binary(["the tracer module ", atom_to_binary(Module)]);
tracer_text(_) ->
    <<"another tracer">>.

%% @doc What patterns_on/2 is about to set: enough to take it off again.
-spec patterns([beamweave_spec:group()], boolean()) -> patterns().
patterns(Groups, Exceptions) ->
    Free = [{Module, part, [FA || {F, A} = FA <- Functions, is_free({Module, F, A})]}
            || {Module, _, Functions} <- Groups],
    {match_spec(Exceptions), Free}.

match_spec(true) -> [{'_', [], [{exception_trace}]}];
match_spec(false) -> true.

%% @doc One account of two.
-spec patterns_merge(patterns(), patterns()) -> patterns().
patterns_merge({MatchSpec, Set}, {MatchSpec, Before}) ->
    Functions = fun(Groups) -> [{Module, FA} || {Module, _, FAs} <- Groups, FA <- FAs] end,
    Sum = lists:foldl(fun({Module, FA}, Sum) -> Sum#{Module => [FA | maps:get(Module, Sum, [])]} end,
                      #{}, lists:usort(Functions(Set) ++ Functions(Before))),
    {MatchSpec, [{Module, part, FAs} || {Module, FAs} <- maps:to_list(Sum)]}.

%% @doc Set breakpoints on functions that have none. Those of others stay, with their match specs.
%% Returns what was set, how many functions that is, and those that were left.
-spec patterns_on([beamweave_spec:group()], boolean()) ->
          {patterns(), non_neg_integer(), [mfa()]}.
patterns_on(Groups, Exceptions) ->
    MatchSpec = match_spec(Exceptions),
    {Set, Left} = lists:foldl(fun(Group, Sum) -> group_on(Group, MatchSpec, Sum) end, {[], []},
                              Groups),
    {{MatchSpec, Set}, lists:sum([length(Functions) || {_, _, Functions} <- Set]),
     lists:append(Left)}.

group_on({Module, Extent, Functions}, MatchSpec, {Set, Left}) ->
    {Free, Taken} = lists:partition(fun({F, A}) -> is_free({Module, F, A}) end, Functions),
    Now = case Taken of
              [] -> Extent;
              _ -> part
          end,
    ok = group_set(Module, Now, Free, MatchSpec),
    {[{Module, Now, Free} || Free =/= []] ++ Set, [[{Module, F, A} || {F, A} <- Taken] | Left]}.

group_set(Module, whole, _, MatchSpec) ->
    _ = erlang:trace_pattern({Module, '_', '_'}, MatchSpec, [local]),
    ok;
group_set(Module, part, Functions, MatchSpec) ->
    _ = [erlang:trace_pattern({Module, F, A}, MatchSpec, [local]) || {F, A} <- Functions],
    ok.

is_free(MFA) ->
    erlang:trace_info(MFA, traced) =:= {traced, false}.

%% @doc Take off what patterns_on/2 set and nobody has changed since.
-spec patterns_off(patterns()) -> ok.
patterns_off({MatchSpec, Set}) ->
    lists:foreach(fun(Group) -> group_off(Group, MatchSpec) end, Set).

group_off({Module, Extent, Functions}, MatchSpec) ->
    case [FA || {F, A} = FA <- Functions, is_ours({Module, F, A}, MatchSpec)] of
        Functions -> group_set(Module, Extent, Functions, false);
        Some -> group_set(Module, part, Some, false)
    end.

is_ours(MFA, MatchSpec) ->
    Expected = case MatchSpec of
                   true -> [];
                   _ -> MatchSpec
               end,
    erlang:trace_info(MFA, match_spec) =:= {match_spec, Expected}.

%% @doc The groups whose code was loaded anew, which drops breakpoints.
-spec patterns_lost(patterns()) -> [beamweave_spec:group()].
patterns_lost({_, Set}) ->
    [Group || {Module, _, [{F, A} | _]} = Group <- Set, is_free({Module, F, A})].

%% @doc For processes of our own: not traced, and known to the reader. No tracer is named: ours may be
%% changed for its counter at any moment.
-spec exempt(tracer()) -> ok.
exempt(Tracer) ->
    _ = beamweave_session:put(session(Tracer), ?DICT_OWN, self(), <<>>),
    _ = ours(holder(self()), Tracer) =/= none
        andalso erlang:trace(self(), false, [all]),
    ok.

%% @doc The same for another one.
-spec exempt(tracer(), pid()) -> ok.
exempt(Tracer, Pid) ->
    _ = beamweave_session:put(session(Tracer), ?DICT_OWN, Pid, <<>>),
    off(Pid, Tracer).

-spec session(tracer()) -> session().
session({Session, _}) -> Session;
session(Session) -> Session.

%% @doc At most so many from the head of a list, and what is left.
-spec slice(non_neg_integer(), [Term]) -> {[Term], [Term]}.
slice(Count, List) ->
    slice(Count, List, []).

slice(Count, [Term | Rest], Slice) when Count > 0 ->
    slice(Count - 1, Rest, [Term | Slice]);
slice(_, Rest, Slice) ->
    {lists:reverse(Slice), Rest}.
