#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw a stretch of a Perfetto export as Perfetto's viewer shows it, from the export alone.

usage: draw.py EXPORT -o OUT.svg|OUT.png [--from MS] [--for MS] [--around NAME] [--process TEXT]...
               [--processes N] [--threads N] [--skip GROUP]... [--width PX]

--from and --for choose the stretch, in milliseconds from the first clock snapshot; --around the longest
slice of that name with as much before and after it. --process chooses Erlang processes by a part of
their track's name (default: the busiest ones). --skip leaves a group out, "Sockets" for one.
A PNG needs rsvg-convert."""

import argparse
import collections
import colorsys
import html
import os
import subprocess
import sys
import tempfile

import wire

PANEL = 250  # pixels of the tracks' names
ROW, STATE_ROW, CPU_ROW, GAP, HEADER = 18, 14, 26, 6, 28
STATES = {"Running": "#317d31", "R": "#99ba34", "R+": "#99ba34", "S": None, "I": None,
          "D": "#a35b58", "T": "#8a6d9e", "?": "#d7d7d7"}
STATE_NAMES = {"Running": "Running", "R": "Runnable", "R+": "Runnable (Preempted)", "S": "Sleeping",
               "D": "Uninterruptible Sleep", "T": "Stopped", "I": "Idle", "?": "Unknown"}
PALETTE = [(207, 72, 54), (231, 38, 48), (174, 80, 29), (262, 42, 47), (36, 80, 50), (122, 31, 49),
           (340, 65, 52), (199, 78, 48), (16, 25, 38), (291, 51, 42), (88, 40, 53), (14, 80, 57)]


def fnv(text):
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def hsl(hue, saturation, lightness):
    red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness / 100, saturation / 100)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def slice_color(name):
    """By the name without its numbers, as the viewer does."""
    name = "".join(c for c in name if not c.isdigit()).strip()
    return hsl(fnv(name) % 360, 42 + fnv(name + "s") % 14, 40 + fnv(name + "x") % 20)


def task_color(tgid):
    return hsl(*PALETTE[fnv(str(tgid)) % len(PALETTE)])


def text_color(fill):
    red, green, blue = (int(fill[i:i + 2], 16) for i in (1, 3, 5))
    return "#fff" if red * 0.299 + green * 0.587 + blue * 0.114 < 180 else "#111"


def tick(ns, step):
    """A time on the ruler, with as many digits as tell it from its neighbours."""
    unit, size = ("s", 1e9) if ns >= 1e9 and step >= 1e6 else ("ms", 1e6)
    digits = 0
    while digits < 6 and round(step / size, digits) * size != step:
        digits += 1
    return f"+{ns / size:,.{digits}f} {unit}"


def human(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.0f} ns"


def state_of(raw):
    if raw & 0x100:
        return "R+"
    for bit, state in ((0x01, "S"), (0x02, "D"), (0x0C, "T"), (0x80, "I")):
        if raw & bit:
            return state
    return "?" if raw else "R"


def thread_states(trace):
    """tid -> [(start, end or None, state, cpu)]: from switches and wakings, as the trace processor."""
    events = []
    for cpu in trace.ftrace:
        for ts, _, prev, raw, next_tid, _ in trace.switches(cpu):
            events.append((ts, 1, cpu, prev, raw, next_tid))
        for ts, _, kind, body in trace.ftrace[cpu]:
            if kind in (20, 114):
                events.append((ts, 0, cpu, body[2][0], 0, 0))
    now, out = {}, collections.defaultdict(list)

    def enter(tid, ts, state, cpu):
        if tid in now:
            start, old, old_cpu = now[tid]
            out[tid].append((start, ts, old, old_cpu))
        now[tid] = (ts, state, cpu)

    for ts, switch, cpu, tid, raw, next_tid in sorted(events):
        if switch:
            enter(tid, ts, state_of(raw), cpu)
            enter(next_tid, ts, "Running", cpu)
        elif tid not in now or now[tid][1] not in ("Running", "R", "R+"):
            enter(tid, ts, "R", cpu)
    for tid, (start, state, cpu) in now.items():
        out[tid].append((start, None, state, cpu))
    return out


class Picture:
    def __init__(self, start, end, width):
        self.start, self.end, self.width = start, end, width
        self.y = 0
        self.out = []
        self.rows = {}  # track -> y of the middle of its first row

    def x(self, ts):
        ratio = (ts - self.start) / (self.end - self.start)
        return PANEL + min(max(ratio, 0), 1) * (self.width - PANEL)

    def text(self, x, y, text, size=11, color="#3c4043", weight="normal", anchor="start"):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" '
                        f'font-weight="{weight}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def rect(self, x, y, width, height, fill, title=None, extra=""):
        inner = f"<title>{html.escape(title)}</title>" if title else ""
        self.out.append(f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" '
                        f'fill="{fill}"{extra}>{inner}</rect>')

    def slice(self, start, end, y, height, fill, label, title, extra=""):
        left, right = self.x(start), self.x(end)
        width = max(right - left, 0.6)
        self.rect(left, y, max(width - (0.5 if width > 3 else 0), 0.6), height, fill, title, extra)
        fits = int((width - 6) / 5.7)
        if label and fits >= 3:
            shown = label if len(label) <= fits else label[:fits - 1] + "\u2026"
            self.text(left + width / 2, y + height / 2 + 3.5, shown, 10, text_color(fill),
                      anchor="middle")

    def header(self, title):
        self.rect(0, self.y, self.width, HEADER - 4, "#e8eef7")
        self.text(10, self.y + 16, "\u25be  " + title, 12, "#1f3a5f", "bold")
        self.y += HEADER

    def track(self, name, height, indent=0):
        """The name of a row; returns the y of its content."""
        if self.y > 0:
            self.out.append(f'<line x1="0" y1="{self.y - 3:.1f}" x2="{self.width}" '
                            f'y2="{self.y - 3:.1f}" stroke="#eceff3"/>')
        fits = (PANEL - 22 - indent) // 6
        shown = name if len(name) <= fits else name[:fits - 1] + "\u2026"
        self.text(14 + indent, self.y + min(height, ROW) / 2 + 4, shown)
        y = self.y
        self.y += height + GAP
        return y


def thin(items, picture, key=lambda item: (item[0], item[1])):
    """Leave out what falls on a pixel that is taken: (start, end, ...) sorted by start."""
    taken = -1
    for item in sorted(items, key=key):
        start, end = key(item)
        left, right = picture.x(start), picture.x(end)
        if right - left < 0.6:
            if int(left * 2) == taken:
                continue
            taken = int(left * 2)
        yield item


def draw_ruler(picture, zero):
    picture.y += 30
    span = picture.end - picture.start
    step = 10 ** (len(str(int(span // 8))) - 1)
    while span // step > 12:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    at = (picture.start - zero) // step * step + zero
    while at <= picture.end:
        if at >= picture.start:
            x = picture.x(at)
            picture.out.append(f'<line x1="{x:.1f}" y1="22" x2="{x:.1f}" y2="@BOTTOM@" '
                               'stroke="#f0f2f5"/>')
            picture.text(x + 3, 18, tick(at - zero, step), 10, "#5f6368")
        at += step
    picture.out.append(f'<line x1="0" y1="24" x2="{picture.width}" y2="24" stroke="#c5cad3"/>')


def draw_cpus(picture, trace):
    if not trace.ftrace:
        return
    picture.header("CPU scheduling")
    for cpu in sorted(trace.ftrace):
        y = picture.track(f"CPU {cpu}", CPU_ROW)
        slices, on = [], None
        for ts, _, _, _, next_tid, comm in trace.switches(cpu):
            if on:
                slices.append((on[0], ts, *on[1:]))
            on = (ts, next_tid, comm)
        if on:
            slices.append((on[0], picture.end, *on[1:]))
        slices = [s for s in slices if s[2] and s[1] > picture.start and s[0] < picture.end]
        for start, end, tid, comm in thin(slices, picture):
            tgid = trace.threads.get(tid, (tid, ""))[0]
            picture.slice(start, end, y, CPU_ROW - 2, task_color(tgid), f"{comm} [{tid}]",
                          f"{comm} [{tid}] for {human(end - start)}")


def draw_slices(picture, slices, y, style=None):
    """Slices of one track, its depths below each other."""
    for s in thin(slices, picture, key=lambda s: (s.start, s.end)):
        title = f"{s.name} for {human(s.end - s.start)}"
        title += "".join(f"\n{key}: {value}" for key, value in s.notes.items())
        fill = style(s) if style else slice_color(s.name)
        picture.slice(s.start, s.end, y + s.depth * ROW, ROW - 1, fill, s.name, title)


def draw_threads(picture, trace, by_track, busy):
    states = thread_states(trace)
    tracks = {track["tid"]: uuid for uuid, track in trace.tracks.items() if track["tid"]}
    tids = set(tracks) | {tid for tid, (tgid, _) in trace.threads.items()
                          if any(trace.tracks[u]["pid"] == tgid for u in tracks.values())}

    def active(tid):
        return any(state == "Running" and (end or picture.end) > picture.start and
                   start < picture.end for start, end, state, _ in states.get(tid, ()))

    order = sorted((tid for tid in tids if tid in tracks or active(tid)),
                   key=lambda tid: (trace.tracks[tracks[tid]]["rank"] if tid in tracks else 9999,
                                    tid))
    order = [tid for tid in order if tid in tracks and by_track.get(tracks[tid]) or active(tid)]
    if not order:
        return
    pids = {trace.tracks[u]["pid"] for u in tracks.values()} or {trace.threads[order[0]][0]}
    pid = min(pids)
    picture.header(f"{trace.processes.get(pid) or 'beam.smp'} {pid}")
    for tid in order[:busy]:
        slices = by_track.get(tracks.get(tid), [])
        deep = max((s.depth for s in slices), default=-1) + 1
        name = trace.threads.get(tid, (0, f"thread {tid}"))[1]
        y = picture.track(f"{name} {tid}", (STATE_ROW if states.get(tid) else 0) + deep * ROW)
        if states.get(tid):
            shown = [(a, b if b is not None else picture.end, state, cpu)
                     for a, b, state, cpu in states[tid]]
            shown = [s for s in shown if s[1] > picture.start and s[0] < picture.end]
            for start, end, state, cpu in thin(shown, picture):
                if STATES.get(state):
                    label = STATE_NAMES[state]
                    picture.slice(start, end, y, STATE_ROW - 2, STATES[state], label,
                                  f"{label} on CPU {cpu} for {human(end - start)}")
            y += STATE_ROW
        draw_slices(picture, slices, y)


def draw_counter(picture, name, samples, indent):
    """A step curve of (ts, value), with its highest value in the stretch."""
    before = [s for s in samples if s[0] < picture.start][-1:]
    shown = before + [s for s in samples if picture.start <= s[0] <= picture.end]
    top = max((value for _, value in shown), default=0)
    if not top:
        return
    height = 2 * ROW
    y = picture.track(f"{name} (max {top:,})", height, indent)
    points, last = [], None
    for ts, value in shown:
        x = picture.x(ts)
        at = y + height - value / top * height
        if last is not None:
            points.append(f"{x:.1f},{last:.1f}")
        points.append(f"{x:.1f},{at:.1f}")
        last = at
    first, right = points[0].split(",")[0], picture.x(picture.end)
    points = [f"{first},{y + height}"] + points + [f"{right},{last:.1f}", f"{right},{y + height}"]
    picture.out.append(f'<polygon points="{" ".join(points)}" fill="#b7cde8" stroke="#3f6ea5" '
                       'stroke-width="0.8"/>')


def draw_processes(picture, trace, by_track, instants, chosen):
    children = collections.defaultdict(list)
    for uuid, track in trace.tracks.items():
        children[track["parent"]].append(uuid)
    picture.header("Erlang processes")
    for uuid in chosen:
        runs = by_track.get(uuid, [])
        y = picture.track(trace.tracks[uuid]["name"], ROW)
        picture.rows[uuid] = y + ROW / 2
        draw_slices(picture, runs, y, lambda s: "#5a8fc4" if "scheduler" in s.name else "#8aa0b8")
        marks = [(i.ts, i.ts, i) for i in instants.get(uuid, ())]
        for _, _, instant in thin(marks, picture):
            x = picture.x(instant.ts)
            up = {"send": "#d9480f", "receive": "#2b8a3e"}.get(instant.category, "#343a40")
            picture.out.append(f'<path d="M{x:.1f} {y + 2} l4 6 l-4 6 l-4 -6 z" fill="{up}" '
                               f'stroke="#fff" stroke-width="0.7"><title>'
                               f'{html.escape(instant.name)}</title></path>')
        for child in children[uuid]:
            slices = by_track.get(child, [])
            if trace.tracks[child]["counter"]:
                samples = sorted((ts, value) for track, ts, value in trace.counters
                                 if track == child)
                draw_counter(picture, trace.tracks[child]["name"], samples, 14)
            if slices:
                deep = max(s.depth for s in slices) + 1
                y = picture.track(trace.tracks[child]["name"], deep * ROW, 14)
                draw_slices(picture, slices, y,
                            lambda s: "#c92a2a" if s.category == "gc" else slice_color(s.name))


def draw_group(picture, trace, by_track, instants, name):
    group = [u for u, t in trace.tracks.items() if t["name"] == name and not t["parent"]]
    tracks = collections.defaultdict(list)
    for uuid, track in trace.tracks.items():
        if track["parent"] in group and (by_track.get(uuid) or instants.get(uuid)):
            tracks[(track["rank"], track["name"])].append(uuid)
    if not tracks:
        return
    picture.header(name)
    for (_, title), uuids in sorted(tracks.items())[:12]:
        lanes = [u for u in uuids if by_track.get(u)]
        y = picture.track(title, max(len(lanes), 1) * ROW)
        for lane, uuid in enumerate(lanes):
            draw_slices(picture, by_track[uuid], y + lane * ROW)


def draw_flows(picture, trace):
    sent = {flow: i for i in trace.instants for flow in i.flows_out}
    drawn = 0
    for instant in trace.instants:
        for flow in instant.flows_in:
            origin = sent.get(flow)
            if not origin or origin.track not in picture.rows or instant.track not in picture.rows:
                continue
            if origin.ts < picture.start or instant.ts > picture.end or drawn >= 300:
                continue
            drawn += 1
            x1, y1 = picture.x(origin.ts), picture.rows[origin.track]
            x2, y2 = picture.x(instant.ts), picture.rows[instant.track]
            bend = max(abs(x2 - x1) / 2, 18)
            color = hsl(fnv(str(flow)) % 360, 55, 40)
            picture.out.append(
                f'<path d="M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} '
                f'{x2:.1f} {y2:.1f}" fill="none" stroke="{color}" stroke-width="1.2" '
                f'stroke-opacity="0.75"/><circle cx="{x2:.1f}" cy="{y2:.1f}" r="2.2" '
                f'fill="{color}"/>')


def in_window(trace, start, end):
    by_track, instants = collections.defaultdict(list), collections.defaultdict(list)
    for s in trace.slices:
        if s.end >= start and s.start <= end:
            by_track[s.track].append(s)
    for i in trace.instants:
        if start <= i.ts <= end:
            instants[i.track].append(i)
    return by_track, instants


def choose_processes(trace, by_track, instants, wanted, count):
    group = [u for u, t in trace.tracks.items() if t["name"] == "Erlang processes"]
    tracks = [u for u, t in trace.tracks.items() if t["parent"] in group]
    if wanted:
        return [u for want in wanted for u in tracks if want in trace.tracks[u]["name"]]
    children = collections.defaultdict(list)
    for uuid, track in trace.tracks.items():
        children[track["parent"]].append(uuid)

    def score(uuid):
        calls = sum(len(by_track.get(child, ())) for child in children[uuid])
        ran = sum(s.end - s.start for s in by_track.get(uuid, ()))
        return min(calls, 200) + min(2 * len(instants.get(uuid, ())), 200) + ran / 1e6

    best = sorted((u for u in tracks if score(u)), key=score, reverse=True)[:count]
    return sorted(best, key=lambda u: trace.tracks[u]["rank"])


def svg(picture):
    bottom = picture.y + 4
    body = "\n".join(picture.out).replace("@BOTTOM@", f"{bottom:.0f}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width}" height="{bottom:.0f}" '
            f'viewBox="0 0 {picture.width} {bottom:.0f}" '
            'font-family="Roboto, Noto Sans, DejaVu Sans, sans-serif">\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n'
            f'<line x1="{PANEL}" y1="24" x2="{PANEL}" y2="{bottom:.0f}" stroke="#c5cad3"/>\n</svg>\n')


def write(path, drawing):
    if not path.endswith(".png"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(drawing)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".svg", delete=False, encoding="utf-8") as file:
        file.write(drawing)
    try:
        subprocess.run(["rsvg-convert", "-o", path, file.name], check=True)
    finally:
        os.unlink(file.name)


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("export")
    options.add_argument("-o", required=True)
    options.add_argument("--from", dest="from_ms", type=float, default=0)
    options.add_argument("--for", dest="for_ms", type=float)
    options.add_argument("--around")
    options.add_argument("--process", action="append", default=[])
    options.add_argument("--skip", action="append", default=[])
    options.add_argument("--processes", type=int, default=8)
    options.add_argument("--threads", type=int, default=8)
    options.add_argument("--width", type=int, default=1600)
    options = options.parse_args()
    trace = wire.Trace(options.export)
    zero = trace.clocks[0][3]
    start = zero + int(options.from_ms * 1e6)
    end = start + int(options.for_ms * 1e6) if options.for_ms else trace.clocks[-1][3]
    if options.around:
        found = max((s for s in trace.slices if s.name == options.around),
                    key=lambda s: s.end - s.start, default=None)
        if not found:
            sys.exit(f"draw.py: there is no slice '{options.around}'")
        half = int(options.for_ms * 5e5) if options.for_ms else (found.end - found.start) * 3 // 2
        start, end = (found.start + found.end) // 2 - half, (found.start + found.end) // 2 + half
    if end <= start:
        sys.exit("draw.py: the stretch is empty")
    by_track, instants = in_window(trace, start, end)
    picture = Picture(start, end, options.width)
    draw_ruler(picture, zero)
    if "CPU scheduling" not in options.skip:
        draw_cpus(picture, trace)
    draw_threads(picture, trace, by_track, options.threads)
    draw_processes(picture, trace, by_track, instants,
                   choose_processes(trace, by_track, instants, options.process, options.processes))
    for group in ("Stalls", "Sockets", "Lost events"):
        if group not in options.skip:
            draw_group(picture, trace, by_track, instants, group)
    draw_flows(picture, trace)
    write(options.o, svg(picture))


if __name__ == "__main__":
    main()
