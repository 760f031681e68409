%% SPDX-License-Identifier: Apache-2.0
%% @doc How recordings end, and that nothing is left and nothing of others is touched then. Each
%% function is a test.
-module(tracer_ends).

-export([asked/0, lease/0, time/0, events/0, controller_killed/0, guard_killed/0,
         both_killed/0, reader_killed/0,
         paused/0, shell/0, busy/0, others/0, new_processes/0, present/0, files/0, memory/0,
         rounds/1, sleepers/0, over_a_door/1]).
-export([work/1]).

-define(END_ASKED, 1).
-define(END_LEASE, 2).
-define(END_TIME, 3).
-define(END_EVENTS, 4).
-define(END_FAILED, 5).
-define(END_SHELL, 6).

%% Everything that can be left behind, with no reader that would renew the lease.
on() ->
    tracer_test:on(#{calls => [{?MODULE, work, 1}, {lists, '_', '_'}], names => true, ports => true,
                     events => [messages, running, gc, procs, ports], reader => false}).

work(N) -> lists:sum(lists:seq(1, N)).

ended(Session, Reason) ->
    ok = tracer_test:gone(),
    #{tracer := 3, reason := Reason} = Result = tracer_test:taken(Session),
    true = maps:get(events, Result) =/= [],
    ok.

