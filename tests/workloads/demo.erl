%% SPDX-License-Identifier: Apache-2.0
%% @doc A small server under load that goes wrong in known ways.
%%
%% `start/0' starts it. `plant/2' then does, within six seconds, what the demo is to find, and writes to
%% a file one JSON line for each: a 30 ms hog on the CPU of scheduler 1, a 50 ms stop, a major GC of a
%% big heap, a gen_server whose mailbox grows, a TCP echo under load.
-module(demo).
-behaviour(gen_server).

-export([start/0, plant/2, handle_order/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(HEAP_ITEMS, 3_000_000).
-define(ORDERS, 4_000).
-define(ECHO_ROUNDS, 2_000).
-define(ECHO_BYTES, 512).

-spec start() -> ok.
start() ->
    {ok, _} = gen_server:start({local, order_server}, ?MODULE, [], []),
    Cache = spawn(fun cache/0),
    register(price_cache, Cache),
    register(echo_acceptor, spawn(fun() -> accept(listen()) end)),
    Cache ! {ready, self()},
    receive {Cache, ready, ?HEAP_ITEMS} -> ok end.

listen() ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}, {reuseaddr, true}]),
    Listen.

%% Plant is the path of the program `plant', Truth that of the file to write.
-spec plant(file:filename(), file:filename()) -> ok.
plant(Plant, Truth) ->
    {ok, File} = file:open(Truth, [write, raw]),
    timer:sleep(500),
    echo_load(File),
    timer:sleep(500),
    hog(Plant, File),
    timer:sleep(500),
    write(File, run(Plant, ["stop", os:getpid(), "50"])),
    timer:sleep(500),
    collect(File),
    timer:sleep(500),
    order_burst(File),
    file:close(File).

%% A process that keeps scheduler 1 busy loses its CPU to a hog for 30 ms.
hog(Plant, File) ->
    Busy = spawn_opt(fun() -> spin(erlang:monotonic_time(millisecond) + 400) end,
                     [{scheduler, 1}, link]),
    register(price_engine, Busy),
    timer:sleep(100),
    write(File, run(Plant, ["hog", scheduler_tid(1), "30"])),
    timer:sleep(500).

spin(End) ->
    case erlang:monotonic_time(millisecond) of
        Now when Now < End -> spin(End);
        _ -> ok
    end.

%% A major collection of a big live heap, timed by who asked for it.
collect(File) ->
    price_cache ! {collect, self()},
    receive
        {collected, Start, Time} ->
            write(File, ["{\"what\":\"gc\",\"start_ns\":", integer_to_list(Start), ",\"duration_ns\":",
                         integer_to_list(Time), ",\"process\":\"", pid_to_list(whereis(price_cache)), "\"}\n"])
    end.

%% Orders come faster than they are handled.
order_burst(File) ->
    Start = now_ns(),
    send_orders(?ORDERS),
    {message_queue_len, Length} = process_info(whereis(order_server), message_queue_len),
    write(File, ["{\"what\":\"mailbox\",\"start_ns\":", integer_to_list(Start), ",\"length\":",
                 integer_to_list(Length), ",\"process\":\"", pid_to_list(whereis(order_server)), "\"}\n"]),
    ok = gen_server:call(order_server, drained, infinity).

send_orders(0) ->
    ok;
send_orders(N) ->
    gen_server:cast(order_server, {order, N}),
    N rem 200 =:= 0 andalso timer:sleep(2),
    send_orders(N - 1).

echo_load(File) ->
    {ok, Port} = inet:port(acceptor_socket()),
    Start = now_ns(),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    {ok, Local} = inet:port(Socket),
    echo_rounds(Socket, binary:copy(<<"x">>, ?ECHO_BYTES), ?ECHO_ROUNDS),
    ok = gen_tcp:close(Socket),
    write(File, ["{\"what\":\"echo\",\"start_ns\":", integer_to_list(Start), ",\"bytes\":",
                 integer_to_list(?ECHO_BYTES * ?ECHO_ROUNDS), ",\"server_port\":", integer_to_list(Port),
                 ",\"client_port\":", integer_to_list(Local), "}\n"]).

echo_rounds(_, _, 0) ->
    ok;
echo_rounds(Socket, Data, N) ->
    ok = gen_tcp:send(Socket, Data),
    {ok, Data} = gen_tcp:recv(Socket, byte_size(Data)),
    echo_rounds(Socket, Data, N - 1).

acceptor_socket() ->
    {links, Links} = process_info(whereis(echo_acceptor), links),
    [Listen] = [L || L <- Links, is_port(L)],
    Listen.

accept(Listen) ->
    {ok, Socket} = gen_tcp:accept(Listen),
    Server = spawn(fun() -> receive go -> echo(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Server),
    Server ! go,
    accept(Listen).

echo(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Data} ->
            ok = gen_tcp:send(Socket, Data),
            echo(Socket);
        {error, closed} ->
            ok
    end.

cache() ->
    Prices = [{N, N * 2} || N <- lists:seq(1, ?HEAP_ITEMS)],
    cache_ready(Prices).

cache_ready(Prices) ->
    receive
        {collect, From} ->
            Start = now_ns(),
            true = erlang:garbage_collect(),
            From ! {collected, Start, now_ns() - Start},
            cache_ready(Prices);
        {ready, From} ->
            From ! {self(), ready, length(Prices)},
            cache_ready(Prices)
    end.

%% Run `plant' and give back the line that it prints.
run(Plant, Arguments) ->
    Port = open_port({spawn_executable, Plant}, [{args, Arguments}, {line, 1024}, exit_status]),
    receive
        {Port, {data, {eol, Line}}} ->
            receive {Port, {exit_status, 0}} -> ok end,
            [Line, $\n];
        {Port, {exit_status, Status}} ->
            error({plant, Status})
    end.

%% Kernel thread id of a normal scheduler, by its name in /proc.
scheduler_tid(Number) ->
    Names = [integer_to_list(Number) ++ "_scheduler\n", "erts_sched_" ++ integer_to_list(Number) ++ "\n"],
    {ok, Tids} = file:list_dir("/proc/self/task"),
    [Tid] = [T || T <- Tids, {ok, Comm} <- [file:read_file("/proc/self/task/" ++ T ++ "/comm")],
                  lists:member(binary_to_list(Comm), Names)],
    Tid.

write(File, Line) ->
    ok = file:write(File, Line).

%% CLOCK_MONOTONIC, the clock of a recording.
now_ns() ->
    os:perf_counter(nanosecond).

%% The function whose calls the demo traces.
-spec handle_order(pos_integer()) -> integer().
handle_order(N) ->
    price(N) + lists:sum(lists:seq(1, 2000)).

price(N) ->
    lists:foldl(fun(I, Sum) -> Sum + I rem (N + 1) end, 0, lists:seq(1, 3000)).

-spec init([]) -> {ok, integer()}.
init([]) ->
    {ok, 0}.

-spec handle_call(drained, gen_server:from(), integer()) -> {reply, ok, integer()}.
handle_call(drained, _From, Total) ->
    {reply, ok, Total}.

-spec handle_cast({order, pos_integer()}, integer()) -> {noreply, integer()}.
handle_cast({order, N}, Total) ->
    {noreply, Total + ?MODULE:handle_order(N)}.
