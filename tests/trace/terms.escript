#!/usr/bin/env escript
%% SPDX-License-Identifier: Apache-2.0
%% terms.escript DIR: 2,000 random terms as External Term Format in DIR/terms, each with its length in
%% front, and as Erlang itself prints them in DIR/printed, a line each.

main([Dir]) ->
    rand:seed(exsss, {1, 2, 3}),
    Terms = fixed() ++ [term(4) || _ <- lists:seq(1, 2000)],
    Encoded = [begin B = term_to_binary(T), <<(byte_size(B)):32, B/binary>> end || T <- Terms],
    ok = file:write_file(filename:join(Dir, "terms"), Encoded),
    Printed = [[io_lib:format("~0tp", [T]), $\n] || T <- Terms],
    ok = file:write_file(filename:join(Dir, "printed"), unicode:characters_to_binary(Printed)).

fixed() ->
    [[], {}, #{}, <<>>, '', 0, 255, 256, -1, 2147483647, -2147483648, 1 bsl 63, -(1 bsl 64),
     (1 bsl 100) + 7, 0.0, -1.5, 0.1, 1.0, 123456.75, "text", "say \"hi\"\n", [0, 1, 2],
     <<"binary">>, <<"a\\b">>, <<1, 2, 3>>, <<5:3>>, <<255, 1:1>>, [a | b], [a, b | c], [[[]]],
     'Upper', 'with space', 'it\'s', '$gen_call', 'end', 'a@b', 'a-b', ok, {ok, [1, {a}]},
     #{a => 1}, fun lists:map/2, {'$gen_cast', {set, <<"k">>, 1}}].

term(0) -> leaf();
term(Depth) ->
    case rand:uniform(8) of
        1 -> list_to_tuple(several(Depth));
        2 -> [ok | several(Depth)];
        3 -> [tail | leaf()];
        4 -> #{leaf() => term(Depth - 1)};
        5 -> {leaf(), term(Depth - 1)};
        _ -> leaf()
    end.

several(Depth) -> [term(Depth - 1) || _ <- lists:seq(1, rand:uniform(4) - 1)].

%% What both sides may print differently is left out: floats with exponents, Latin-1 strings.
leaf() ->
    case rand:uniform(9) of
        1 -> rand:uniform(1000) - 500;
        2 -> rand:uniform(1 bsl 80) - (1 bsl 79);
        3 -> element(rand:uniform(6), {ok, error, 'Hello', 'two words', undefined, 'receive'});
        4 -> list_to_atom(printable(6));
        5 -> printable(8);
        6 -> list_to_binary(printable(8));
        7 -> list_to_binary([rand:uniform(31) + 127 || _ <- lists:seq(1, 3)]);
        8 -> (rand:uniform(200000) - 100000) / 16;
        9 -> [rand:uniform(6) - 1 || _ <- lists:seq(1, 3)]
    end.

printable(Max) -> [rand:uniform(95) + 31 || _ <- lists:seq(1, rand:uniform(Max))].
