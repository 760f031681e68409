%% SPDX-License-Identifier: Apache-2.0
%% @doc The floor of what a tracer costs: see empty_tracer.c.
-module(empty_tracer).

-export([load/1, enabled/3, trace/5]).
-nifs([enabled/3, trace/5]).

-spec load(file:filename()) -> ok | {error, term()}.
load(Library) ->
    erlang:load_nif(filename:rootname(Library, ".so"), 0).

-spec enabled(atom(), term(), pid() | port()) -> trace.
enabled(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).

-spec trace(atom(), term(), pid() | port(), term(), map()) -> ok.
trace(_Tag, _State, _Tracee, _Message, _Options) -> erlang:nif_error(not_loaded).
