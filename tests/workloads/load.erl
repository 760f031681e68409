%% SPDX-License-Identifier: Apache-2.0
%% @doc Load for measuring what a recording costs the VM: the same work again and again, timed.
-module(load).

-export([requests/1, calls/1, handle/1, step/1]).

%% N requests to a server process, each a call of handle/1 and some 20 us of work; ns a request.
-spec requests(pos_integer()) -> float().
requests(N) ->
    Server = spawn_link(fun serve/0),
    Time = timed(fun() -> request(Server, N) end),
    Server ! stop,
    Time / N.

request(_, 0) ->
    ok;
request(Server, N) ->
    Server ! {request, self(), N},
    receive {answer, _} -> ok end,
    request(Server, N - 1).

serve() ->
    receive
        {request, From, N} ->
            From ! {answer, ?MODULE:handle(N)},
            serve();
        stop ->
            ok
    end.

-spec handle(pos_integer()) -> non_neg_integer().
handle(N) ->
    lists:foldl(fun(I, Sum) -> (Sum + I * N) rem 8191 end, 0, lists:seq(1, 1000)).

%% N calls of a function that does next to nothing; ns a call.
-spec calls(pos_integer()) -> float().
calls(N) ->
    timed(fun() -> call(N) end) / N.

call(0) ->
    ok;
call(N) ->
    _ = ?MODULE:step(N),
    call(N - 1).

-spec step(pos_integer()) -> pos_integer().
step(N) ->
    N + 1.

timed(Fun) ->
    true = erlang:garbage_collect(),
    Start = erlang:monotonic_time(nanosecond),
    _ = Fun(),
    erlang:monotonic_time(nanosecond) - Start.
