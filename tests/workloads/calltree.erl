%% SPDX-License-Identifier: Apache-2.0
%% @doc Random programs and their true call trees.
%%
%% A program is made from its seed: a handful of functions of one argument (fuel, which ends them),
%% each with calls in its body, within `catch', `try ... catch' and `try ... after', through apply,
%% funs and lists:foreach/2, with BIF and NIF calls in between, and an end that is a value, a tail
%% call (local, remote, apply, fun) or an exception (throw, error, exit). Some functions are to be
%% traced, the others not. The programs of one seed range are compiled into modules calltree_0,
%% calltree_1, ...; lists:keymember/3, a BIF, is to be traced as well.
%%
%%   Specs = calltree:prepare(1, 1000)      make and load the programs of seeds 1 to 1000;
%%                                          [{Module, Function, Arity}] to be traced
%%   Count = calltree:run(1, 1000)          run all of them, one after the other, in the calling
%%                                          process; how many calls that were
%%   Count = calltree:truth(1, 1000, File)  write what has to come out. Does not run anything:
%%                                          the tree comes from an interpreter.
%%
%% The truth file has one line a traced call, in the order in which they are made:
%%
%%   ID PARENT_ID MODULE:FUNCTION/ARITY END
%%
%% Ids are 1, 2, 3, ... through all programs. The parent is the innermost traced call that is open:
%% not yet returned from, and not replaced. A call that ends by a tail call of a traced function is
%% replaced by it, and its parent becomes the other's parent; one that ends by a tail call of an
%% untraced function stays open until that returns. PARENT_ID 0: none. END is how the call ends:
%% `return', `tail' (replaced) or `exception'.
-module(calltree).

-export([prepare/2, run/2, truth/3, source/1]).
%% For the generated programs.
-export([nothing/1]).

-define(BATCH, 100).
-define(BIF, {lists, keymember, 3}).

-type program() :: #{functions := [tuple()], fuel := pos_integer()}.

%% ---- making ---------------------------------------------------------------------------------

-spec prepare(pos_integer(), pos_integer()) -> [mfa()].
prepare(First, Last) ->
    Batches = lists:usort([Seed div ?BATCH || Seed <- lists:seq(First, Last)]),
    [load(Batch) || Batch <- Batches],
    [?BIF | [{module(Seed), name(Seed, I), 1}
             || Seed <- lists:seq(First, Last),
                {I, true, _, _} <- maps:get(functions, program(Seed))]].

load(Batch) ->
    Forms = forms(lists:flatten(source(Batch))),
    {ok, Module, Binary} = compile:forms(Forms, [nowarn_unused_vars]),
    {module, Module} = code:load_binary(Module, "calltree", Binary).