set(#{path := Path}, What, Number) ->
    [] = tracer_test:dump(["set", Path, What, integer_to_list(Number)]),
    ok.

-spec asked() -> ok.
asked() ->
    Session = on(),
    _ = ?MODULE:work(10),
    ok = set(Session, "run", 2),
    ended(Session, ?END_ASKED).

-spec lease() -> ok.
lease() ->
    Session = on(),
    _ = ?MODULE:work(10),
    ok = set(Session, "lease_ms", 0),
    ended(Session, ?END_LEASE).

-spec time() -> ok.
time() ->
    Session = on(),
    _ = ?MODULE:work(10),
    ok = set(Session, "stop_ms", 50),
    ended(Session, ?END_TIME).

%% Exactly as many events as there are credits.
-spec events() -> ok.
events() ->
    Path = tracer_test:session(),
    ok = set(#{path => Path}, "credits", 10),
    Session = tracer_test:on(#{path => Path, reader => false, names => false,
                               calls => [{?MODULE, work, 1}],
                               pids => [list_to_binary(pid_to_list(self()))]}),
    _ = [?MODULE:work(1) || _ <- lists:seq(1, 100)],
    ok = tracer_test:gone(),
    #{reason := ?END_EVENTS, events := Events} = tracer_test:taken(Session),
    10 = length(Events),
    ok.

-spec controller_killed() -> ok.
controller_killed() ->
    Session = on(),
    _ = ?MODULE:work(10),
    true = exit(whereis(beamweave_controller), kill),
    ended(Session, ?END_FAILED).

%% The controller finds itself another guard.
-spec guard_killed() -> ok.
guard_killed() ->
    Session = on(),
    _ = ?MODULE:work(10),
    Guards = fun() -> [Pid || Pid <- processes(), {current_function, {beamweave_guard, watch, 3}} <-
                                  [process_info(Pid, current_function)]] end,
    [Guard] = Guards(),
    true = exit(Guard, kill),
    tracer_test:eventually(fun() -> case Guards() of [Other] -> Other =/= Guard; [] -> false end end),
    true = exit(whereis(beamweave_controller), kill),
    ended(Session, ?END_FAILED).

%% By one who suspends both first, so that neither acts before it ends.
-spec both_killed() -> ok.
both_killed() ->
    Session = on(),
    _ = ?MODULE:work(10),
    Controller = whereis(beamweave_controller),
    [Guard] = [Pid || Pid <- processes(), {current_function, {beamweave_guard, watch, 3}} <-
                          [process_info(Pid, current_function)]],
    Both = [Guard, Controller],
    _ = [true = erlang:suspend_process(Pid) || Pid <- Both],
    _ = [true = exit(Pid, kill) || Pid <- Both],
    ended(Session, ?END_FAILED).

%% Nobody renews the lease of a reader that was killed.
-spec reader_killed() -> ok.
reader_killed() ->
    Session = tracer_test:on(#{calls => [{?MODULE, work, 1}], events => [gc]}),
    Pid = reader(maps:get(path, Session)),
    _ = ?MODULE:work(10),
    [] = os:cmd("kill -9 " ++ Pid),
    ended(Session, ?END_LEASE).

reader(Path) ->
    string:trim(os:cmd("pgrep -f 'ring_dump read " ++ Path ++ "$'")).

%% A pause records nothing and takes nothing off.
-spec paused() -> ok.
paused() ->
    Session = tracer_test:on(#{calls => [{?MODULE, work, 1}], names => false,
                               pids => [list_to_binary(pid_to_list(self()))]}),
    _ = ?MODULE:work(1),
    ok = set(Session, "run", 1),
    receive after 300 -> ok end,
    _ = [?MODULE:work(1) || _ <- lists:seq(1, 10)],
    ok = set(Session, "run", 0),
    receive after 300 -> ok end,
    _ = ?MODULE:work(1),
    Result = tracer_test:off(Session),
    2 = tracer_test:count(#{kind => call}, maps:get(events, Result)),
    ok.

%% Without any door: from a shell of the node.
-spec shell() -> ok.
shell() ->
    {ok, Path} = beamweave:start(#{calls => [{?MODULE, work, 1}], names => false}),
    {error, {busy, Busy}} = beamweave:start(#{}),
    Path = binary_to_list(Busy),
    _ = ?MODULE:work(1),
    ok = beamweave:stop(),
    ok = tracer_test:gone(),
    Session = #{path => Path, out => Path ++ ".out", info => #{}},
    #{reason := ?END_SHELL, events := Events} = tracer_test:taken(Session),
    1 = tracer_test:count(#{kind => call, mfa => {?MODULE, work, 1}}, Events),
    [] = filelib:wildcard("/dev/shm/beamweave-" ++ os:getpid() ++ "-*"),
    ok.

-spec busy() -> ok.
busy() ->
    #{path := Path} = Session = on(),
    Other = tracer_test:session(),
    Start = fun() -> beamweave_controller:start(#{session => list_to_binary(Other)}) end,
    Expected = list_to_binary(Path),
    {error, {busy, Expected}} = Start(),
    ok = beamweave:stop(),
    {ok, _, _} = Start(),
    ok = beamweave:stop(),
    ok = file:delete(Other),
    ended(Session, ?END_SHELL).

%% What another tracer has stays as it is, during the recording and after it.
-spec others() -> ok.
others() ->
    Theirs = spawn(fun() -> receive stop -> ok end end),
    Traced = spawn(fun Loop() -> receive stop -> ok; N -> _ = ?MODULE:work(N), Loop() end end),
    MatchSpec = [{[1, '_'], [], [{return_trace}]}],
    _ = erlang:trace(Traced, true, [send, procs, call, {tracer, Theirs}]),
    1 = erlang:trace_pattern({lists, seq, 2}, MatchSpec, [local]),
    1 = erlang:trace_pattern({lists, last, 1}, true, [{meta, Theirs}]),
    1 = erlang:trace_pattern({lists, nth, 2}, true, [call_count]),
    State = fun() ->
                    [lists:sort(element(2, erlang:trace_info(Traced, flags))),
                     erlang:trace_info(Traced, tracer)]
                        ++ [erlang:trace_info({lists, F, A}, Item)
                            || {F, A, Item} <- [{seq, 2, traced}, {seq, 2, match_spec},
                                                {last, 1, meta}, {last, 1, meta_match_spec},
                                                {nth, 2, call_count}]]
            end,
    Before = State(),
    Session = on(),
    Before = State(),
    {traced, local} = erlang:trace_info({lists, sum, 1}, traced),
    Traced ! 3,
    _ = ?MODULE:work(3),
    ok = beamweave:stop(),
    Before = State(),
    {traced, false} = erlang:trace_info({lists, sum, 1}, traced),
    Result = tracer_test:taken(Session),
    [] = tracer_test:of_process(Traced, Result),
    Notes = iolist_to_binary([Text || {7, 0, <<_:64, Text/binary>>} <- maps:get(dict, Result)]),
    {_, _} = binary:match(Notes, list_to_binary(pid_to_list(Theirs))),
    {_, _} = binary:match(Notes, <<"lists:seq/2">>),
    1 = erlang:trace_pattern({lists, seq, 2}, false, [local]),
    1 = erlang:trace_pattern({lists, last, 1}, false, [meta]),
    1 = erlang:trace_pattern({lists, nth, 2}, false, [call_count]),
    _ = [Pid ! stop || Pid <- [Theirs, Traced]],
    tracer_test:gone().

%% The default for new processes stays with whom it belongs to.
-spec new_processes() -> ok.
new_processes() ->
    Theirs = spawn(fun Loop() -> receive stop -> ok; _ -> Loop() end end),
    _ = erlang:trace(new_processes, true, [procs, {tracer, Theirs}]),
    Before = [erlang:trace_info(new_processes, Item) || Item <- [flags, tracer]],
    Session = on(),
    _ = ?MODULE:work(1),
    Before = [erlang:trace_info(new_processes, Item) || Item <- [flags, tracer]],
    ok = beamweave:stop(),
    Before = [erlang:trace_info(new_processes, Item) || Item <- [flags, tracer]],
    _ = erlang:trace(new_processes, false, [all]),
    Theirs ! stop,
    ended(Session, ?END_SHELL).

%% Nothing to record but what another tracer has: refused, with its name.
-spec present() -> ok.
present() ->
    Theirs = spawn(fun() -> receive stop -> ok end end),
    true = register(tracer_of_others, Theirs),
    Traced = spawn(fun() -> receive stop -> ok end end),
    _ = erlang:trace(Traced, true, [send, {tracer, Theirs}]),
    Path = list_to_binary(tracer_test:session()),
    {error, {tracer_present, Who, <<"the processes asked for">>}} =
        beamweave_controller:start(#{session => Path, events => [gc],
                                     pids => [list_to_binary(pid_to_list(Traced))]}),
    {_, _} = binary:match(Who, <<"tracer_of_others">>),
    _ = erlang:trace(new_processes, true, [procs, {tracer, Theirs}]),
    {error, {tracer_present, Who, <<"new processes">>}} =
        beamweave_controller:start(#{session => Path, events => [gc], pids => new}),
    _ = erlang:trace(new_processes, false, [all]),
    ok = file:delete(Path),
    _ = [Pid ! stop || Pid <- [Theirs, Traced]],
    tracer_test:gone().

%% What is no session of this user's, or could be a SIGBUS, is refused.
-spec files() -> ok.
files() ->
    Path = tracer_test:session(),
    Start = fun(File) -> beamweave_controller:start(#{session => list_to_binary(File)}) end,
    [] = os:cmd("chmod 644 " ++ Path),
    {error, {session, eperm}} = Start(Path),
    [] = os:cmd("chmod 600 " ++ Path),
    [] = os:cmd("ln -s " ++ Path ++ " " ++ Path ++ ".link"),
    {error, {session, eloop}} = Start(Path ++ ".link"),
    [] = os:cmd("fallocate --punch-hole --offset 8388608 --length 4096 " ++ Path),
    {error, {session, enodata}} = Start(Path),
    [] = os:cmd("head -c 4096 /dev/zero > " ++ Path),
    {error, {session, einval}} = Start(Path),
    {error, {session, eisdir}} = Start("/dev/shm"),
    _ = [file:delete(File) || File <- [Path, Path ++ ".link"]],
    [] = tracer_test:residue(),
    ok.

%% A session that would take more than a quarter of the memory that is left is not made.
-spec memory() -> ok.
memory() ->
    Allowed = beamweave_memory:allowed(),
    true = Allowed > 0,
    {error, {memory, Needed, _}} = beamweave:start(#{buffer_bytes => 16 bsl 30}),
    true = Needed > 16 bsl 30,
    [] = filelib:wildcard("/dev/shm/beamweave-" ++ os:getpid() ++ "-*"),
    ok.

%% Attaching and leaving again and again while everything is busy, dirty schedulers too.
-spec rounds(pos_integer()) -> ok.
rounds(Count) ->
    Workers = [spawn_link(fun() -> busy_loop(N) end) || N <- lists:seq(1, 6)],
    lists:foreach(fun(_) ->
                          Session = tracer_test:on(#{calls => [{?MODULE, work, 1}], reader => false,
                                                     events => [messages, running, gc, procs, ports]}),
                          receive after 20 -> ok end,
                          ok = beamweave:stop(),
                          #{path := Path} = Session,
                          Last = tracer_test:dump(["take", Path, "| tail -n 1"]),
                          {match, _} = re:run(Last, "^{ended, 3, 6,"),
                          ok = file:delete(Path)
                  end, lists:seq(1, Count)),
    _ = [begin unlink(Worker), exit(Worker, kill) end || Worker <- Workers],
    tracer_test:gone().

busy_loop(N) ->
    _ = ?MODULE:work(10 * N),
    _ = case N rem 3 of
            0 -> file:read_file_info("/", [raw]);
            1 -> spawn(fun() -> ok end);
            2 -> self() ! x, receive x -> ok end
        end,
    busy_loop(N).

%% Many processes that sleep through all of it keep nothing either.
-spec sleepers() -> ok.
sleepers() ->
    Pids = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 5000)],
    Session = tracer_test:on(#{events => [gc], names => false, reader => false}),
    tracer_test:eventually(fun() ->
                                   {tracer, Tracer} = erlang:trace_info(lists:last(Pids), tracer),
                                   Tracer =/= []
                           end),
    ok = beamweave:stop(),
    [] = [Pid || Pid <- Pids, erlang:trace_info(Pid, flags) =/= {flags, []}],
    _ = [Pid ! stop || Pid <- Pids],
    _ = tracer_test:taken(Session),
    tracer_test:gone().

%% Modules that came over a door go again, but for the tracer's; and may come again.
-spec over_a_door(file:filename()) -> ok.
over_a_door(Ebin) ->
    lists:foreach(fun(_) -> visit(Ebin) end, [first, again, and_again]).

visit(Ebin) ->
    Modules = [list_to_atom(filename:basename(File, ".beam"))
               || File <- filelib:wildcard(filename:join(Ebin, "beamweave*.beam"))],
    lists:foreach(fun(Module) ->
                          File = atom_to_list(Module) ++ ".beam",
                          {ok, Beam} = file:read_file(filename:join(Ebin, File)),
                          erlang:module_loaded(Module) orelse load(Module, File, Beam)
                  end, Modules),
    Session = on(),
    _ = ?MODULE:work(10),
    ok = set(Session, "run", 2),
    ok = ended(Session, ?END_ASKED),
    [beamweave_tracer] = [Module || Module <- Modules, erlang:module_loaded(Module)],
    ok.

load(Module, File, Beam) ->
    true = code:soft_purge(Module),
    {module, Module} = code:load_binary(Module, File, Beam).
