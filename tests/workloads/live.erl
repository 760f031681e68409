%% SPDX-License-Identifier: Apache-2.0
%% What `beamweave trace` is to print, with arguments and values that are known.
-module(live).

-export([add/2, crash/1, odd/1, run/1, loop/1, loop/2, all/0]).

-spec add(term(), term()) -> {ok, term(), term()}.
add(A, B) -> {ok, A, B}.

-spec crash(term()) -> no_return().
crash(Reason) -> error(Reason).

-spec odd(term()) -> term().
odd(Term) -> Term.

%% @doc Call add/2 N times.
-spec run(non_neg_integer()) -> ok.
run(N) -> lists:foreach(fun(I) -> {ok, I, foo} = add(I, foo) end, lists:seq(1, N)).

%% @doc Call add/2 every few milliseconds for ever.
-spec loop(term()) -> no_return().
loop(B) -> loop(1, B).

-spec loop(pos_integer(), term()) -> no_return().
loop(N, B) ->
    {ok, N, B} = add(N, B),
    receive after 2 -> ok end,
    loop(N + 1, B).

%% @doc One of each.
-spec all() -> ok.
all() ->
    _ = add(97, 98),
    _ = add([], #{a => 1}),
    _ = (catch crash({bad, [1, 2]})),
    _ = odd(<<"gr\xc3\xbc\xc3\x9fe \e[31m">>),
    _ = odd('\e[31mé'),
    ok.
