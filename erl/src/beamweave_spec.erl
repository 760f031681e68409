%% SPDX-License-Identifier: Apache-2.0
%% @doc From call specs to functions that are there.
-module(beamweave_spec).

-export([resolve/1, mfa_text/1, pid_of/1]).
-export_type([spec/0, group/0, error/0]).

-type spec() :: {module() | '_', atom() | '_', arity() | '_'}.
-type group() :: {module(), whole | part, [{atom(), arity()}]}.
%% The functions of one module; whole: all that it has.
-type error() :: {no_match, binary(), [binary()]} | {module_not_found, Module :: binary(), [binary()]}.

-define(NEAR, 3).
-define(NEAR_CANDIDATES, 20000).

%% @doc The functions that specs name, by module. Modules are loaded; a spec that names nothing is
%% an error with near misses. A whole node (module `_') is refused: it would stop it.
-spec resolve([spec()]) -> {ok, [group()]} | {error, error()}.
resolve(Specs) ->
    resolve(Specs, #{}).

resolve([], Found) ->
    {ok, [group(Module, ordsets:from_list(Functions))
          || {Module, Functions} <- lists:sort(maps:to_list(Found))]};
resolve([{'_', _, _} = Spec | _], _) ->
    {error, {no_match, spec_text(Spec), []}};
resolve([{Module, Function, Arity} = Spec | Rest], Found) ->
    case functions(Module) of
        {ok, All} ->
            case [FA || {F, A} = FA <- All, matches(Function, F), matches(Arity, A)] of
                [] ->
                    {error, {no_match, spec_text(Spec), near_functions(Module, Function, All)}};
                Some ->
                    resolve(Rest, Found#{Module => Some ++ maps:get(Module, Found, [])})
            end;
        error ->
            {error, {module_not_found, module_text(Module), near_modules(Module)}}
    end.

functions(Module) ->
    case code:ensure_loaded(Module) of
        {module, Module} -> {ok, Module:module_info(functions)};
        {error, _} -> error
    end.

group(Module, Functions) ->
    case ordsets:from_list(Module:module_info(functions)) of
        Functions -> {Module, whole, Functions};
        _ -> {Module, part, Functions}
    end.

matches('_', _) -> true;
matches(Same, Same) -> true;
matches(_, _) -> false.

spec_text({Module, '_', _}) ->
    module_text(Module);
spec_text({Module, Function, '_'}) ->
    {Prefix, Separator} = prefix(Module),
    <<Prefix/binary, Separator/binary, (atom_to_binary(Function))/binary>>;
spec_text(MFA) ->
    mfa_text(MFA).

module_text(Module) ->
    {Text, _} = prefix(Module),
    Text.

prefix(Module) ->
    case atom_to_binary(Module) of
        <<"Elixir.", Name/binary>> -> {Name, <<".">>};
        Name -> {Name, <<":">>}
    end.

%% @doc `mod:fun/1', of an Elixir module `Mod.fun/1'.
-spec mfa_text(mfa()) -> binary().
mfa_text({Module, Function, Arity}) ->
    {Prefix, Separator} = prefix(Module),
    <<Prefix/binary, Separator/binary, (atom_to_binary(Function))/binary, "/",
      (integer_to_binary(Arity))/binary>>.

near_functions(Module, Function, All) ->
    Wanted = case Function of
                 '_' -> "";
                 _ -> atom_to_list(Function)
             end,
    Names = lists:usort([atom_to_list(F) || {F, _} <- All, hd_char(F) =/= $-]),
    Near = near(Wanted, Names),
    [mfa_text({Module, F, A}) || Name <- Near, {F, A} <- lists:sort(All), atom_to_list(F) =:= Name].

hd_char(Atom) ->
    case atom_to_list(Atom) of
        [Char | _] -> Char;
        [] -> 0
    end.

near_modules(Module) ->
    Available = [Name || {Name, _, _} <- code:all_available()],
    Loaded = [atom_to_list(M) || {M, _} <- code:all_loaded()],
    Names = lists:usort(Available ++ Loaded),
    [module_text(list_to_atom(Name)) || Name <- near(atom_to_list(Module), Names)].

%% The nearest of many names, those only that a slip of the hand would explain.
near(Wanted, Names) ->
    Limit = slips(length(Wanted)),
    Scored = [{Distance, Name} || Name <- lists:sublist(Names, ?NEAR_CANDIDATES),
                                  abs(length(Name) - length(Wanted)) =< Limit
                                      orelse contains(Name, Wanted),
                                  Distance <- [score(Wanted, Name, Limit)],
                                  Distance =< Limit],
    [Name || {_, Name} <- lists:sublist(lists:sort(Scored), ?NEAR)].

%% Of a name of two letters two others would make any other.
slips(Length) when Length < 3 -> 1;
slips(Length) -> max(2, Length div 3).

contains(Name, Wanted) ->
    length(Wanted) >= 3 andalso string:find(Name, Wanted) =/= nomatch.

%% A part of a name comes behind what differs by a letter.
score(Wanted, Name, Limit) ->
    Distance = distance(string:lowercase(Wanted), string:lowercase(Name)),
    case contains(Name, Wanted) of
        true -> min(Distance, Limit);
        false -> Distance
    end.

%% Levenshtein's, one row at a time.
distance(From, To) ->
    First = lists:seq(0, length(To)),
    lists:last(lists:foldl(fun(Char, [Left | _] = Row) -> row(Char, To, Row, [Left + 1]) end,
                           First, From)).

row(_, [], _, Done) ->
    lists:reverse(Done);
row(Char, [Other | To], [Diagonal, Above | Row], [Left | _] = Done) ->
    Cost = case Char of
               Other -> Diagonal;
               _ -> 1 + min(Diagonal, min(Above, Left))
           end,
    row(Char, To, [Above | Row], [Cost | Done]).

%% @doc A process by its printed pid or its registered name.
-spec pid_of(binary()) -> {ok, pid()} | error.
pid_of(<<"<", _/binary>> = Text) ->
    try list_to_pid(binary_to_list(Text)) of
        Pid when node(Pid) =:= node() ->
            case is_process_alive(Pid) of
                true -> {ok, Pid};
                false -> error
            end;
        _ ->
            error
    catch
        error:badarg -> error
    end;
pid_of(Name) ->
    try whereis(binary_to_existing_atom(Name)) of
        Pid when is_pid(Pid) -> {ok, Pid};
        _ -> error
    catch
        error:badarg -> error
    end.
