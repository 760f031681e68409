#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold an export of make_trace or make_odd against what their comments say is in it.

usage: known.py EXPORT ASPECT      ASPECT: one of the functions below"""

import sys

import wire

T0 = 1_000_000_000_000
MS, US = 1_000_000, 1_000


def slices(trace, category, unit=MS):
    """[(start, end, depth, name, track path)] of a category, times in `unit` from T0."""
    return sorted(((s.start - T0) / unit, (s.end - T0) / unit, s.depth, s.name,
                   trace.path(s.track)) for s in trace.slices if s.category == category)


def same(have, want):
    if have != want:
        raise AssertionError(f"\nhave {have}\nwant {want}")


def notes(trace, name, at):
    found = [s.notes for s in trace.slices if s.name == name and s.start == at]
    found += [i.notes for i in trace.instants if i.name == name and i.ts == at]
    same(len(found), 1)
    return found[0]


# ---- make_trace ----


def trace_calls(trace):
    path = "Erlang processes / <0.100.0> server / calls and GC"
    calls = slices(trace, "call")
    want = []
    for i in range(50):
        want.append((10 + i, 10 + i + 0.4, 0, "demo:outer/1", path))
        want.append((10 + i + 0.1, 10 + i + 0.3, 1, "demo:inner/2", path))
    same([(round(a, 6), round(b, 6), *rest) for a, b, *rest in calls],
         [(round(a, 6), round(b, 6), *rest) for a, b, *rest in want])
    same(notes(trace, "demo:inner/2", T0 + 10_100_000),
         {"end": "returned", "caller": "demo:outer/1"})


def trace_runs(trace):
    server = "Erlang processes / <0.100.0> server"
    client = "Erlang processes / <0.101.0> holder"
    worker = "Erlang processes / <0.102.0> holder"
    same(slices(trace, "run"), sorted([
        (9, 99, 0, "on scheduler 1", server), (160, 200, 0, "on scheduler 1", server),
        (201, 270, 0, "on scheduler 1", server), (289, 292, 0, "on scheduler 1", server),
        (195, 265, 0, "on scheduler 2", client), (448, 452, 0, "on scheduler 2", client),
        (721, 730, 0, "on scheduler 2", client), (295, 440, 0, "on scheduler 2", worker),
        (899, 900.1, 0, "on scheduler 2", worker)]))
    on_threads = [(name, trace.path(s.track)) for s in trace.slices
                  for name in [s.name.split(" ")[0]] if s.category == "process"]
    same(sorted(set(on_threads)), [("<0.100.0>", "thread 1001"), ("<0.101.0>", "thread 1002"),
                                   ("<0.102.0>", "thread 1002")])


def trace_messages(trace):
    sent = {flow: i for i in trace.instants for flow in i.flows_out}
    received = {flow: i for i in trace.instants for flow in i.flows_in}
    same(len(sent), 50)
    same(sorted(sent), sorted(received))
    order = sorted(sent, key=lambda flow: sent[flow].ts)
    for j, flow in enumerate(order):
        same(sent[flow].ts, T0 + (200 + j) * MS)
        same(received[flow].ts, T0 + (200 + j) * MS + 50_000)
        same(sent[flow].name, "send metric")
        same(received[flow].notes["from"].split(" ")[0], "<0.101.0>")
        same(sent[flow].notes["to"], "<0.100.0> server")
        same(sent[flow].notes["arity"], 2)


def trace_mailboxes(trace):
    # Each message waits alone: 1 when it is sent, 0 when it is fetched.
    same([(trace.path(track).split(" / ")[1], (ts - T0) // 1000, value)
          for track, ts, value in trace.counters if trace.tracks[track]["name"] == "mailbox"],
         [("<0.100.0> server", (200 + j) * 1000 + at, 1 - at // 50) for j in range(50)
          for at in (0, 50)])


def trace_gcs(trace):
    path = "Erlang processes / <0.102.0> holder / calls and GC"
    same(slices(trace, "gc"), [(310, 310.2, 0, "minor GC", path), (320, 320.2, 0, "minor GC", path),
                               (330, 330.2, 0, "minor GC", path), (350, 355, 0, "major GC", path)])
    same(notes(trace, "major GC", T0 + 350 * MS)["reclaimed words"], 100000)


def trace_kernel(trace):
    one = [((ts - T0) / MS, inferred, prev, state, next_) for ts, inferred, prev, state, next_, _
           in trace.switches(0)]
    same(one, [(1, False, 0, 0, 1001), (100, False, 1001, 4, 0), (150, False, 0, 0, 1001),
               (600, False, 1001, 1, 0), (650.02, False, 0, 0, 1001)])
    two = [((ts - T0) / MS, prev, state, next_, comm) for ts, _, prev, state, next_, comm
           in trace.switches(1)]
    same(two[-2:], [(500, 1002, 0, 2000, "hog"), (530, 2000, 1, 1002, "2_scheduler")])
    same(trace.threads[1001], (1000, "1_scheduler"))
    same(trace.threads[2000], (2000, "hog"))
    same(trace.processes[1000], "beam.smp")
    same(trace.release, "6.18.0")
    same(trace.clocks[0], {1: 1796047385 * 1000 * MS, 3: T0, 6: T0 + 5000 * MS})


def trace_sockets(trace):
    path = "Sockets / 127.0.0.1:40000 - 127.0.0.1:8080 <0.100.0> server"
    same(slices(trace, "socket"), [(160.4, 160.5, 0, "SYN_SENT", path),
                                   (160.5, 197, 0, "ESTABLISHED", path),
                                   (197, 198, 0, "FIN_WAIT1", path)])
    counters = [(trace.path(track), (ts - T0) / MS, value) for track, ts, value in trace.counters
                if trace.tracks[track]["name"] != "mailbox"]
    same(counters, [(path + " / sent", 170, 10000), (path + " / sent", 171, 12000),
                    (path + " / sent", 173, 12345), (path + " / received", 180, 100)])
    same([((i.ts - T0) / MS, i.name) for i in trace.instants if i.category == "socket"],
         [(172, "retransmit")])


def trace_moments(trace):
    moments = [((i.ts - T0) / MS, i.name, trace.path(i.track).split(" / ")[1].split(" ")[0])
               for i in trace.instants if i.category == "instant"]
    same(moments, [(290, "spawn", "<0.100.0>"), (290.001, "spawned", "<0.102.0>"),
                   (300, "register", "<0.102.0>"), (400, "unregister", "<0.102.0>"),
                   (450, "register", "<0.101.0>"), (900, "exit", "<0.102.0>")])
    same(notes(trace, "exit", T0 + 900 * MS), {"reason": "normal"})
    same(notes(trace, "spawn", T0 + 290 * MS)["function"], "worker:run/2")


def trace_losses(trace):
    same(slices(trace, "loss"),
         [(700, 720, 0, "42 events lost", "Lost events / scheduler 2")])
    same(notes(trace, "42 events lost", T0 + 700 * MS),
         {"why": "discarded", "count": 42, "call": 37, "send": 5})
    same(trace.lost, 42)


def trace_stalls(trace):
    stalls = slices(trace, "stall")
    for number in (1, 2):
        (start, end), = [(a, b) for a, b, _, name, path in stalls
                         if name == "stopped" and path == f"Stalls / scheduler {number}"]
        same(start, 100.0)
        assert 48 <= end - start <= 52, end
    same([s for s in stalls if s[3] == "preempted"],
         [(500, 530, 0, "preempted", "Stalls / scheduler 2")])
    same(notes(trace, "preempted", T0 + 500 * MS)["by"], "hog")


# ---- make_odd ----

def odd_calls(trace):
    calls = slices(trace, "call", US)
    same({path for *_, path in calls}, {"Erlang processes / <0.200.0> <script>&amp; / calls and GC"})
    same([(a, b, depth) for a, b, depth, _, _ in calls],
         [(100, 110, 2), (100, 120, 1), (100, 130, 0), (200, 200, 0), (300, 310, 0), (310, 310, 0),
          (310, 320, 0), (400, 430, 0), (500, 510, 0)])
    ends = {(s.start - T0) // US: s.notes["end"] for s in trace.slices
            if s.category == "call" and s.start != s.end}
    same(ends, {100: "returned", 300: "tail call", 310: "returned", 400: "returned",
                500: "its process exited"})


def odd_gcs(trace):
    same([s[:4] for s in slices(trace, "gc", US)], [(410, 420, 1, "major GC"),
                                                    (505, 510, 1, "minor GC")])
    same(notes(trace, "minor GC", T0 + 505 * US)["failed"], True)


def odd_runs(trace):
    same([s[:4] for s in slices(trace, "run", US)], [
        (90, 412, 0, "on scheduler 1"), (415, 422, 0, "on dirty CPU scheduler"),
        (425, 511, 0, "on scheduler 1"), (610, 640, 0, "on scheduler 1"),
        (620, 630, 0, "on scheduler 1")])
    same([s for s in slices(trace, "process", US) if s[0] >= 600],
         [(610, 640, 0, "<0.201.0>", "thread 1001"), (620, 630, 1, "#Port<0.9>", "thread 1001")])
    same([s[4] for s in slices(trace, "run", US)][-1], "Erlang ports / #Port<0.9>")


def odd_messages(trace):
    messages = [((i.ts - T0) / US, i.name, len(i.flows_out) + len(i.flows_in))
                for i in trace.instants if i.category in ("send", "receive")]
    same(messages, [(600, "send integer", 0), (601, "send tuple/4", 0), (602, "receive term", 0)])
    same(notes(trace, "send integer", T0 + 600 * US)["to name"], "nobody")
    same(notes(trace, "send integer", T0 + 600 * US)["no such process"], True)


def odd_kernel(trace):
    want = [(700, False, 0, 1001), (710, False, 1001, 3000), (720, True, 3000, 3001),
            (720, False, 3001, 1001), (730, False, 1001, 0), (735, True, 0, 3001),
            (740, False, 3001, 1001), (760, False, 1001, 1003), (771, False, 1003, 1001)]
    same([((ts - T0) / US, inferred, prev, next_) for ts, inferred, prev, _, next_, _
          in trace.switches(0)], want)
    same([((ts - T0) / US, inferred, prev, next_) for ts, inferred, prev, _, next_, _
          in trace.switches(3)], [(780, False, 0, 1002), (785, True, 1002, 3000),
                                  (795, False, 3000, 1002), (798, False, 1002, 0),
                                  (820, True, 0, 1002), (830, False, 1002, 0)])
    same(trace.lost_cpus, {3})
    kinds = [kind for _, _, kind, _ in sorted(trace.ftrace[0], key=lambda event: event[0])]
    same([kind for kind in kinds if kind in (235, 238, 240)], [235, 238, 240])
    same({len(comm) for *_, comm in trace.switches(0)}, {15})


def odd_sockets(trace):
    same([(a, b, name, path) for a, b, _, name, path in slices(trace, "socket", US)],
         [(0, 820, "ESTABLISHED", "Sockets / 0.0.0.0:5000 - 0.0.0.0:6000"),
          (820, 2000000, "CLOSE_WAIT", "Sockets / 0.0.0.0:5000 - 0.0.0.0:6000")])
    same(sorted((trace.path(track), value) for track, _, value in trace.counters
                if trace.tracks[track]["name"] != "mailbox"),
         [("Sockets / 0.0.0.0:53 / received", 200), ("Sockets / 0.0.0.0:53 / sent", 100),
          ("Sockets / [::]:443 / accept queue", 3)])


def odd_syscalls(trace):
    same([s[:4] for s in slices(trace, "syscall", US)],
         [(900, 905, 0, "read"), (906, 907, 0, "system call 9999")])
    same(notes(trace, "read", T0 + 900 * US), {"result": 5, "first argument": 3})


def main():
    aspects = {name: function for name, function in globals().items()
               if name.startswith(("trace_", "odd_"))}
    if len(sys.argv) != 3 or sys.argv[2] not in aspects:
        sys.exit(f"{__doc__}\n{' '.join(aspects)}")
    aspects[sys.argv[2]](wire.Trace(sys.argv[1]))


if __name__ == "__main__":
    main()
