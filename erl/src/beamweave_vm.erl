%% SPDX-License-Identifier: Apache-2.0
%% @doc What has to be learned of the VM once a recording: offsets of its structures that are
%% checked on a live process, what tracing puts on a stack, and how a pid's word maps to what is
%% printed. Whatever cannot be made sure of is left out; the records say so.
-module(beamweave_vm).

-export([learn/0, pid_bits/0, publish_schedulers/1, release/0]).
-export([nest/1, tail/1]).

%% {scheduler, N} is no documented option of spawn_opt.
-dialyzer({nowarn_function, [publish_schedulers/1, visit/2]}).

%% A pid's bits that stand for nothing that is printed.
-define(NO_BIT, 16#ff).

%% enum ring_type of ring_record.h.
-define(TUPLE, 2).
-define(BINARY, 4).
-define(INTEGER, 5).
-define(PID, 6).
-define(MAP, 7).
-define(FLOAT, 8).
-define(REF, 9).
-define(PORT, 10).
-define(FUN, 11).

-define(LEARN_TIMEOUT_MS, 2000).
-define(VISIT_TIMEOUT_MS, 300).

-spec release() -> pos_integer().
release() ->
    list_to_integer(erlang:system_info(otp_release)).

%% @doc Check and learn in a process of its own. What failed is told, for a note to the user.
-spec learn() -> ok | {error, [{atom(), term()}]}.
learn() ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({learned, learn_caught()}) end),
    receive
        {'DOWN', Monitor, process, Pid, {learned, Result}} -> Result;
        {'DOWN', Monitor, process, Pid, Reason} -> {error, [{learn, Reason}]}
    after ?LEARN_TIMEOUT_MS ->
        erlang:demonitor(Monitor, [flush]),
        exit(Pid, kill),
        {error, [{learn, timeout}]}
    end.

%% A crash would be in the node's log.
learn_caught() ->
    try learn_here()
    catch Class:Reason -> {error, [{learn, {Class, Reason}}]}
    end.

learn_here() ->
    Terms = beamweave_tracer:term_check(examples()),
    case check(5) of
        ok -> failures([{terms, Terms}, {frames, frames()}]);
        Error -> failures([{terms, Terms}, {process, Error}])
    end.

failures(Results) ->
    case [{What, Reason} || {What, {error, Reason}} <- Results] of
        [] -> ok;
        Failed -> {error, Failed}
    end.

%% The heap may grow between the question and the check, and the process may be moved.
check(Tries) ->
    {heap_size, Words} = process_info(self(), heap_size),
    case beamweave_tracer:vm_check(release(), erlang:system_info(scheduler_id), Words) of
        {error, eproto} when Tries > 1 -> check(Tries - 1);
        Result -> Result
    end.

%% The known nest: without tracing first, then with it.
frames() ->
    Plain = nest_depth(),
    Functions = [{?MODULE, nest, 1}, {?MODULE, tail, 1}],
    case [F || F <- Functions, erlang:trace_info(F, traced) =/= {traced, false}] of
        [] -> frames_traced(Plain, Functions);
        _ -> {error, traced_already}
    end.

frames_traced(Plain, Functions) ->
    Flags = [call, return_to, arity, {tracer, beamweave_tracer, 0}],
    ok = beamweave_tracer:learn_begin(),
    try
        _ = [erlang:trace_pattern(F, true, [local]) || F <- Functions],
        %% Somebody else's default for new processes may have this one of ours traced.
        _ = erlang:trace(self(), false, [all]),
        _ = erlang:trace(self(), true, Flags),
        Traced = nest_depth(),
        tail_end = tail(1),
        _ = erlang:trace(self(), false, Flags),
        beamweave_tracer:learn_end(Traced, Plain)
    catch
        error:badarg -> {error, traced_already}
    after
        _ = [erlang:trace_pattern(F, false, [local]) || F <- Functions]
    end.

nest_depth() ->
    Before = beamweave_tracer:depth(),
    innermost(nest(2)) - Before.

innermost({_, Inner}) -> innermost(Inner);
innermost(Depth) -> Depth.

%% @private
-spec nest(non_neg_integer()) -> {nest, term()}.
nest(0) -> {nest, beamweave_tracer:depth()};
nest(N) -> {nest, nest(N - 1)}.

%% @private
-spec tail(non_neg_integer()) -> tail_end.
tail(0) -> tail_end;
tail(N) -> tail(N - 1).

