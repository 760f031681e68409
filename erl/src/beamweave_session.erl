%% SPDX-License-Identifier: Apache-2.0
%% @doc A session, whatever is behind it: the ring, which the NIF writes to, or the process that owns
%% OTP's IP trace port and hands over what the recorder asks for.
-module(beamweave_session).

-export([close/1, put/4, set_names/3, set_tracer/3, poll/1, clock/1, word/2]).
-export_type([session/0]).

-type session() :: beamweave_tracer:session() | pid().

%% @doc Nothing was traced yet.
-spec close(session()) -> ok | beamweave_tracer:error().
close(Session) when is_pid(Session) -> beamweave_ip:set_tracer(Session, 0, 0);
close(Session) -> beamweave_tracer:close_session(Session).

%% @doc An entry of the dictionary.
-spec put(session(), pos_integer(), term(), binary()) -> ok | beamweave_tracer:error().
put(Session, Type, Key, Payload) when is_pid(Session) ->
    beamweave_ip:put(Session, Type, Key, Payload);
put(Session, Type, Key, Payload) ->
    beamweave_tracer:put(Session, Type, Key, Payload).

%% @doc Of how many processes the names are known.
-spec set_names(session(), non_neg_integer(), non_neg_integer()) -> ok | beamweave_tracer:error().
set_names(Session, _, _) when is_pid(Session) -> ok;
set_names(Session, Done, Total) -> beamweave_tracer:set_names(Session, Done, Total).

%% @doc What the controller says of itself: enum ring_tracer_state, enum ring_end_reason.
-spec set_tracer(session(), 0..3, 0..6) -> ok | beamweave_tracer:error().
set_tracer(Session, State, Reason) when is_pid(Session) ->
    beamweave_ip:set_tracer(Session, State, Reason);
set_tracer(Session, State, Reason) ->
    beamweave_tracer:set_tracer(Session, State, Reason).

%% @doc Is it to go on, and how many events may still come?
-spec poll(session()) -> {run | paused, integer()} | {over, 0..6} | {error, term()}.
poll(Session) when is_pid(Session) -> beamweave_ip:poll(Session);
poll(Session) -> beamweave_tracer:poll(Session).

%% @doc CLOCK_MONOTONIC in nanoseconds.
-spec clock(session()) -> non_neg_integer().
clock(Session) when is_pid(Session) -> beamweave_ip:clock();
clock(_) -> beamweave_tracer:clock().

%% @doc What stands for a process or port of this node.
-spec word(session(), pid() | port()) -> non_neg_integer().
word(Session, Term) when is_pid(Session) -> beamweave_ip:word(Term);
word(_, Term) -> beamweave_tracer:word(Term).
