%% SPDX-License-Identifier: Apache-2.0
%% @doc The tracer itself: a NIF of the `erl_tracer' behaviour, and what the controller asks of it.
%%
%% The library is found by `application:get_env(beamweave, library)', an absolute path, or else in
%% the application's priv directory. It stays in the VM until the VM ends; this module must not be
%% purged while anything is traced.
%%
%% A session is known by its number, which is the state of every tracee: a small integer.
-module(beamweave_tracer).

-export([enabled/3, trace/5]).
-export([clock/0, word/1, open_session/5, close_session/1, create_session/4, session_bytes/1,
         poll/1, set_tracer/3, set_run/2, set_names/3, put/4, publish/1, publish_dirty/3]).
-export([vm_check/3, vm_publish/3, learn_begin/0, learn_end/2, depth/0, term_check/1]).
-export([port_driver/0, port_lag/1]).
-export_type([session/0, word/0, error/0]).

-on_load(load/0).
-nifs([enabled/3, trace/5, clock/0, word/1, open_session/5, close_session/1, create_session/4,
       session_bytes/1, poll/1, set_tracer/3, set_run/2, set_names/3, put/4, publish/1,
       publish_dirty/3, vm_check/3, vm_publish/3, learn_begin/0, learn_end/2, depth/0,
       term_check/1, port_driver/0, port_lag/1]).

-type session() :: non_neg_integer().
%% The number of an open session; 0 is what the known nest of `beamweave_vm' is traced with.
-type word() :: non_neg_integer().
%% A term as the VM keeps it: what stands for a process or port in the ring.
-type error() :: {error, atom() | integer()}.

-define(NOT_LOADED, erlang:nif_error(not_loaded)).

-spec load() -> ok | {error, term()}.
load() ->
    Release = list_to_integer(erlang:system_info(otp_release)),
    Path = filename:rootname(library(), ".so"),
    Name = filename:basename(Path),
    case erlang:load_nif(Path, {Release, Name}) of
        ok -> driver(filename:dirname(Path), Name);
        Error -> Error
    end.

%% The same library as a driver, for the trace port, while its file is there. Its first port locks
%% it in the VM. Without it all but the trace port works: port_driver/0 tells.
-spec driver(file:filename(), string()) -> ok.
driver(Directory, Name) ->
    case erl_ddll:try_load(Directory, Name, []) of
        {ok, _} ->
            try
                true = port_close(open_port({spawn_driver, Name}, [])),
                ok
            catch
                error:_ -> ok
            end;
        {error, _} ->
            ok
    end.

-spec library() -> file:filename().
library() ->
    case application:get_env(beamweave, library) of
        {ok, Path} when is_list(Path) ->
            Path;
        {ok, Path} when is_binary(Path) ->
            binary_to_list(Path);
        _ ->
            case code:priv_dir(beamweave) of
                {error, bad_name} -> "beamweave_tracer.so";
                Dir -> filename:join(Dir, "beamweave_tracer.so")
            end
    end.

%% @doc May this event be traced?
-spec enabled(atom(), session(), pid() | port()) -> trace | discard | remove.
enabled(_Tag, _Session, _Tracee) -> ?NOT_LOADED.

%% @doc Record an event.
-spec trace(atom(), session(), pid() | port(), term(), map()) -> ok.
trace(_Tag, _Session, _Tracee, _Message, _Options) -> ?NOT_LOADED.

%% @doc CLOCK_MONOTONIC in nanoseconds: the clock of all records, which Erlang's own is not.
-spec clock() -> non_neg_integer().
clock() -> ?NOT_LOADED.

%% @doc The word of a local process or port.
-spec word(pid() | port()) -> word().
word(_Term) -> ?NOT_LOADED.

%% @doc Map a session file. Capture: 1 arguments and messages, 2 values, 3 both; Redact: 0 or 1.
-spec open_session(Path :: binary(), Capture :: 0..3, Bytes :: non_neg_integer(),
                   Depth :: non_neg_integer(), Redact :: 0..1) -> {ok, session()} | error().
open_session(_Path, _Capture, _Bytes, _Depth, _Redact) -> ?NOT_LOADED.

%% @doc Let no event in any more and unmap. `{error, eagain}': one is still inside, ask again.
-spec close_session(session()) -> ok | error().
close_session(_Session) -> ?NOT_LOADED.

