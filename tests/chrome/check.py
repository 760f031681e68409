#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check a Trace Event Format export by itself and against the invariants of its recording.

usage: check.py EXPORT SUMS      SUMS: what timeline_sums printed of the recording
Prints one line a difference and exits 1 when there is one, else a summary."""

import collections
import decimal
import json
import sys

PHASES = {"X", "i", "M", "C", "b", "e", "s", "f"}
GROUPS = {"run": "runs", "call": "calls", "gc": "gcs", "stall": "stalls"}


def nanoseconds(value):
    """Durations have the digits that floating point needs: the nearest nanosecond is meant."""
    return round(value * 1000)


def load(path):
    """Times are exact: decimals, not floats."""
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_float=decimal.Decimal)["traceEvents"]


def pairs(items):
    out = collections.defaultdict(lambda: [0, 0])
    for key, amount in items:
        out[key][0] += 1
        out[key][1] += amount
    return dict(out)


def row_names(events):
    """{(pid, tid): the newest name of the row}"""
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events
            if e["ph"] == "M" and e["name"] == "thread_name"}


def measure(events, names):
    by_category = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_category[event["cat"]].append(event)

    def took(event):
        return nanoseconds(event["dur"])

    sums = {group: pairs((e["name"], took(e)) for e in by_category[category])
            for category, group in GROUPS.items()}
    sums["runs"] = pairs((names[e["pid"], e["tid"]].split(" ")[0], took(e))
                         for e in by_category["run"])
    sums["running"] = collections.Counter()
    for event in by_category["state"]:
        if event["name"] == "running":
            sums["running"][event["tid"]] += took(event)
    messages = collections.Counter(e["cat"] for e in events
                                   if e["ph"] == "i" and e["cat"] in ("send", "receive"))
    sums["messages"] = {key: [count, 0] for key, count in messages.items()}
    begin = {e["id"]: nanoseconds(e["ts"]) for e in events if e["ph"] == "s"}
    end = {e["id"]: nanoseconds(e["ts"]) for e in events if e["ph"] == "f"}
    if begin:
        sums["messages"]["flow"] = [len(begin), sum(end.get(i, 0) - begin[i] for i in begin)]
    sums["flows"] = (begin, end)
    sums["waits"] = {phase: {e["id"]: nanoseconds(e["ts"]) for e in events
                             if e["ph"] == phase and e["cat"] == "message"} for phase in "be"}
    sums["mailboxes"] = pairs((e["name"].split(" ")[1], e["args"]["messages"]) for e in events
                              if e["ph"] == "C")
    sums["instants"] = pairs((e["name"], 0) for e in events
                             if e["ph"] == "i" and e["cat"] == "instant" and e["pid"] != 6)
    sums["lost"] = sum(e["args"]["count"] for e in by_category["loss"])
    sums["sockets"] = collections.Counter()
    for event in events:
        if event["ph"] == "b" and event["cat"] == "socket":
            sums["sockets"]["sent"] += event["args"]["sent bytes"]
            sums["sockets"]["received"] += event["args"]["received bytes"]
    return sums


def check_alone(events, names, sums):
    for event in events:
        if event["ph"] not in PHASES:
            yield f"unknown phase: {event}"
        if not isinstance(event["pid"], int) or not isinstance(event["tid"], int):
            yield f"an id that is no number: {event}"
        if event["ph"] == "X" and event["dur"] < 0:
            yield f"ends before it begins: {event}"
        if event["ph"] in "Xi" and (event["pid"], event["tid"]) not in names:
            yield f"a row without a name: {event}"
    begin, end = sums["flows"]
    if begin.keys() != end.keys() or any(end[i] < begin[i] for i in begin):
        yield "flows do not all start and then end"
    if sums["waits"]["b"] != begin or sums["waits"]["e"] != end:
        yield "asynchronous waits are not the flows"
    rows = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = nanoseconds(event["ts"])
            rows[event["pid"], event["tid"]].append((start, -nanoseconds(event["dur"])))
            # As viewers add them up.
            end = float(event["ts"]) + float(event["dur"])
            if end != (start + nanoseconds(event["dur"])) / 1000:
                yield f"an end that floating point misses: {event}"
    for row, slices in rows.items():
        open_ends = []
        for start, minus in sorted(slices):
            end_ns = start - minus
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and end_ns > open_ends[-1]:
                yield f"slices cross on {names[row]} at {start}"
            open_ends.append(end_ns)


def check_against(events, sums, want):
    for group in ("runs", "calls", "gcs", "stalls", "messages", "mailboxes", "instants"):
        have, expected = sums[group], want.get(group, {})
        for key in sorted(have.keys() | expected.keys()):
            if list(have.get(key, [0, 0])) != expected.get(key, [0, 0]):
                yield (f"{group} {key}: export {have.get(key, [0, 0])},"
                       f" recording {expected.get(key, [0, 0])}")
    lost = sum(total for _, total in want.get("losses", {}).values())
    if sums["lost"] != lost:
        yield f"lost: export {sums['lost']}, recording {lost}"
    for key, (_, total) in want.get("sockets", {}).items():
        if sums["sockets"][key] != total:
            yield f"socket bytes {key}: export {sums['sockets'][key]}, recording {total}"
    if not any(key.startswith("kernel") for key in want.get("losses", {})):
        for tid, (_, total) in want.get("running", {}).items():
            if sums["running"][int(tid)] < total:
                yield f"thread {tid} ran {sums['running'][int(tid)]}, recording {total}"
    times = [nanoseconds(e["ts"]) for e in events if e["ph"] == "i"]
    times += [nanoseconds(e["ts"]) for e in events if e["ph"] in "sf"]
    if times and (min(times) < want["first_ns"] or max(times) > want["last_ns"]):
        yield f"moments from {min(times)} to {max(times)} lie outside of the recording"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    events = load(sys.argv[1])
    names = row_names(events)
    sums = measure(events, names)
    differences = list(check_alone(events, names, sums))
    with open(sys.argv[2], encoding="utf-8") as file:
        differences += check_against(events, sums, json.load(file))
    for line in differences[:50]:
        print(line)
    if differences:
        print(f"{len(differences)} differences")
        sys.exit(1)
    print(json.dumps({key: sum(count for count, _ in sums[key].values())
                      for key in ("runs", "calls", "gcs", "messages", "instants", "stalls")}))


if __name__ == "__main__":
    main()
