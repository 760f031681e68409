# SPDX-License-Identifier: Apache-2.0
"""Read a Perfetto trace as beamweave exports it: an own decoder of the wire format, written after
Perfetto's published field numbers and not after the exporter."""

import collections

Slice = collections.namedtuple(
    "Slice", "track start end category name notes depth flows_out flows_in open")
Instant = collections.namedtuple(
    "Instant", "track ts category name notes flows_out flows_in depth")

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Broken(Exception):
    """The file is not what a reader of Perfetto traces expects."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise Broken("a varint of more than ten bytes")


def fields(data):
    """Yield (number, value): int for varints and fixed64, bytes for length-delimited fields."""
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise Broken(f"wire type {wire}")
        if at > end:
            raise Broken("a field longer than its message")
        yield number, value


def message(data):
    """A message as {number: [values]}."""
    out = collections.defaultdict(list)
    for number, value in fields(data):
        out[number].append(value)
    return out


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def text(value):
    return value.decode("utf-8")  # strict: an export has no other


class Trace:
    """tracks: uuid -> dict; slices, instants, counters, ftrace: lists; stats of what was odd."""

    def __init__(self, path):
        self.tracks = {}
        self.slices, self.instants, self.counters = [], [], []
        self.ftrace = collections.defaultdict(list)  # cpu -> [(ts, inferred?, kind, dict)]
        self.lost_cpus = set()
        self.threads, self.processes = {}, {}  # tid -> (tgid, name); pid -> name
        self.clocks = []
        self.release = None
        self.lost = 0
        self.problems = []
        self._interned = {}
        self._clock = {}
        self._events = []
        with open(path, "rb") as file:
            data = memoryview(file.read())
        for number, value in fields(data):
            if number != 1:
                raise Broken(f"field {number} beside the packets")
            self._packet(value)
        self._nest()

    # ---- packets ----

    def _packet(self, data):
        packet = message(bytes(data))
        sequence = packet[10][0] if 10 in packet else 0
        flags = packet[13][0] if 13 in packet else 0
        if flags & 1:
            self._interned[sequence] = (dict(), dict(), dict())
        if 59 in packet:
            self._clock[sequence] = message(packet[59][0])[58][0]
        if flags & 2 and sequence not in self._interned:
            self.problems.append(f"sequence {sequence} needs a state that was never begun")
        if 12 in packet:
            for kind, entries in message(packet[12][0]).items():
                for entry in entries:
                    entry = message(entry)
                    self._interned[sequence][kind - 1][entry[1][0]] = text(entry[2][0])
        if 6 in packet:
            self._snapshot(message(packet[6][0]))
        if 45 in packet:
            release = message(message(packet[45][0])[1][0])[3]
            self.release = text(release[0]) if release else None
        if 35 in packet:
            for stats in message(packet[35][0])[1]:
                self.lost += message(stats)[19][0]
        if 2 in packet:
            self._tree(message(packet[2][0]))
        if 60 in packet:
            self._descriptor(message(packet[60][0]))
        if 1 in packet:
            self._bundle(message(packet[1][0]))
        if 11 in packet:
            if self._clock.get(sequence) != 3:
                self.problems.append(f"sequence {sequence} has not said its clock")
            self._track_event(packet[8][0], sequence, message(packet[11][0]))

    def _snapshot(self, snapshot):
        clocks = {}
        for clock in snapshot[1]:
            clock = message(clock)
            clocks[clock[1][0]] = clock[2][0]
        if snapshot[2] != [3]:
            self.problems.append("a clock snapshot without the primary clock MONOTONIC")
        self.clocks.append(clocks)

    def _tree(self, tree):
        for process in tree[1]:
            process = message(process)
            name = text(process[3][0]) if process[3] else None
            self.processes.setdefault(process[1][0], name)
        for thread in tree[2]:
            thread = message(thread)
            self.threads[thread[1][0]] = (thread[3][0], text(thread[2][0]))

    def _descriptor(self, track):
        uuid = track[1][0]
        known = self.tracks.setdefault(uuid, {"name": None, "tid": None, "pid": None})
        if 2 in track:
            known["name"] = text(track[2][0])
        if 14 in track:
            known["description"] = text(track[14][0])
        known["parent"] = track[5][0] if 5 in track else 0
        known["counter"] = 8 in track
        known["rank"] = signed(track[12][0]) if 12 in track else 0
        known["merge"] = track[15][0] if 15 in track else 0
        if 4 in track:
            thread = message(track[4][0])
            known["pid"], known["tid"] = thread[1][0], thread[2][0]
            if thread[5]:
                known["name"] = text(thread[5][0])

    def _bundle(self, bundle):
        cpu = bundle[1][0]
        offset = self.clocks[0][6] - self.clocks[0][3]
        if bundle[3]:
            self.lost_cpus.add(cpu)
        for event in bundle[2]:
            event = message(event)
            ts = event.pop(1)[0] - offset
            if 2 not in event:
                self.problems.append("an ftrace event without a pid: the viewer drops it")
            event.pop(2, None)
            common_flags = event.pop(5, None)
            (kind, body), = event.items()
            body = message(body[0])
            if kind in (20, 114) and not common_flags:
                self.problems.append("a waking without common_flags")
            inferred = kind == 4 and common_flags is not None
            self.ftrace[cpu].append((ts, inferred, kind, body))

    def _track_event(self, ts, sequence, event):
        categories, names, keys = self._interned[sequence]
        notes = {}
        for note in event[4]:
            note = message(note)
            key = keys[note[1][0]]
            if note[6]:
                notes[key] = text(note[6][0])
            elif note[4]:
                notes[key] = signed(note[4][0])
            elif note[2]:
                notes[key] = bool(note[2][0])
            else:
                notes[key] = note[3][0]
        track = event[11][0]
        if track not in self.tracks:
            self.problems.append(f"an event on track {track}, which is not described before it")
        self._events.append((
            ts, len(self._events), event[9][0], track,
            categories[event[3][0]] if event[3] else None,
            names[event[10][0]] if event[10] else None,
            notes, event[47], event[48], signed(event[30][0]) if event[30] else None))

    # ---- slices ----

    def _nest(self):
        stacks = collections.defaultdict(list)
        for ts, _, kind, track, category, name, notes, out, into, value in sorted(self._events):
            stack = stacks[track]
            if kind == BEGIN:
                stack.append([ts, category, name, notes, out, into])
            elif kind == END:
                if not stack:
                    self.problems.append(f"an end without a beginning on {self.path(track)}")
                    continue
                start, category, name, begun, begun_out, begun_into = stack.pop()
                self.slices.append(Slice(track, start, ts, category, name, {**begun, **notes},
                                         len(stack), begun_out + out, begun_into + into, False))
            elif kind == INSTANT:
                self.instants.append(Instant(track, ts, category, name, notes, out, into,
                                             len(stack)))
            elif kind == COUNTER:
                self.counters.append((track, ts, value))
        for track, stack in stacks.items():
            if stack:
                self.problems.append(f"{len(stack)} slices without an end on {self.path(track)}")
        del self._events

    def path(self, uuid):
        names = []
        while uuid and uuid in self.tracks:
            track = self.tracks[uuid]
            names.insert(0, track["name"] or f"thread {track['tid']}")
            uuid = track["parent"]
        return " / ".join(names)

    def switches(self, cpu):
        """[(ts, inferred?, prev tid, prev state, next tid, next comm)] in time order."""
        out = []
        for ts, inferred, kind, body in sorted(self.ftrace[cpu], key=lambda event: event[0]):
            if kind == 4:
                out.append((ts, inferred, body[2][0], body[4][0], body[6][0],
                            text(body[5][0])))
        return out
