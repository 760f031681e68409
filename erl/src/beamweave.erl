%% SPDX-License-Identifier: Apache-2.0
%% @doc Recording from a shell of the node, for VMs that no other door leads into.
%%
%% ```
%% 1> beamweave:start(#{calls => [{my_module, '_', '_'}]}).
%% {ok,"/dev/shm/beamweave-1234-1.session"}
%% '''
%% Then, on the same host: `beamweave record --session /dev/shm/beamweave-1234-1.session'.
%%
%% Or as the trace port of other tools and programs, who choose what is traced:
%%
%% ```
%% 1> dbg:tracer(port, beamweave:trace_port(#{})).
%% beamweave record --session /dev/shm/beamweave-1234-2.session
%% {ok,<0.90.0>}
%% 2> dbg:p(all, [call, monotonic_timestamp]), dbg:tpl(my_module, []).
%% '''
%% With no timestamp of the trace's own an event has the time at which it came to the port, which
%% under load is tens of milliseconds later.
-module(beamweave).

-export([start/0, start/1, stop/0, trace_port/1, session/0]).

-define(POOL_BYTES, 16 * 1024 * 1024).
%% So long the session waits for its reader, which then renews the lease itself.
-define(LEASE_MS, 60000).

-define(DISCARD, 0).
-define(OVERWRITE, 1).

-type options() :: #{buffer_bytes => pos_integer(),
                     lease_ms => pos_integer(),
                     mode => discard | overwrite,
                     directory => file:name_all(),
                     calls => [beamweave_spec:spec()],
                     events => [messages | running | gc | procs | ports],
                     tracer => nif | port | client,
                     atom() => term()}.
%% Further options are those of `beamweave_controller:start/1'.

-type reason() :: beamweave_controller:reason()
                | {memory, Needed :: non_neg_integer(), Allowed :: non_neg_integer()}.

%% @equiv start(#{})
-spec start() -> {ok, file:filename()} | {error, reason()}.
start() ->
    start(#{}).

%% @doc Make a session and record into it. Returns the path to read it by.
-spec start(options()) -> {ok, file:filename()} | {error, reason()}.
start(Options) ->
    Pool = maps:get(buffer_bytes, Options, ?POOL_BYTES),
    Needed = beamweave_tracer:session_bytes(Pool),
    case beamweave_memory:allowed() of
        Allowed when Needed > Allowed -> {error, {memory, Needed, Allowed}};
        _ -> create(path(Options), Pool, Options)
    end.

create(Path, Pool, Options) ->
    Mode = case maps:get(mode, Options, discard) of
               discard -> ?DISCARD;
               overwrite -> ?OVERWRITE
           end,
    LeaseNs = maps:get(lease_ms, Options, ?LEASE_MS) * 1000000,
    Session = unicode:characters_to_binary(Path),
    case beamweave_tracer:create_session(Session, Mode, Pool, LeaseNs) of
        {ok, _} ->
            case beamweave_controller:start(Options#{session => Session, shell => true}) of
                {ok, _, _} ->
                    {ok, Path};
                {error, Reason} ->
                    _ = file:delete(Path, [raw]),
                    {error, Reason}
            end;
        {error, Reason} ->
            {error, {session, Reason}}
    end.

%% @doc A fun for `dbg:tracer(port, Fun)', or for a program that traces itself: it makes a session,
%% prints the command that reads it, and returns a port that belongs to the caller, to be named in
%% `erlang:trace(Pid, true, [{tracer, Port} | Flags])'. Closing the port ends the recording; so does
%% its reader's end. Of the options those of the session are looked at, and what
%% `beamweave_controller:start/1' captures: bytes of a message beyond 1,024 are kept when `capture'
%% is `args', at most `capture_bytes'.
-spec trace_port(options()) -> fun(() -> port()).
trace_port(Options) ->
    fun() ->
            Given = maps:without([calls, events], Options),
            case start(Given#{tracer => client}) of
                {ok, Path} ->
                    {ok, Port} = beamweave_controller:port(),
                    io:format("beamweave record --session ~ts~n", [Path]),
                    Port;
                {error, Reason} ->
                    error({beamweave, Reason})
            end
    end.

%% @doc The session that this node is recorded into.
-spec session() -> {ok, file:filename()} | none.
session() ->
    case whereis(beamweave_controller) of
        undefined ->
            none;
        Pid ->
            {ok, Path} = gen_server:call(Pid, path),
            {ok, unicode:characters_to_list(Path)}
    end.

path(Options) ->
    Directory = case Options of
                    #{directory := Given} -> unicode:characters_to_list(Given);
                    _ -> directory(["/dev/shm", "/tmp"])
                end,
    Name = io_lib:format("beamweave-~s-~b.session",
                         [os:getpid(), erlang:unique_integer([positive])]),
    filename:join(Directory, lists:flatten(Name)).

directory([Last]) ->
    Last;
directory([Directory | Rest]) ->
    case filelib:is_dir(Directory) of
        true -> Directory;
        false -> directory(Rest)
    end.

%% @doc End the recording of this node. The session file stays for its reader, which removes it.
-spec stop() -> ok.
stop() ->
    beamweave_controller:stop().