forms(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    split_forms(Tokens, [], []).

split_forms([], [], Forms) ->
    lists:reverse(Forms);
split_forms([{dot, _} = Dot | Rest], Tokens, Forms) ->
    {ok, Form} = erl_parse:parse_form(lists:reverse([Dot | Tokens])),
    split_forms(Rest, [], [Form | Forms]);
split_forms([Token | Rest], Tokens, Forms) ->
    split_forms(Rest, [Token | Tokens], Forms).

%% @doc The text of one module of programs.
-spec source(non_neg_integer()) -> iolist().
source(Batch) ->
    Seeds = [Seed || Seed <- lists:seq(Batch * ?BATCH, Batch * ?BATCH + ?BATCH - 1), Seed > 0],
    ["-module(calltree_", integer_to_list(Batch), ").\n-compile([export_all, nowarn_export_all, nowarn_shadow_vars]).\n",
     [function_text(Seed, F) || Seed <- Seeds, F <- maps:get(functions, program(Seed))]].

module(Seed) ->
    list_to_atom("calltree_" ++ integer_to_list(Seed div ?BATCH)).

name(Seed, I) ->
    list_to_atom("p" ++ integer_to_list(Seed) ++ "_f" ++ integer_to_list(I)).

%% {Index, Traced, Actions, End}
-spec program(pos_integer()) -> program().
program(Seed) ->
    State0 = rand:seed_s(exsss, Seed),
    {Count, State1} = rand:uniform_s(5, State0),
    {Fuel, State2} = rand:uniform_s(3, State1),
    {Functions, _} = lists:mapfoldl(fun(I, State) -> function(I, Count + 1, State) end, State2,
                                    lists:seq(1, Count + 1)),
    #{functions => Functions, fuel => Fuel + 1}.

function(I, Count, State0) ->
    {Traced, State1} = pick([true, true, false], State0),
    {Actions, State2} = rand:uniform_s(3, State1),
    {Body, State3} = lists:mapfoldl(fun(_, State) -> action(Count, State) end, State2,
                                    lists:seq(1, Actions)),
    {End, State4} = ending(Count, State3),
    {{I, Traced, Body, End}, State4}.

pick(List, State0) ->
    {N, State} = rand:uniform_s(length(List), State0),
    {lists:nth(N, List), State}.

action(Count, State0) ->
    {Kind, State1} = pick([body, body, body, 'catch', try_catch, try_after, foreach, bif, nif,
                           traced_bif], State0),
    {How, State2} = pick([local, remote, apply, 'fun'], State1),
    {Callee, State3} = rand:uniform_s(Count, State2),
    {{Kind, How, Callee}, State3}.

ending(Count, State0) ->
    {Kind, State1} = pick([value, value, tail, tail, tail, throw, error, exit], State0),
    {How, State2} = pick([local, remote, apply, 'fun'], State1),
    {Callee, State3} = rand:uniform_s(Count, State2),
    {{Kind, How, Callee}, State3}.

function_text(Seed, {I, _, Actions, End}) ->
    Name = atom_to_list(name(Seed, I)),
    [Name, "(N) when N =< 0 -> 0;\n", Name, "(N) ->\n",
     [action_text(Seed, Nth, Action) || {Nth, Action} <- lists:zip(lists:seq(1, length(Actions)),
                                                                  Actions)],
     end_text(Seed, length(Actions), End), ".\n"].

action_text(Seed, Nth, {Kind, How, Callee}) ->
    Variable = ["X", integer_to_list(Nth)],
    Call = call_text(Seed, How, Callee),
    ["  ", Variable, " = ", expression_text(Kind, Call, Nth), ",\n  calltree:nothing(", Variable, "),\n"].

expression_text(body, Call, _) ->
    Call;
expression_text('catch', Call, _) ->
    ["(catch ", Call, ")"];
expression_text(try_catch, Call, Nth) ->
    Value = ["V", integer_to_list(Nth)],
    ["try ", Call, " of ", Value, " -> {v, ", Value, "} catch _:_ -> caught end"];
expression_text(try_after, Call, _) ->
    ["try ", Call, " after calltree:nothing(N) end"];
expression_text(foreach, Call, _) ->
    ["lists:foreach(fun(N) -> ", Call, " end, [N, N])"];
expression_text(bif, _, _) ->
    "length(binary_to_list(term_to_binary(N)))";
expression_text(nif, _, _) ->
    "lists:reverse(re:split(<<\"a b\">>, <<\" \">>))";
expression_text(traced_bif, _, _) ->
    "lists:keymember(N, 1, [{1, a}, {2, b}])".

%% The variables of the body live over a value, so that frames differ in size.
end_text(_, Count, {value, _, _}) ->
    ["  {", lists:join(", ", ["X" ++ integer_to_list(I) || I <- lists:seq(1, Count)]), "}"];
end_text(Seed, _, {tail, How, Callee}) ->
    ["  ", call_text(Seed, How, Callee)];
end_text(_, _, {Class, _, _}) ->
    ["  erlang:", atom_to_list(Class), "(thrown)"].

call_text(Seed, local, Callee) ->
    [atom_to_list(name(Seed, Callee)), "(N - 1)"];
call_text(Seed, remote, Callee) ->
    [atom_to_list(module(Seed)), ":", atom_to_list(name(Seed, Callee)), "(N - 1)"];
call_text(Seed, apply, Callee) ->
    ["apply(calltree:nothing(", atom_to_list(module(Seed)), "), ",
     atom_to_list(name(Seed, Callee)), ", [N - 1])"];
call_text(Seed, 'fun', Callee) ->
    ["(calltree:nothing(fun ", atom_to_list(name(Seed, Callee)), "/1))(N - 1)"].

%% @private Keeps the compiler from knowing a value.
-spec nothing(Term) -> Term.
nothing(Term) ->
    Term.

%% ---- running --------------------------------------------------------------------------------

-spec run(pos_integer(), pos_integer()) -> ok.
run(First, Last) ->
    lists:foreach(fun(Seed) ->
                          #{fuel := Fuel} = program(Seed),
                          Name = name(Seed, 1),
                          try apply(module(Seed), Name, [Fuel])
                          catch _:_ -> caught
                          end
                  end, lists:seq(First, Last)).

%% ---- interpreting -----------------------------------------------------------------------------

-record(tree, {next = 1, calls = #{}}).

-spec truth(pos_integer(), pos_integer(), file:name_all()) -> non_neg_integer().
truth(First, Last, File) ->
    #tree{next = Next, calls = Calls} =
        lists:foldl(fun(Seed, Tree0) ->
                            #{functions := Functions, fuel := Fuel} = program(Seed),
                            {_, Tree} = body({Seed, Functions}, 1, Fuel, 0, Tree0),
                            Tree
                    end, #tree{}, lists:seq(First, Last)),
    Lines = [begin
                 {Parent, {M, F, A}, End} = maps:get(Id, Calls),
                 io_lib:format("~b ~b ~s:~s/~b ~s~n", [Id, Parent, M, F, A, End])
             end || Id <- lists:seq(1, Next - 1)],
    ok = file:write_file(File, Lines),
    Next - 1.

open(MFA, Parent, #tree{next = Id, calls = Calls} = Tree) ->
    {Id, Tree#tree{next = Id + 1, calls = Calls#{Id => {Parent, MFA, open}}}}.

close(0, _, Tree) ->
    Tree;
close(Id, End, #tree{calls = Calls} = Tree) ->
    {Parent, MFA, open} = maps:get(Id, Calls),
    Tree#tree{calls = Calls#{Id := {Parent, MFA, End}}}.

%% A call in somebody's body: a new activation below the open call Up. {return | exception, Tree}.
body(Program, Callee, Fuel, Up, Tree0) ->
    {Result, Member, Tree} = enter(Program, Callee, Fuel, Up, 0, Tree0),
    {Result, close(Member, Result, Tree)}.

%% Member: the traced call that this activation stands for so far, 0 none.
enter({Seed, Functions} = Program, Callee, Fuel, Up, Member0, Tree0) ->
    {Callee, Traced, Actions, End} = lists:keyfind(Callee, 1, Functions),
    {Member, Tree1} = case Traced of
                          true -> open({module(Seed), name(Seed, Callee), 1}, Up,
                                       close(Member0, tail, Tree0));
                          false -> {Member0, Tree0}
                      end,
    case Fuel =< 0 of
        true ->
            {return, Member, Tree1};
        false ->
            Inner = case Member of
                        0 -> Up;
                        _ -> Member
                    end,
            case actions(Actions, Program, Fuel, Inner, Tree1) of
                {return, Tree} -> ending(End, Program, Fuel, Up, Member, Tree);
                {exception, Tree} -> {exception, Member, Tree}
            end
    end.

actions([], _, _, _, Tree) ->
    {return, Tree};
actions([Action | Rest], Program, Fuel, Up, Tree0) ->
    case action(Action, Program, Fuel, Up, Tree0) of
        {return, Tree} -> actions(Rest, Program, Fuel, Up, Tree);
        {exception, Tree} -> {exception, Tree}
    end.

action({traced_bif, _, _}, _, _, Up, Tree0) ->
    {Id, Tree} = open(?BIF, Up, Tree0),
    {return, close(Id, return, Tree)};
action({Kind, _, _}, _, _, _, Tree) when Kind =:= bif; Kind =:= nif ->
    {return, Tree};
action({foreach, _, Callee}, Program, Fuel, Up, Tree0) ->
    case body(Program, Callee, Fuel - 1, Up, Tree0) of
        {return, Tree} -> body(Program, Callee, Fuel - 1, Up, Tree);
        Exception -> Exception
    end;
action({Kind, _, Callee}, Program, Fuel, Up, Tree0) ->
    {Result, Tree} = body(Program, Callee, Fuel - 1, Up, Tree0),
    case Kind =:= 'catch' orelse Kind =:= try_catch of
        true -> {return, Tree};
        false -> {Result, Tree}
    end.

ending({value, _, _}, _, _, _, Member, Tree) ->
    {return, Member, Tree};
ending({tail, _, Callee}, Program, Fuel, Up, Member, Tree) ->
    enter(Program, Callee, Fuel - 1, Up, Member, Tree);
ending({_, _, _}, _, _, _, Member, Tree) ->
    {exception, Member, Tree}.
