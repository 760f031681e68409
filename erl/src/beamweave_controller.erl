%% SPDX-License-Identifier: Apache-2.0
%% @doc Owns a recording on the traced node: the session, the flags and patterns, and their end.
%%
%% It is started once, through whatever door is open. After that all control goes through the
%% session's control page, which it looks at every 100 ms.
-module(beamweave_controller).
-behaviour(gen_server).

-export([start/1, stop/0, port/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([options/0, info/0, reason/0]).

-type options() :: #{session := binary(),
                     calls => [beamweave_spec:spec()],
                     events => [messages | running | gc | procs | ports],
                     pids => all | existing | new | [binary()],
                     capture => none | args | return | 'args,return',
                     capture_bytes => non_neg_integer(),
                     capture_depth => non_neg_integer(),
                     redact => boolean(),
                     ports => boolean(),
                     names => boolean(),
                     tracer => nif | port | client | ip,
                     shell => boolean()}.
%% tracer: client opens a trace port for others, who set their flags themselves; ip goes with the
%% session that beamweave_ip:open/1 has opened, whatever `session' says. shell: the caller
%% of start/1 is a process of the user's and not one of ours, as of a door.
-type info() :: #{functions := non_neg_integer(),
                  otp_release := pos_integer(),
                  depth := boolean()}.
-type reason() :: beamweave_spec:error()
                | {tracer_present, Who :: binary(), What :: binary()}
                | {busy, Path :: binary()}
                | {session, atom() | integer()}
                | {port, term()}
                | {no_process, binary()}.

%% enum ring_dict_type, ring_tracer_state and ring_end_reason of ring_layout.h.
-define(DICT_NOTE, 7).
-define(DICT_FLAGS, 8).
-define(TRACER_ATTACHING, 1).
-define(TRACER_ON, 2).
-define(END_EVENTS, 4).
-define(END_FAILED, 5).
-define(END_SHELL, 6).

-define(POLL_MS, 100).
-define(RELOAD_POLLS, 10).
-define(SLICE, 100).
-define(NAMES_MS, 1000).
%% Threads may still hold credits that they have drawn.
-define(SPENT_POLLS, 2).
-define(BUSY_TRIES, 20).
-define(BUSY_PAUSE_MS, 50).
-define(CAPTURE_BYTES, 512).
-define(CAPTURE_DEPTH, 8).

-record(state, {session :: beamweave_session:session(),
                tracer :: beamweave_trace:tracer(),
                port = none :: pid() | none,
                port_monitor = none :: reference() | none,
                path :: binary(),
                options :: options(),
                flags :: [atom()],
                port_flags = [] :: [atom()],
                info = #{} :: info() | #{},
                pending = [] :: [pid() | port()],
                held :: beamweave_guard:held(),
                guard :: pid(),
                relief :: pid(),
                guard_monitor :: reference(),
                names = none :: pid() | none,
                others = #{} :: #{term() => pos_integer()},
                polls = 0 :: non_neg_integer(),
                reloads = 0 :: non_neg_integer(),
                spent = 0 :: non_neg_integer()}).

%% @doc Start a recording into a session file that exists.
-spec start(options()) -> {ok, pid(), info()} | {error, reason()}.
start(Options) ->
    start(Options#{caller => self()}, ?BUSY_TRIES).

%% One that is ending makes room within moments.
start(Options, Tries) ->
    case gen_server:start({local, ?MODULE}, ?MODULE, Options, []) of
        {ok, Pid} ->
            {ok, Info} = gen_server:call(Pid, info, infinity),
            {ok, Pid, Info};
        {error, {already_started, Pid}} ->
            case path(Pid) of
                {ok, Path} ->
                    {error, {busy, Path}};
                ending when Tries > 0 ->
                    receive after ?BUSY_PAUSE_MS -> ok end,
                    start(Options, Tries - 1);
                ending ->
                    {error, {busy, <<>>}}
            end;
        {error, {shutdown, Reason}} ->
            {error, Reason}
    end.

path(Pid) ->
    try gen_server:call(Pid, path, ?BUSY_PAUSE_MS)
    catch
        exit:_ -> ending
    end.

%% @doc Make the caller the owner of the recording's trace port.
-spec port() -> {ok, port()} | {error, term()}.
port() ->
    case gen_server:call(?MODULE, port) of
        none -> {error, no_port};
        Pid -> beamweave_port:lend(Pid)
    end.

%% @doc End the recording of this node, if there is one.
-spec stop() -> ok.
stop() ->
    case whereis(?MODULE) of
        undefined ->
            ok;
        Pid ->
            Monitor = erlang:monitor(process, Pid),
            gen_server:cast(Pid, stop),
            receive {'DOWN', Monitor, process, Pid, _} -> ok end
    end.

%% @private
-spec init(options()) -> {ok, #state{}} | {stop, {shutdown, reason()}}.
init(#{session := Path} = Options) ->
    try prepare(Options) of
        {Groups, Pids} ->
            case open(Path, Options) of
                {ok, Session} -> attach(Session, Groups, Pids, Options);
                {error, Reason} -> {stop, {shutdown, {session, Reason}}}
            end
    catch
        throw:Reason -> {stop, {shutdown, Reason}}
    end.

%% All that can be refused is looked at before anything is touched.
prepare(Options) ->
    Groups = case beamweave_spec:resolve(maps:get(calls, Options, [])) of
                 {ok, Found} -> Found;
                 {error, Error} -> throw(Error)
             end,
    Pids = case maps:get(pids, Options, all) of
               Names when is_list(Names) -> [named(Name) || Name <- Names];
               Which -> Which
           end,
    ok = holders(Pids, beamweave_trace:process_flags(Options)),
    {Groups, Pids}.

named(Name) ->
    case beamweave_spec:pid_of(Name) of
        {ok, Pid} -> Pid;
        error -> throw({no_process, Name})
    end.

%% Is there anything left to trace, or has another tracer all of it?
holders(_, []) ->
    ok;
holders(Pids, _) when is_list(Pids) ->
    all_held(Pids, <<"the processes asked for">>);
holders(new, _) ->
    all_held([new_processes], <<"new processes">>);
holders(existing, _) ->
    all_held(processes() -- [self()], <<"all processes">>);
holders(all, _) ->
    all_held([new_processes | processes() -- [self()]], <<"all processes">>).

all_held([], _) ->
    ok;
all_held(Tracees, What) ->
    case lists:search(fun(Tracee) -> beamweave_trace:holder(Tracee) =:= none end, Tracees) of
        {value, _} ->
            ok;
        false ->
            Who = beamweave_trace:tracer_text(beamweave_trace:holder(hd(Tracees))),
            throw({tracer_present, Who, What})
    end.

open(_, #{tracer := ip}) ->
    beamweave_ip:session();
open(Path, Options) ->
    Capture = case maps:get(capture, Options, none) of
                  none -> 0;
                  args -> 1;
                  return -> 2;
                  'args,return' -> 3
              end,
    Redact = case maps:get(redact, Options, false) of
                 true -> 1;
                 false -> 0
             end,
    beamweave_tracer:open_session(Path, Capture,
                                  maps:get(capture_bytes, Options, ?CAPTURE_BYTES),
                                  maps:get(capture_depth, Options, ?CAPTURE_DEPTH), Redact).

attach(Session, Groups, Pids, #{session := Path} = Options) ->
    ok = beamweave_trace:exempt(Session),
    lists:foreach(fun(Pid) -> beamweave_trace:exempt(Session, Pid) end, door(Options)),
    Flags = beamweave_trace:process_flags(Options),
    Held = #{session => Session},
    {Guard, Relief, Monitor} = guard(Held),
    Started = #state{session = Session, tracer = Session, path = Path, options = Options,
                     flags = Flags, held = Held, guard = Guard, relief = Relief,
                     guard_monitor = Monitor},
    _ = beamweave_session:set_tracer(Session, ?TRACER_ATTACHING, 0),
    case port_open(maps:get(tracer, Options, nif), Started) of
        {ok, State0} ->
            attach(Groups, Pids, State0);
        {error, Reason} ->
            Guard ! done,
            _ = beamweave_session:close(Session),
            {stop, {shutdown, {port, Reason}}}
    end.

%% Before anything is traced: how late events are is to be known from the first.
port_open(nif, State) ->
    {ok, State};
port_open(ip, #state{session = Session} = State) ->
    case beamweave_ip:port(Session) of
        {ok, Port} -> {ok, port_hold(Session, Port, State)};
        Error -> Error
    end;
port_open(_, #state{session = Session} = State) ->
    case beamweave_port:start(Session) of
        {ok, Pid, Port} ->
            {ok, port_hold(Pid, Port, State)};
        Error ->
            Error
    end.

port_hold(Pid, Port, #state{session = Session} = State) ->
    Tracer = {Session, Port},
    hold(#{tracer => Tracer, port => Pid, flags => true, ports => true},
         State#state{tracer = Tracer, port = Pid, port_monitor = erlang:monitor(process, Pid)}).

attach(Groups, Pids, #state{session = Session, flags = Flags} = State0) ->
    Depth = learn(State0),
    ok = publish(Session),
    note(?DICT_FLAGS, lists:join(",", [atom_to_binary(Flag) || Flag <- Flags]), State0),
    {Functions, State1} = arm(Groups, State0),
    State2 = processes_on(Pids, ports_on(Pids, State1)),
    State3 = names(State2),
    self() ! tracees,
    _ = erlang:send_after(?POLL_MS, self(), poll),
    Info = #{functions => Functions, otp_release => beamweave_vm:release(), depth => Depth},
    {ok, State3#state{info = Info}}.

%% The process that a door started us by, which ends as soon as we have begun, and those that hold
%% a connection to it. Our C node's name begins so (door.c).
door(#{shell := true}) -> [];
door(#{caller := Pid}) ->
    [Pid | lists:append([connection(Controller)
                         || {Node, Controller} <- erlang:system_info(dist_ctrl),
                            string:prefix(atom_to_list(Node), "beamweave_") =/= nomatch])].

connection(Pid) when is_pid(Pid) ->
    [Pid];
connection(Port) ->
    case erlang:port_info(Port, connected) of
        {connected, Pid} -> [Pid || Pid =/= whereis(net_kernel)];
        undefined -> []
    end.

guard(Held) ->
    {Guard, Relief} = beamweave_guard:start(Held),
    {Guard, Relief, erlang:monitor(process, Guard)}.

%% What is held must be known to the guard before it is set, in case that we end in between.
hold(More, #state{held = Held, guard = Guard} = State) ->
    Next = maps:merge(Held, More),
    ok = beamweave_guard:hold(Guard, Next),
    State#state{held = Next}.

publish(Session) when is_pid(Session) -> ok;
publish(Session) -> beamweave_vm:publish_schedulers(Session).

learn(#state{session = Session}) when is_pid(Session) ->
    false;
learn(#state{session = Session} = State) ->
    Depth = case beamweave_vm:learn() of
                ok ->
                    true;
                {error, Failed} ->
                    note(?DICT_NOTE, io_lib:format("the VM's memory is not what was expected, "
                                                   "call durations may be missing: ~0p", [Failed]),
                         State),
                    false
            end,
    _ = beamweave_tracer:vm_publish(Session, beamweave_vm:release(), beamweave_vm:pid_bits()),
    Depth.

note(Type, Text, #state{session = Session}) ->
    Time = beamweave_session:clock(Session),
    Line = unicode:characters_to_binary(Text),
    _ = beamweave_session:put(Session, Type, 0, <<Time:64/little, Line/binary>>),
    ok.

exceptions(#state{options = Options}) ->
    Capture = maps:get(capture, Options, none),
    Capture =:= return orelse Capture =:= 'args,return'.

arm([], State) ->
    {0, State};
arm(Groups, State0) ->
    State1 = hold(#{patterns => beamweave_trace:patterns(Groups, exceptions(State0))}, State0),
    {Patterns, Count, Left} = beamweave_trace:patterns_on(Groups, exceptions(State1)),
    left(Left, State1),
    {Count + length(Left), hold(#{patterns => Patterns}, State1)}.

left([], _) ->
    ok;
left([First | Rest] = Left, State) ->
    Others = case Rest of
                 [] -> "";
                 _ -> " and others"
             end,
    note(?DICT_NOTE, [functions(length(Left), " has", " have"), " trace patterns of somebody "
                      "else's, which are left as they are: ", beamweave_spec:mfa_text(First),
                      Others], State).

ports_on(Pids, #state{options = Options} = State0) when is_atom(Pids) ->
    case beamweave_trace:port_flags(Options) of
        [] ->
            State0;
        Flags ->
            State1 = hold(#{flags => true, ports => true}, State0),
            State2 = State1#state{port_flags = Flags},
            _ = Pids =/= existing
                andalso default(new_ports, Flags, State2),
            case Pids of
                new -> State2;
                _ -> State2#state{pending = erlang:ports() -- [own_port(State2)]}
            end
    end;
ports_on(_, State) ->
    State.

own_port(#state{tracer = {_, Port}}) -> Port;
own_port(_) -> none.

processes_on(_, #state{flags = []} = State) ->
    State;
processes_on(Pids, State0) when is_list(Pids) ->
    State = hold(#{flags => true}, State0),
    State#state{flags = [set_on_spawn | State#state.flags],
                pending = Pids ++ State#state.pending};
processes_on(Which, State0) ->
    State = hold(#{flags => true}, State0),
    _ = Which =/= existing
        andalso default(new_processes, State#state.flags, State),
    case Which of
        new ->
            State;
        _ ->
            Own = [self(), State#state.guard, State#state.relief, State#state.port
                   | door(State#state.options)],
            State#state{pending = (processes() -- Own) ++ State#state.pending}
    end.

default(Kind, Flags, #state{tracer = Tracer} = State) ->
    case beamweave_trace:default_on(Kind, Flags, Tracer) of
        traced ->
            ok;
        {other, Other} ->
            note(?DICT_NOTE, io_lib:format("~ts are traced by ~ts already and are not recorded",
                                           [string:replace(atom_to_list(Kind), "_", " "),
                                            beamweave_trace:tracer_text(Other)]), State)
    end.

names(#state{options = Options, tracer = Tracer} = State) ->
    case maps:get(names, Options, true) orelse maps:get(ports, Options, false) of
        true ->
            Names = beamweave_names:start(Tracer, Options),
            hold(#{names => Names}, State#state{names = Names});
        false ->
            State
    end.

%% @private
-spec handle_call(info | path | port, gen_server:from(), #state{}) ->
          {reply, {ok, info() | #{} | binary()} | pid() | none, #state{}}.
handle_call(info, _, #state{info = Info} = State) ->
    {reply, {ok, Info}, State};
handle_call(path, _, #state{path = Path} = State) ->
    {reply, {ok, Path}, State};
handle_call(port, _, #state{port = Port} = State) ->
    {reply, Port, State}.

%% @private
-spec handle_cast(stop, #state{}) -> {stop, normal, #state{}}.
handle_cast(stop, State) ->
    finish(?END_SHELL, State).

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info(poll, State) ->
    poll(State);
handle_info(tracees, State) ->
    {noreply, tracees(State)};
handle_info({'DOWN', Monitor, process, _, _}, #state{guard_monitor = Monitor} = State) ->
    {Guard, Relief, Next} = guard(State#state.held),
    {noreply, State#state{guard = Guard, relief = Relief, guard_monitor = Next}};
handle_info({'DOWN', Monitor, process, _, shutdown}, #state{port_monitor = Monitor} = State) ->
    %% Whoever it was lent to has closed it.
    finish(?END_SHELL, State);
handle_info({'DOWN', Monitor, process, _, _}, #state{port_monitor = Monitor} = State) ->
    finish(?END_FAILED, State);
handle_info(_, State) ->
    {noreply, State}.

%% The flags of one slice of processes and ports.
tracees(#state{pending = [], session = Session} = State) ->
    _ = [note(?DICT_NOTE, io_lib:format("~b processes or ports are traced by ~ts already and are "
                                        "not recorded",
                                        [Count, beamweave_trace:tracer_text(Tracer)]), State)
         || {Tracer, Count} <- maps:to_list(State#state.others)],
    _ = beamweave_session:set_tracer(Session, ?TRACER_ON, 0),
    State#state{others = #{}};
tracees(#state{pending = Pending} = State) ->
    {Slice, Rest} = beamweave_trace:slice(?SLICE, Pending),
    Others = lists:foldl(fun(Tracee, Sum) -> tracee(Tracee, State, Sum) end, State#state.others,
                         Slice),
    Next = State#state{pending = Rest, others = Others},
    case Rest of
        [] ->
            tracees(Next);
        _ ->
            _ = erlang:send_after(1, self(), tracees),
            Next
    end.

tracee(Tracee, #state{tracer = Ours} = State, Others) ->
    Flags = case is_port(Tracee) of
                true -> State#state.port_flags;
                false -> State#state.flags
            end,
    case beamweave_trace:on(Tracee, Flags, Ours) of
        {other, Tracer} -> maps:update_with(Tracer, fun(Count) -> Count + 1 end, 1, Others);
        _ -> Others
    end.

poll(#state{session = Session, polls = Polls, spent = Spent} = State0) ->
    _ = erlang:send_after(?POLL_MS, self(), poll),
    case beamweave_session:poll(Session) of
        {over, Reason} ->
            finish(Reason, State0);
        {error, _} ->
            finish(?END_FAILED, State0);
        {_, Credits} when Credits =< 0, Spent >= ?SPENT_POLLS ->
            finish(?END_EVENTS, State0);
        {_, Credits} when Credits =< 0 ->
            {noreply, State0#state{spent = Spent + 1}};
        _ when Polls rem ?RELOAD_POLLS =:= 0 ->
            {noreply, rearm(State0#state{polls = Polls + 1})};
        _ ->
            {noreply, State0#state{polls = Polls + 1}}
    end.

%% Code that was loaded anew has lost its breakpoints.
rearm(#state{held = #{patterns := Patterns}, options = Options} = State) ->
    case beamweave_trace:patterns_lost(Patterns) of
        [] ->
            State;
        Lost ->
            Modules = [Module || {Module, _, _} <- Lost],
            Specs = [Spec || {Module, _, _} = Spec <- maps:get(calls, Options),
                             lists:member(Module, Modules)],
            rearm(Specs, Patterns, State)
    end;
rearm(State) ->
    State.

rearm(Specs, Patterns, State) ->
    case beamweave_spec:resolve(Specs) of
        {ok, Groups} ->
            {Again, Count, _} = beamweave_trace:patterns_on(Groups, exceptions(State)),
            hold(#{patterns => beamweave_trace:patterns_merge(Again, Patterns)},
                 reloaded(Count, State));
        {error, _} ->
            %% The functions are gone; the rest of the recording goes on.
            State
    end.

%% Said once: who loads code again and again would read nothing else.
reloaded(0, State) ->
    State;
reloaded(Count, #state{reloads = Reloads} = State) ->
    _ = Reloads =:= 0
        andalso note(?DICT_NOTE, ["code was loaded anew: ", functions(Count, " is", " are"),
                                  " traced again"], State),
    State#state{reloads = Reloads + 1}.

functions(1, One, _) -> ["1 function", One];
functions(Count, _, Many) -> [integer_to_list(Count), " functions", Many].

finish(Reason, #state{reloads = Reloads} = State) when Reloads > 1 ->
    note(?DICT_NOTE, io_lib:format("traced code was loaded anew in ~b of the seconds recorded",
                                   [Reloads]), State),
    finish(Reason, State#state{reloads = 0});
finish(Reason, #state{held = Held, guard = Guard, guard_monitor = Monitor} = State) ->
    _ = case State#state.names of
            none -> ok;
            Names -> beamweave_names:finish(Names, ?NAMES_MS)
        end,
    ok = beamweave_guard:clean(Held, Reason),
    true = erlang:demonitor(Monitor, [flush]),
    %% Modules that came over a door are gone by now: no call of theirs.
    Guard ! done,
    {stop, normal, State}.