%% @doc Make a session file. Mode: 0 discard, 1 overwrite. Returns the file's size.
-spec create_session(Path :: binary(), Mode :: 0..1, PoolBytes :: non_neg_integer(),
                     LeaseNs :: non_neg_integer()) -> {ok, pos_integer()} | error().
create_session(_Path, _Mode, _PoolBytes, _LeaseNs) -> ?NOT_LOADED.

%% @doc The size that a session file with such a pool has; 0: out of range.
-spec session_bytes(PoolBytes :: non_neg_integer()) -> non_neg_integer().
session_bytes(_PoolBytes) -> ?NOT_LOADED.

%% @doc Look at the control page and leave a sign of life there.
-spec poll(session()) ->
          {running | paused, Credits :: integer()} | {over, Reason :: 0..6} | error().
poll(_Session) -> ?NOT_LOADED.

%% @doc Tell the reader how the tracer is: enum ring_tracer_state and ring_end_reason of ring_layout.h.
-spec set_tracer(session(), 0..3, 0..6) -> ok | error().
set_tracer(_Session, _Tracer, _Reason) -> ?NOT_LOADED.

%% @doc Set enum ring_run_state, as the reader does.
-spec set_run(session(), 0..2) -> ok | error().
set_run(_Session, _Run) -> ?NOT_LOADED.

%% @doc Tell how many processes have their names in the dictionary.
-spec set_names(session(), non_neg_integer(), non_neg_integer()) -> ok | error().
set_names(_Session, _Done, _Total) -> ?NOT_LOADED.

%% @doc Append to the dictionary: enum ring_dict_type.
-spec put(session(), 1..10, word() | pid() | port(), binary()) -> ok | error().
put(_Session, _Type, _Key, _Payload) -> ?NOT_LOADED.

%% @doc Enter the calling scheduler's thread in the thread table.
-spec publish(session()) -> ok | error().
publish(_Session) -> ?NOT_LOADED.

%% @doc The same for a dirty thread, whichever takes the call. Io: 0 CPU-bound, 1 IO-bound; Count:
%% how many schedulers of that kind there are.
-spec publish_dirty(session(), Io :: 0..1, Count :: non_neg_integer()) -> ok | error().
publish_dirty(_Session, _Io, _Count) -> ?NOT_LOADED.

%% @doc Check what is known of this release's structures, on the calling process.
-spec vm_check(Release :: pos_integer(), Scheduler :: pos_integer(), HeapWords :: pos_integer()) ->
          ok | error().
vm_check(_Release, _Scheduler, _HeapWords) -> ?NOT_LOADED.

%% @doc Write what is known of the VM to the session's header. PidBits: 64 bytes, see ring_layout.h.
-spec vm_publish(session(), Release :: pos_integer(), PidBits :: binary()) -> ok | error().
vm_publish(_Session, _Release, _PidBits) -> ?NOT_LOADED.

%% @doc Forget the events of an earlier nest.
-spec learn_begin() -> ok.
learn_begin() -> ?NOT_LOADED.

%% @doc Work out what a return_to frame looks like. See `beamweave_vm:learn/0'.
-spec learn_end(non_neg_integer(), non_neg_integer()) -> ok | error().
learn_end(_DepthTraced, _DepthPlain) -> ?NOT_LOADED.

%% @doc Depth of the calling process's stack in words; 0 when it cannot be known.
-spec depth() -> non_neg_integer().
depth() -> ?NOT_LOADED.

%% @doc Check the layout of terms against examples `{Type, Term, Bytes, TailBits}'.
-spec term_check([{non_neg_integer(), term(), binary(), 0..7}]) -> ok | error().
term_check(_Examples) -> ?NOT_LOADED.

%% @doc The name of the trace port's driver, for open_port/2.
-spec port_driver() -> string() | error().
port_driver() -> ?NOT_LOADED.

%% @doc How long after it had happened the newest event came to the trace port, in nanoseconds.
-spec port_lag(session()) -> non_neg_integer() | error().
port_lag(_Session) -> ?NOT_LOADED.
