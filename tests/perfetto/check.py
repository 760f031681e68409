#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check a Perfetto export by itself and against the invariants of its recording.

usage: check.py EXPORT [SUMS]      SUMS: what timeline_sums printed of the recording
Prints one line a difference and exits 1 when there is one, else a summary."""

import collections
import json
import sys

import wire

KINDS = {"sched_switch": 4, "sched_waking": 20, "sched_wakeup_new": 114, "task_fork": 235,
         "task_exec": 236, "task_exit": 238, "sched_migrate": 491}


def pairs(items):
    """{key: [count, sum]} of (key, amount)."""
    out = collections.defaultdict(lambda: [0, 0])
    for key, amount in items:
        out[key][0] += 1
        out[key][1] += amount
    return dict(out)


def label(trace, uuid):
    """The process of a track: "<0.1.0>" of "<0.1.0> name"."""
    return trace.tracks[uuid]["name"].split(" ")[0]


def running(trace):
    """{tid: ns between a switch to it and the next switch of that CPU}, threads of the VM only."""
    out = collections.Counter()
    for cpu in trace.ftrace:
        on = None
        for ts, _, prev, _, next_tid, _ in trace.switches(cpu):
            if on and on[0] == prev:
                out[prev] += ts - on[1]
            on = (next_tid, ts)
    return out


def measure(trace):
    """The export's invariants, named as timeline_sums names the recording's."""
    by_category = collections.defaultdict(list)
    for slice_ in trace.slices:
        by_category[slice_.category].append(slice_)
    sums = {
        "runs": pairs((label(trace, s.track), s.end - s.start) for s in by_category["run"]),
        "calls": pairs((s.name, s.end - s.start) for s in by_category["call"]),
        "gcs": pairs((s.name, s.end - s.start) for s in by_category["gc"]),
        "stalls": pairs((s.name, s.end - s.start) for s in by_category["stall"]),
        "losses": collections.Counter(),
        "instants": pairs((i.name, 0) for i in trace.instants if i.category == "instant"),
    }
    sent, received = {}, {}
    messages = collections.Counter()
    for instant in trace.instants:
        if instant.category in ("send", "receive"):
            messages[instant.category] += 1
        for flow in instant.flows_out:
            sent[flow] = instant.ts
        for flow in instant.flows_in:
            received[flow] = instant.ts
    sums["messages"] = {key: [count, 0] for key, count in messages.items()}
    if sent:
        sums["messages"]["flow"] = [len(sent), sum(received.get(f, 0) - sent[f] for f in sent)]
    sums["flows"] = (sent, received)
    sums["lost"] = sum(s.notes["count"] for s in by_category["loss"])
    sums["events"] = collections.Counter(
        kind for events in trace.ftrace.values() for _, inferred, kind, _ in events
        if not inferred)
    sums["running"] = running(trace)
    last = {}
    for track, ts, value in trace.counters:
        last[track] = max(last.get(track, (0, 0)), (ts, value))
    sums["sockets"] = collections.Counter()
    sums["mailboxes"] = pairs((label(trace, trace.tracks[track]["parent"]), value)
                              for track, _, value in trace.counters
                              if trace.tracks[track]["name"] == "mailbox")
    for track, (_, value) in last.items():
        sums["sockets"][trace.tracks[track]["name"]] += value
    return sums


def check_alone(trace, sums):
    """What must hold of any export."""
    yield from trace.problems
    if len(trace.clocks) < 2:
        yield "fewer than two clock snapshots"
    if not trace.release:
        yield "no kernel release: thread states cannot be decoded"
    sent, received = sums["flows"]
    for flow in sent.keys() ^ received.keys():
        yield f"flow {flow} does not both start and end"
    for flow in sent.keys() & received.keys():
        if sent[flow] > received[flow]:
            yield f"flow {flow} ends before it starts"
    for uuid, track in trace.tracks.items():
        if track["parent"] and track["parent"] not in trace.tracks:
            yield f"the parent of {trace.path(uuid)} is not described"
    for s in trace.slices:
        if s.category == "run" and s.depth:
            yield f"two stretches of one process overlap on {trace.path(s.track)} at {s.start}"
        if s.end < s.start:
            yield f"a slice ends before it begins: {s}"
    for cpu in trace.ftrace:
        on = None
        for ts, _, prev, _, next_tid, _ in trace.switches(cpu):
            if on is not None and on != prev:
                yield f"CPU {cpu}: {prev} leaves at {ts}, but {on} came on"
            on = next_tid
    if trace.lost_cpus and not trace.lost:
        yield "a bundle lost events, and the statistics say none"


def check_against(trace, sums, want):
    """Against timeline_sums of the same recording."""
    for group in ("runs", "calls", "gcs", "messages", "mailboxes", "instants", "stalls"):
        have, expected = sums[group], want.get(group, {})
        for key in sorted(have.keys() | expected.keys()):
            if list(have.get(key, [0, 0])) != expected.get(key, [0, 0]):
                yield (f"{group} {key}: export {have.get(key, [0, 0])},"
                       f" recording {expected.get(key, [0, 0])}")
    lost = sum(total for _, total in want.get("losses", {}).values())
    if not sums["lost"] == lost == trace.lost:
        yield f"lost: slices {sums['lost']}, statistics {trace.lost}, recording {lost}"
    for name, kind in KINDS.items():
        expected = want["events"].get(name, [0, 0])[0]
        if sums["events"][kind] != expected:
            yield f"{name}: export {sums['events'][kind]}, recording {expected}"
    kernel_lost = any(key.startswith("kernel") for key in want.get("losses", {}))
    for tid, (_, total) in want.get("running", {}).items():
        if not kernel_lost and sums["running"][int(tid)] != total:
            yield f"thread {tid} running: export {sums['running'][int(tid)]}, recording {total}"
    for key, (_, total) in want.get("sockets", {}).items():
        if sums["sockets"][key] != total:
            yield f"socket bytes {key}: export {sums['sockets'][key]}, recording {total}"
    if sum(count for count, _ in sums["calls"].values()) != want["events"].get("call", [0])[0]:
        yield "the number of call slices is not the number of call events"
    times = [s.start for s in trace.slices] + [i.ts for i in trace.instants]
    times += [ts for events in trace.ftrace.values() for ts, _, _, _ in events]
    ends = [s.end for s in trace.slices] + times
    if times and min(times) < min(want["first_ns"], trace.clocks[0][3]):
        yield f"something begins at {min(times)}, before the recording"
    if ends and max(ends) > max(want["last_ns"], trace.clocks[-1][3]):
        yield f"something ends at {max(ends)}, after the recording"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    trace = wire.Trace(sys.argv[1])
    sums = measure(trace)
    differences = list(check_alone(trace, sums))
    if len(sys.argv) == 3:
        with open(sys.argv[2], encoding="utf-8") as file:
            differences += check_against(trace, sums, json.load(file))
    for line in differences[:50]:
        print(line)
    if differences:
        print(f"{len(differences)} differences")
        sys.exit(1)
    counts = {key: sum(count for count, _ in sums[key].values())
              for key in ("runs", "calls", "gcs", "messages", "instants", "stalls")}
    counts["switches"] = sums["events"][4]
    counts["lost"] = sums["lost"]
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
