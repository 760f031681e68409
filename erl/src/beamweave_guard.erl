%% SPDX-License-Identifier: Apache-2.0
%% @doc What has to be taken off at the end, and the process that does it when the controller
%% cannot.
-module(beamweave_guard).

-export([start/1, hold/2, clean/2]).
-export_type([held/0]).

-type held() :: #{session := beamweave_session:session(),
                  patterns => beamweave_trace:patterns(),
                  tracer => beamweave_trace:tracer(),
                  port => pid(),
                  names => pid(),
                  flags => boolean(),
                  ports => boolean()}.
%% tracer, port: with a trace port, and the process that owns it. flags, ports: may processes or ports carry trace flags of ours?

-define(TRACER_ENDED, 3).
-define(END_FAILED, 5).

-define(SLICE, 100).
-define(DELIVERED_MS, 2000).
-define(DELETED_MS, 1000).
-define(CLOSE_TRIES, 5000).
%% Both may be killed at once, and yet not end in the same moment.
-define(RELIEF_MS, 500).

%% @doc Watch the calling process, which sends `done' when it has taken off all itself. The second
%% process is for the case that somebody kills the caller and the guard at once.
-spec start(held()) -> {Guard :: pid(), Relief :: pid()}.
start(#{session := Session} = Held) ->
    Owner = self(),
    Tracer = maps:get(tracer, Held, Session),
    Relief = spawn(fun() ->
                           ok = beamweave_trace:exempt(Tracer),
                           receive
                               {guard, Guard} -> relief(erlang:monitor(process, Owner),
                                                        erlang:monitor(process, Guard), Held)
                           after ?RELIEF_MS -> ok
                           end
                   end),
    Guard = spawn(fun() ->
                          ok = beamweave_trace:exempt(Tracer),
                          watch(erlang:monitor(process, Owner), Relief, Held)
                  end),
    Relief ! {guard, Guard},
    {Guard, Relief}.

%% @doc What is held has changed.
-spec hold(pid(), held()) -> ok.
hold(Guard, Held) ->
    Guard ! {hold, Held},
    ok.

watch(Monitor, Relief, Held) ->
    receive
        {hold, Next} ->
            Relief ! {hold, Next},
            watch(Monitor, Relief, Next);
        done ->
            ok;
        {'DOWN', Monitor, process, _, _} ->
            clean(Held, ?END_FAILED)
    end.

%% A guard that ends in order has left nothing. Has it been killed alone, then the owner lives and
%% starts another pair.
relief(Owner, Guard, Held) ->
    receive
        {hold, Next} ->
            relief(Owner, Guard, Next);
        {'DOWN', Guard, process, _, normal} ->
            ok;
        {'DOWN', Guard, process, _, _} ->
            receive
                {'DOWN', Owner, process, _, normal} -> ok;
                {'DOWN', Owner, process, _, _} -> clean(Held, ?END_FAILED)
            after ?RELIEF_MS ->
                ok
            end
    end.

%% @doc Take off all that is ours, tell the reader and unmap. May be done twice.
-spec clean(held(), Reason :: 0..6) -> ok.
clean(#{session := Session} = Held, Reason) ->
    ok = names_off(Held),
    Tracer = maps:get(tracer, Held, Session),
    ok = port_hold(Held),
    case maps:find(patterns, Held) of
        {ok, Patterns} -> beamweave_trace:patterns_off(Patterns);
        error -> ok
    end,
    case maps:get(flags, Held, false) of
        true ->
            ok = flags_off(Tracer, Session),
            ok = ports_off(maps:get(ports, Held, false), Tracer, Session),
            ok = delivered();
        false ->
            ok
    end,
    ok = port_off(Held),
    ok = modules_off(),
    ended(Session, Reason).

%% Of an IP port's session it is the last that it is told, by a message: its module may be gone.
ended(Session, Reason) when is_pid(Session) ->
    Session ! {tracer, ?TRACER_ENDED, Reason},
    ok;
ended(Session, Reason) ->
    _ = beamweave_tracer:set_tracer(Session, ?TRACER_ENDED, Reason),
    close(Session, ?CLOSE_TRIES).

%% Modules that came over a door, and not from a file of the node's, go again, but for the tracer's,
%% which must not. What still runs here is old code then, until it ends: no call that is qualified
%% by one of these modules may follow. The deleting is done by a process that runs none of them.
modules_off() ->
    Ours = [beamweave, beamweave_controller, beamweave_memory, beamweave_names, beamweave_spec,
            beamweave_trace, beamweave_vm, beamweave_port, beamweave_ip, beamweave_session,
            ?MODULE],
    Came = [Module || Module <- Ours, {file, File} <- [code:is_loaded(Module)], is_list(File),
                      filename:pathtype(File) =:= relative],
    {Pid, Monitor} = spawn_monitor(lists, foreach, [fun code:delete/1, Came]),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    after ?DELETED_MS ->
        erlang:demonitor(Monitor, [flush]),
        ok
    end.

names_off(#{names := Pid}) ->
    Monitor = erlang:monitor(process, Pid),
    true = exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end;
names_off(_) ->
    ok.

%% Its owner changes flags of its own accord; and only what was queued before the flush is in the ring.
port_hold(#{port := Pid, session := Pid}) ->
    ok;
port_hold(#{port := Pid}) ->
    _ = beamweave_port:hold(Pid),
    ok;
port_hold(_) ->
    ok.

port_off(#{port := Pid, session := Pid}) ->
    _ = beamweave_ip:finish(Pid),
    ok;
port_off(#{port := Pid}) ->
    _ = beamweave_port:finish(Pid),
    ok;
port_off(_) ->
    ok.

flags_off(Tracer, Session) ->
    ok = beamweave_trace:default_off(new_processes, Tracer),
    First = processes(),
    ok = slices(First, Tracer, Session),
    %% One that was being made while the default was taken away is in the second list only.
    slices(processes() -- First, Tracer, Session).

ports_off(false, _, _) ->
    ok;
ports_off(true, Tracer, Session) ->
    ok = beamweave_trace:default_off(new_ports, Tracer),
    slices(erlang:ports(), Tracer, Session).

slices([], _, _) ->
    ok;
slices(List, Tracer, Session) ->
    {Slice, Rest} = beamweave_trace:slice(?SLICE, List),
    lists:foreach(fun(Tracee) -> beamweave_trace:off(Tracee, Tracer) end, Slice),
    %% A sign of life: the reader waits as long as there are some.
    _ = beamweave_session:poll(Session),
    erlang:yield(),
    slices(Rest, Tracer, Session).

delivered() ->
    Reference = erlang:trace_delivered(all),
    receive
        {trace_delivered, all, Reference} -> ok
    after ?DELIVERED_MS -> ok
    end.

%% A callback that is still inside leaves within microseconds, unless its thread was taken off the
%% CPU.
close(_, 0) ->
    ok;
close(Session, Tries) ->
    case beamweave_tracer:close_session(Session) of
        {error, eagain} ->
            receive after 1 -> ok end,
            close(Session, Tries - 1);
        _ ->
            ok
    end.
