%% SPDX-License-Identifier: Apache-2.0
%% @doc Calls: counts, nesting, tail calls, exceptions, captured terms. Each function is a test.
-module(tracer_calls).

-export([nested/0, recursion/0, tail/0, exceptions/0, exceptions_traced/0, trees/1, capture/0,
         capture_budget/0, redact/0, reloaded/0, unseen_arguments/0, specs/0]).
-export([outer/1, middle/1, inner/1, descend/1, loop/1, safe/1, thrower/1, echo/1, version/0]).

-define(RECORDING(Calls), #{calls => Calls, pids => [pid_text()], names => false}).

pid_text() ->
    list_to_binary(pid_to_list(self())).

calls(Result) ->
    tracer_test:of_process(self(), Result).

%% 1,000 times outer -> 2 middle -> 2 inner each.
-spec nested() -> ok.
nested() ->
    Result = tracer_test:record(?RECORDING([{?MODULE, F, 1} || F <- [outer, middle, inner]]),
                                fun() -> [?MODULE:outer(N) || N <- lists:seq(1, 1000)] end),
    Events = calls(Result),
    1000 = tracer_test:count(#{kind => call, mfa => {?MODULE, outer, 1}}, Events),
    2000 = tracer_test:count(#{kind => call, mfa => {?MODULE, middle, 1}}, Events),
    4000 = tracer_test:count(#{kind => call, mfa => {?MODULE, inner, 1}}, Events),
    7000 = tracer_test:count(#{kind => return_to}, Events),
    Tree = tracer_test:decode(Events, maps:get(vm, Result)),
    Names = maps:from_list(lists:zip(lists:seq(1, 7000), [F || {_, {_, F, 1}} <- Tree])),
    [] = [Call || {Parent, {_, outer, 1}} = Call <- Tree, Parent =/= 0],
    [] = [Call || {Parent, {_, middle, 1}} = Call <- Tree, maps:get(Parent, Names) =/= outer],
    [] = [Call || {Parent, {_, inner, 1}} = Call <- Tree, maps:get(Parent, Names) =/= middle],
    [] = [Thread || {Thread, _, _, Discarded} <- maps:get(counts, Result), Discarded > 0],
    ok.

outer(N) -> ?MODULE:middle(N) + ?MODULE:middle(N + 1).
middle(N) -> ?MODULE:inner(N) + ?MODULE:inner(N + 1).
inner(N) -> N.

-spec recursion() -> ok.
recursion() ->
    Result = tracer_test:record(?RECORDING([{?MODULE, descend, 1}]),
                                fun() -> ?MODULE:descend(99) end),
    100 = maps:get(answer, Result) + 1,
    Tree = tracer_test:decode(calls(Result), maps:get(vm, Result)),
    Expected = [{Parent, {?MODULE, descend, 1}} || Parent <- lists:seq(0, 99)],
    Expected = Tree,
    ok.

descend(0) -> 0;
descend(N) -> 1 + ?MODULE:descend(N - 1).

%% A million tail calls: the stack is as deep as without tracing, but for the frame of the first.
-spec tail() -> ok.
tail() ->
    Plain = ?MODULE:loop(1000000),
    Options = (?RECORDING([{?MODULE, loop, 1}]))#{path => tracer_test:session(["0x8000000"]),
                                                  reader => count},
    Result = tracer_test:record(Options, fun() -> ?MODULE:loop(1000000) end),
    true = abs(maps:get(answer, Result) - Plain) =< 64,
    Sum = fun(Wanted) -> lists:sum([Recorded || {_, Kind, Recorded, 0} <- maps:get(counts, Result),
                                                Kind =:= Wanted]) end,
    {1000001, 1} = {Sum(call), Sum(return_to)},
    Few = tracer_test:record(?RECORDING([{?MODULE, loop, 1}]), fun() -> ?MODULE:loop(100) end),
    Events = calls(Few),
    1 = tracer_test:count(#{kind => call, tail => 0}, Events),
    100 = tracer_test:count(#{kind => call, tail => 1}, Events),
    ok.

loop(0) ->
    {stack_size, Words} = process_info(self(), stack_size),
    Words;
loop(N) ->
    ?MODULE:loop(N - 1).

%% Caught where the frame nearest the catch is traced: one return_to each, to the catcher.
-spec exceptions() -> ok.
exceptions() ->
    Result = tracer_test:record(?RECORDING([{?MODULE, safe, 1}, {?MODULE, thrower, 1}]),
                                fun() -> [?MODULE:safe(N) || N <- lists:seq(1, 100)] end),
    Events = calls(Result),
    100 = tracer_test:count(#{kind => call, mfa => {?MODULE, thrower, 1}}, Events),
    100 = tracer_test:count(#{kind => return_to, mfa => {?MODULE, safe, 1}}, Events),
    Tree = tracer_test:decode(Events, maps:get(vm, Result)),
    [] = [Call || {Parent, {_, thrower, 1}} = Call <- Tree, Parent rem 2 =/= 1],
    ok.

safe(N) ->
    try ?MODULE:thrower(N)
    catch throw:{thrown, N} -> N
    end.

thrower(N) -> throw({thrown, N}).

%% With values captured, an exception has an event of its own; one that nobody catches too.
-spec exceptions_traced() -> ok.
exceptions_traced() ->
    Options = (?RECORDING([{?MODULE, safe, 1}, {?MODULE, thrower, 1}]))#{capture => 'args,return'},
    Victim = fun() ->
                     {Pid, Monitor} = spawn_monitor(fun() -> exit(?MODULE:thrower(7)) end),
                     receive {'DOWN', Monitor, process, Pid, Reason} -> {Pid, Reason} end
             end,
    Result = tracer_test:record(Options, fun() -> {?MODULE:safe(3), quiet(Victim)} end),
    {3, {Pid, {{nocatch, {thrown, 7}}, _}}} = maps:get(answer, Result),
    [#{capture := Thrown, mfa := {?MODULE, thrower, 1}, type := 2, arity := 2, atom1 := throw}] =
        [E || #{kind := exception_from} = E <- calls(Result)],
    {throw, {thrown, 3}} = binary_to_term(Thrown),
    [#{capture := Value, mfa := {?MODULE, safe, 1}}] =
        [E || #{kind := return_from} = E <- calls(Result)],
    3 = binary_to_term(Value),
    Theirs = tracer_test:of_process(Pid, Result),
    1 = tracer_test:count(#{kind => exception_from, mfa => {?MODULE, thrower, 1}}, Theirs),
    1 = tracer_test:count(#{kind => exit}, Theirs),
    ok.

%% A crash on purpose is not for the log.
quiet(Fun) ->
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    try Fun()
    after ok = logger:set_primary_config(level, Level)
    end.

%% The parents of all calls of random programs are the interpreter's.
-spec trees(pos_integer()) -> {Calls :: pos_integer(), Wrong :: non_neg_integer()}.
trees(Last) ->
    Specs = calltree:prepare(1, Last),
    Truth = tracer_test:session() ++ ".truth",
    Count = calltree:truth(1, Last, Truth),
    {ok, Text} = file:read_file(Truth),
    _ = [file:delete(File) || File <- [Truth, filename:rootname(Truth)]],
    Parents = [binary_to_integer(lists:nth(2, binary:split(Line, <<" ">>, [global])))
               || Line <- binary:split(Text, <<"\n">>, [global, trim_all])],
    Mfas = [lists:nth(3, binary:split(Line, <<" ">>, [global]))
            || Line <- binary:split(Text, <<"\n">>, [global, trim_all])],
    Result = tracer_test:record(?RECORDING(Specs), fun() -> calltree:run(1, Last) end),
    Tree = tracer_test:decode(calls(Result), maps:get(vm, Result)),
    Count = length(Tree),
    Mfas = [beamweave_spec:mfa_text(Mfa) || {_, Mfa} <- Tree],
    {Count, length([wrong || {Expected, {Found, _}} <- lists:zip(Parents, Tree),
                             Expected =/= Found])}.

%% Every kind of term comes out of the record as it went in, or as what stands for it.
-spec capture() -> ok.
capture() ->
    <<_:3, Odd:77/bits, _/bits>> = <<"some bytes to cut from">>,
    Large = binary:copy(<<"0123456789">>, 20),
    <<_:7/binary, Middle:100/binary, _/binary>> = Large,
    Same = [a, 'Größe', 'Ж ы', '', 0, -1, 255, 256, -70000, 1 bsl 31, 1 bsl 59, -(1 bsl 60),
            1 bsl 63, -(1 bsl 63), 1.5, {}, {a, {b, "text"}}, [], [[]], [1 | 2], <<>>, <<"bin">>,
            Middle, Odd, <<5:3>>, #{}, #{a => [1], 2 => #{}}, lists:seq(1, 40)],
    Wide = maps:from_list([{N, N} || N <- lists:seq(1, 33)]),
    Self = beamweave_tracer:word(self()),
    Reference = make_ref(),
    Replaced = [{self(), {'$pid', Self}}, {Wide, {'$cut', 33}}, {fun() -> Self end, {'$fun', 0}},
                {Reference, {'$ref', erlang:phash2(Reference)}}, {1 bsl 70, '$cut'}],
    Terms = [{Term, Term} || Term <- Same] ++ Replaced,
    Options = (?RECORDING([{?MODULE, echo, 1}]))#{capture => args},
    Result = tracer_test:record(Options, fun() -> [?MODULE:echo(Term) || {Term, _} <- Terms] end),
    Found = [binary_to_term(Bytes) || #{kind := call, capture := Bytes} <- calls(Result)],
    Expected = [[Term] || {_, Term} <- Terms],
    [] = [Pair || {A, B} = Pair <- lists:zip(Expected, Found), A =/= B],
    ok.

echo(Term) -> Term.

%% What is too much is cut: never more bytes than asked for, still a term, and the flag says so.
-spec capture_budget() -> ok.
capture_budget() ->
    Large = binary:copy(<<"x">>, 100000),
    Deep = lists:foldl(fun(N, Term) -> {N, Term} end, bottom, lists:seq(1, 100)),
    Terms = [lists:seq(1, 5120), Large, list_to_tuple(lists:seq(1, 5120)), Deep,
             [{key, N, <<"some value">>} || N <- lists:seq(1, 1000)],
             maps:from_list([{{key, N}, binary:copy(<<"y">>, 50)} || N <- lists:seq(1, 30)])],
    Sizes = [64, 100, 256, 1000, 4000],
    lists:foreach(fun(Size) -> budget(Size, Terms) end, Sizes).

budget(Size, Terms) ->
    Options = (?RECORDING([{?MODULE, echo, 1}]))#{capture => args, capture_bytes => Size},
    Result = tracer_test:record(Options, fun() -> [?MODULE:echo(Term) || Term <- Terms] end),
    Captured = [{Bytes, Flags, All} || #{kind := call, capture := Bytes, flags := Flags,
                                         bytes := All} <- calls(Result)],
    6 = length(Captured),
    lists:foreach(fun({{Bytes, Flags, All}, Term}) ->
                          true = byte_size(Bytes) =< Size,
                          true = All - byte_size(Bytes) < 32 + 8 + 8,
                          [Found] = binary_to_term(Bytes),
                          1 = Flags band 1,
                          true = (Term =:= Found) =:= (Flags band 2 =:= 0)
                  end, lists:zip(Captured, Terms)),
    case Size of
        1000 ->
            [{'$cut', Some, 100000}] = binary_to_term(element(1, lists:nth(2, Captured))),
            <<>> = << <<Byte>> || <<Byte>> <= Some, Byte =/= $x >>,
            true = byte_size(Some) > 900,
            [{'$cut', 5120}] = binary_to_term(element(1, lists:nth(3, Captured))),
            [[1, 2, 3 | _]] = binary_to_term(element(1, lists:nth(1, Captured))),
            %% 30 pairs: those that found room, and how many did not.
            [#{'$cut' := Left} = Map] = binary_to_term(element(1, lists:nth(6, Captured))),
            30 = Left + map_size(Map) - 1,
            true = map_size(Map) > 5;
        _ ->
            ok
    end.

%% Shapes only: nothing of a content is in any byte of the file.
-spec redact() -> ok.
redact() ->
    Options = (?RECORDING([{?MODULE, echo, 1}]))#{capture => args, redact => true},
    Term = {request, <<"secret">>, 4711, "secret", #{key => "secret"}, [secret], {user, secret}},
    Result = tracer_test:record(Options, fun() -> ?MODULE:echo(Term) end),
    [#{capture := Bytes}] = [E || #{kind := call} = E <- calls(Result)],
    [{request, {'$cut', 6}, '$cut', '$cut', {'$cut', 1}, '$cut', {user, '$cut'}}] =
        unwrap(binary_to_term(Bytes)),
    nomatch = binary:match(Bytes, <<"secret">>),
    ok.

%% The argument list itself is a list: what stands for it depends on the rule for lists.
unwrap('$cut') -> error(arguments_cut);
unwrap(Arguments) -> Arguments.

%% Arguments that are not captured are not even counted: the record has the arity.
-spec unseen_arguments() -> ok.
unseen_arguments() ->
    Result = tracer_test:record(?RECORDING([{?MODULE, echo, 1}]),
                                fun() -> ?MODULE:echo(lists:seq(1, 5120)) end),
    [#{bytes := 32, flags := 0, mfa := {?MODULE, echo, 1}}] =
        [E || #{kind := call} = E <- calls(Result)],
    ok.

%% Code that is loaded anew while it is recorded is traced again within seconds.
-spec reloaded() -> ok.
reloaded() ->
    {ok, Module, Binary} = compile:forms(
                             [{attribute, 1, module, tracer_reloaded},
                              {attribute, 2, export, [{f, 0}]},
                              {function, 3, f, 0, [{clause, 3, [], [], [{atom, 3, ok}]}]}], []),
    {module, Module} = code:load_binary(Module, "tracer_reloaded", Binary),
    Session = tracer_test:on(?RECORDING([{Module, '_', '_'}])),
    ok = Module:f(),
    true = code:soft_purge(Module),
    {module, Module} = code:load_binary(Module, "tracer_reloaded", Binary),
    {traced, false} = erlang:trace_info({Module, f, 0}, traced),
    tracer_test:eventually(fun() ->
                                   erlang:trace_info({Module, f, 0}, traced) =:= {traced, local}
                           end),
    ok = Module:f(),
    Result = tracer_test:off(Session),
    2 = tracer_test:count(#{kind => call, mfa => {Module, f, 0}}, calls(Result)),
    true = code:soft_purge(Module),
    true = code:delete(Module),
    true = code:soft_purge(Module),
    ok.

-spec version() -> 1.
version() -> 1.

%% Specs that name nothing are refused with near misses, and nothing is left.
-spec specs() -> ok.
specs() ->
    Path = tracer_test:session(),
    Start = fun(Options) -> beamweave_controller:start(Options#{session => list_to_binary(Path)}) end,
    {error, {no_match, <<"tracer_calls:eco/1">>, Near}} = Start(#{calls => [{?MODULE, eco, 1}]}),
    true = lists:member(<<"tracer_calls:echo/1">>, Near),
    {error, {no_match, <<"tracer_calls:echo/4">>, [<<"tracer_calls:echo/1">> | _]}} =
        Start(#{calls => [{?MODULE, echo, 4}]}),
    {error, {module_not_found, <<"tracer_cals">>, Modules}} = Start(#{calls => [{tracer_cals, '_', '_'}]}),
    true = lists:member(<<"tracer_calls">>, Modules),
    {error, {no_match, <<"_">>, []}} = Start(#{calls => [{'_', '_', '_'}]}),
    {error, {no_process, <<"nobody">>}} = Start(#{events => [gc], pids => [<<"nobody">>]}),
    {error, {session, enoent}} =
        beamweave_controller:start(#{session => <<"/dev/shm/bwtest-none">>}),
    ok = file:delete(Path),
    [] = tracer_test:residue(),
    ok.
