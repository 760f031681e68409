%% SPDX-License-Identifier: Apache-2.0
%% @doc How much shared memory a session made by the VM itself may take. Its pages are charged to
%% the memory cgroup of the VM, which is killed when the group is full.
-module(beamweave_memory).

-export([allowed/0]).

-define(SHARE, 4).
-define(READ_BYTES, 65536).

%% @doc A quarter of what the host and every memory cgroup above the VM leave free, in bytes.
-spec allowed() -> non_neg_integer().
allowed() ->
    lists:min([host_free() | lists:append([group_free(Line) || Line <- groups()])]) div ?SHARE.

host_free() ->
    case re:run(read("/proc/meminfo"), "MemAvailable: *([0-9]+) kB", [{capture, [1], binary}]) of
        {match, [Kilobytes]} -> binary_to_integer(Kilobytes) * 1024;
        nomatch -> 0
    end.

groups() ->
    binary:split(read("/proc/self/cgroup"), <<"\n">>, [global, trim_all]).

group_free(Line) ->
    case binary:split(Line, <<":">>, [global]) of
        [<<"0">>, <<>>, Path] ->
            ancestors("/sys/fs/cgroup", Path, "memory.max", "memory.current");
        [_, Controllers, Path] ->
            case lists:member(<<"memory">>, binary:split(Controllers, <<",">>, [global])) of
                true -> ancestors("/sys/fs/cgroup/memory", Path, "memory.limit_in_bytes",
                                  "memory.usage_in_bytes");
                false -> []
            end;
        _ ->
            []
    end.

%% Every group from the VM's up to the root, as far as it can be seen from here. In a container the
%% VM's own group is the root of what is mounted.
ancestors(Root, Path, Limit, Usage) ->
    Parts = binary:split(Path, <<"/">>, [global, trim_all]),
    Directories = [filename:join([Root | lists:sublist(Parts, N)])
                   || N <- lists:seq(0, length(Parts))],
    lists:append([free(number(filename:join(Directory, Limit)),
                       number(filename:join(Directory, Usage))) || Directory <- Directories]).

free(none, _) -> [];
free(_, none) -> [];
free(Limit, Usage) -> [max(0, Limit - Usage)].

number(Path) ->
    try binary_to_integer(string:trim(read(Path)))
    catch
        error:badarg -> none
    end.

%% Not through the file server, which may be busy.
read(Path) ->
    case file:open(Path, [read, raw, binary]) of
        {ok, File} ->
            Result = file:read(File, ?READ_BYTES),
            _ = file:close(File),
            case Result of
                {ok, Data} -> Data;
                _ -> <<>>
            end;
        {error, _} ->
            <<>>
    end.