%% Terms whose kind and content are known by other means.
examples() ->
    Small = <<"a binary of the heap">>,
    Large = binary:copy(<<"0123456789abcdef">>, 8),
    <<_:24, Middle:40/bits, _/bits>> = Large,
    <<_:13, Odd:83/bits, _/bits>> = Large,
    OddWhole = << <<((binary:at(Large, I + 1) bsl 5 bor (binary:at(Large, I + 2) bsr 3)) band 255)>>
                  || I <- lists:seq(0, 9) >>,
    [{?TUPLE, {a, b}, <<>>, 0},
     {?BINARY, Small, Small, 0},
     {?BINARY, Large, Large, 0},
     {?BINARY, Middle, binary:copy(Middle), 0},
     {?BINARY, Odd, OddWhole, 3},
     {?INTEGER, 1 bsl 80, <<>>, 0},
     {?INTEGER, -(1 bsl 80), <<>>, 0},
     {?FLOAT, 1.5, <<>>, 0},
     {?MAP, #{a => b}, <<>>, 0},
     {?MAP, maps:from_list([{N, N} || N <- lists:seq(1, 50)]), <<>>, 0},
     {?REF, make_ref(), <<>>, 0},
     {?FUN, fun() -> Small end, <<>>, 0},
     {?FUN, fun lists:map/2, <<>>, 0},
     {?PID, external(88), <<>>, 0},
     {?PORT, external(89), <<>>, 0},
     {?REF, external(90), <<>>, 0}].

%% A pid, port or reference of another node, as it comes over the distribution.
external(Tag) ->
    Node = <<119, 17, "beamweave@nowhere">>,
    Numbers = case Tag of
                  88 -> <<7:32, 0:32, 1:32>>;
                  89 -> <<7:32, 1:32>>;
                  90 -> <<1:32, 1:32, 2:32, 3:32>>
              end,
    Length = case Tag of
                 90 -> <<3:16>>;
                 _ -> <<>>
             end,
    binary_to_term(<<131, Tag, Length/binary, Node/binary, Numbers/binary>>).

%% @doc For each bit of a pid's word, the bit of `Serial bsl 32 bor Number' that it is. The formula
%% for the release is checked against processes that are there.
-spec pid_bits() -> binary().
pid_bits() ->
    Bits = formula(release()),
    Some = lists:sublist(processes(), 1000),
    case lists:all(fun(Pid) -> decode(Bits, beamweave_tracer:word(Pid)) =:= printed(Pid) end,
                   Some) of
        true -> Bits;
        false -> binary:copy(<<?NO_BIT>>, 64)
    end.

%% 25: 15 bits of number above the tag, then 13 of serial (erl_term.h).
formula(Release) when Release =< 25 ->
    << <<(formula_bit(Bit))>> || Bit <- lists:seq(0, 63) >>;
formula(_) ->
    binary:copy(<<?NO_BIT>>, 64).

formula_bit(Bit) when Bit >= 4, Bit < 19 -> Bit - 4;
formula_bit(Bit) when Bit >= 19, Bit < 32 -> 32 + Bit - 19;
formula_bit(_) -> ?NO_BIT.

decode(Bits, Word) ->
    lists:foldl(fun({Bit, To}, Sum) when To =/= ?NO_BIT -> Sum bor (((Word bsr Bit) band 1) bsl To);
                   (_, Sum) -> Sum
                end, 0, lists:zip(lists:seq(0, 63), binary_to_list(Bits))).

printed(Pid) ->
    [_, Number, Serial] = string:lexemes(pid_to_list(Pid), "<.>"),
    list_to_integer(Serial) bsl 32 bor list_to_integer(Number).

%% @doc Enter every scheduler's thread in the session's thread table: the normal ones by a process
%% on each, the dirty ones by as many calls at once as there are threads, which may miss some; those
%% are entered at their first event.
-spec publish_schedulers(beamweave_tracer:session()) -> ok.
publish_schedulers(Session) ->
    Normal = [visit([{scheduler, N}], fun() -> beamweave_tracer:publish(Session) end)
              || N <- lists:seq(1, erlang:system_info(schedulers_online))],
    Dirty = [visit([], fun() -> beamweave_tracer:publish_dirty(Session, Io, Count) end)
             || {Io, Count} <- [{0, erlang:system_info(dirty_cpu_schedulers)},
                                {1, erlang:system_info(dirty_io_schedulers)}],
                _ <- lists:seq(1, Count)],
    Deadline = erlang:monotonic_time(millisecond) + ?VISIT_TIMEOUT_MS,
    lists:foreach(fun(Visit) -> visited(Visit, Deadline) end, Normal ++ Dirty).

visit(Options, Fun) ->
    spawn_opt(fun() -> _ = Fun(), ok end, [monitor, {priority, high} | Options]).

visited({Pid, Monitor}, Deadline) ->
    Left = max(0, Deadline - erlang:monotonic_time(millisecond)),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    after Left ->
        erlang:demonitor(Monitor, [flush]),
        exit(Pid, kill)
    end.
