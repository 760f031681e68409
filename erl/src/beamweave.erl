%% SPDX-License-Identifier: Apache-2.0
%% @doc Recording from a shell of the node, for VMs that no other door leads into.
%%
%% ```
%% 1> beamweave:start(#{calls => [{my_module, '_', '_'}]}).
%% {ok,"/dev/shm/beamweave-1234-1.session"}
%% '''
%% Then, on the same host: `beamweave record --session /dev/shm/beamweave-1234-1.session'.
-module(beamweave).

-export([start/0, start/1, stop/0]).

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
