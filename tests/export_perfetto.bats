#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The Perfetto export, decoded by protoc and by a decoder of our own (tests/perfetto/), and held against
# recordings of which everything is known, and against the timeline of the same recording.

bats_require_minimum_version 1.5.0

setup_file() {
	export BUILD="${BUILD:-$BATS_TEST_DIRNAME/../build}"
	export HERE="$BATS_TEST_DIRNAME/perfetto"
	export PYTHONDONTWRITEBYTECODE=1
	"$BUILD/tests/make_trace" "$BATS_FILE_TMPDIR/trace.bwt"
	"$BUILD/tests/make_odd" "$BATS_FILE_TMPDIR/odd.bwt"
	for name in trace odd; do
		"$BUILD/beamweave" export "$BATS_FILE_TMPDIR/$name.bwt" --to perfetto \
			-o "$BATS_FILE_TMPDIR/$name.pftrace"
	done
}

# known ASPECT: TRACE_WHAT holds in the export of that recording.
known() {
	python3 "$HERE/known.py" "$BATS_FILE_TMPDIR/${1%%_*}.pftrace" "$1"
}

# The invariants of the export of a recording and of its timeline are the same.
balanced() {
	local sums="$BATS_TEST_TMPDIR/sums.json"
	"$BUILD/tests/timeline_sums" "$1" > "$sums"
	python3 "$HERE/check.py" "$2" "$sums"
}

@test "every field is one of Perfetto's, of its type" {
	for name in trace odd; do
		run --separate-stderr protoc --decode=Trace -I "$HERE" perfetto.proto \
			< "$BATS_FILE_TMPDIR/$name.pftrace"
		[ "$status" = 0 ]
		[ -z "$stderr" ]
		[ "$(grep -c '^packet {' <<< "$output")" -gt 50 ]
		# A field without a name is one that the .proto does not have, or has with another type.
		run ! grep -E '^ *[0-9]+[:  {]' <<< "$output"
	done
}

@test "an export has the invariants of its recording: counts, times, sums, nesting, flows" {
	balanced "$BATS_FILE_TMPDIR/trace.bwt" "$BATS_FILE_TMPDIR/trace.pftrace"
	balanced "$BATS_FILE_TMPDIR/odd.bwt" "$BATS_FILE_TMPDIR/odd.pftrace"
}

@test "the check sees what is wrong with an export" {
	local sums="$BATS_TEST_TMPDIR/sums.json" name
	"$BUILD/tests/timeline_sums" "$BATS_FILE_TMPDIR/trace.bwt" > "$sums"
	for group in runs calls gcs messages mailboxes instants stalls losses events running sockets; do
		jq ".$group |= with_entries(.value[0] += 1 | .value[1] += 1)" "$sums" \
			> "$BATS_TEST_TMPDIR/wrong.json"
		run python3 "$HERE/check.py" "$BATS_FILE_TMPDIR/trace.pftrace" \
			"$BATS_TEST_TMPDIR/wrong.json"
		[ "$status" = 1 ]
	done
	# An export that lacks its last third has slices without an end.
	name="$BATS_FILE_TMPDIR/odd.pftrace"
	python3 - "$name" "$BATS_TEST_TMPDIR/cut.pftrace" <<- 'CUT'
		import sys
		sys.path.insert(0, sys.argv[0] or ".")
		data = open(sys.argv[1], "rb").read()
		at = packets = 0
		while at < len(data) * 2 // 3:
		    size, shift, next_ = 0, 0, at + 1
		    while True:
		        byte = data[next_]
		        size |= (byte & 0x7F) << shift
		        shift, next_ = shift + 7, next_ + 1
		        if not byte & 0x80:
		            break
		    at = next_ + size
		open(sys.argv[2], "wb").write(data[:at])
	CUT
	"$BUILD/tests/timeline_sums" "$BATS_FILE_TMPDIR/odd.bwt" > "$sums"
	run python3 "$HERE/check.py" "$BATS_TEST_TMPDIR/cut.pftrace" "$sums"
	[ "$status" = 1 ]
}

@test "100 calls stand where they were made, the inner ones in the outer ones" {
	known trace_calls
}

@test "a process's stretches are on its track and on its scheduler's thread" {
	known trace_runs
}

@test "50 messages are 50 arrows, each from its sending to its fetching" {
	known trace_messages
	known trace_mailboxes
}

@test "collections have their durations and what they freed" {
	known trace_gcs
}

@test "each CPU has its switches, each thread its name, and the clocks their distance" {
	known trace_kernel
}

@test "a socket has its states, its bytes, its trouble and its owner" {
	known trace_sockets
}

@test "spawn, names and exit are moments on their processes' tracks" {
	known trace_moments
}

@test "lost events are shown where they were lost, by kind" {
	known trace_losses
}

@test "a stop of 50 ms and a hog of 30 ms are stalls on their schedulers' tracks" {
	known trace_stalls
}

@test "calls that begin or end in one nanosecond nest, and tail calls follow each other" {
	known odd_calls
}

@test "a collection that changes schedulers, or never ends, stands in its call" {
	known odd_gcs
	known odd_runs
}

@test "a message that was not fetched, or not seen sent, has no arrow" {
	known odd_messages
}

@test "a CPU whose switches are not all known still has an unbroken chain of them" {
	known odd_kernel
}

@test "a listener, a UDP socket and an address that is used again are three sockets" {
	known odd_sockets
}

@test "system calls have names, also those without one" {
	known odd_syscalls
}

@test "how a recording is cut into chunks does not change its export" {
	for seed in 1 2 3 4 5; do
		"$BUILD/tests/make_trace" "$BATS_TEST_TMPDIR/cut.bwt" "$seed"
		"$BUILD/beamweave" export "$BATS_TEST_TMPDIR/cut.bwt" --to perfetto \
			-o "$BATS_TEST_TMPDIR/cut.pftrace"
		cmp "$BATS_TEST_TMPDIR/cut.pftrace" "$BATS_FILE_TMPDIR/trace.pftrace"
	done
}

@test "an export of a garbled recording is whole in itself: slices nest, arrows have two ends" {
	for seed in {1..25}; do
		for name in trace odd; do
			rm -f "$BATS_TEST_TMPDIR"/garbled.*
			"$BUILD/tests/garble" "$BATS_FILE_TMPDIR/$name.bwt" \
				"$BATS_TEST_TMPDIR/garbled.bwt" "$seed"
			"$BUILD/beamweave" export "$BATS_TEST_TMPDIR/garbled.bwt" --to perfetto \
				-o "$BATS_TEST_TMPDIR/garbled.pftrace" 2> /dev/null
			python3 "$HERE/check.py" "$BATS_TEST_TMPDIR/garbled.pftrace"
		done
	done
}

@test "an export of 600,000 calls streams: its memory is that of a small one" {
	local small large
	"$BUILD/tests/make_odd" "$BATS_TEST_TMPDIR/large.bwt" 600000
	small=$(peak_kb "$BATS_FILE_TMPDIR/odd.bwt" "$BATS_TEST_TMPDIR/small.pftrace")
	large=$(peak_kb "$BATS_TEST_TMPDIR/large.bwt" "$BATS_TEST_TMPDIR/large.pftrace")
	[ "$(stat -c %s "$BATS_TEST_TMPDIR/large.pftrace")" -gt 30000000 ]
	[ "$large" -lt $((small + 16384)) ]
}

# The most memory that an export used, in KiB.
peak_kb() {
	python3 - "$BUILD/beamweave" export "$1" --to perfetto -o "$2" <<- 'RUN'
		import resource
		import subprocess
		import sys
		subprocess.run(sys.argv[1:], check=True)
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
	RUN
}

@test "an export that cannot be written fails" {
	run "$BUILD/beamweave" export "$BATS_FILE_TMPDIR/trace.bwt" --to perfetto -o /dev/full
	[ "$status" = 1 ]
}

@test "the picture of a stretch shows what is in it" {
	local picture="$BATS_TEST_TMPDIR/picture.svg"
	python3 "$HERE/draw.py" "$BATS_FILE_TMPDIR/trace.pftrace" -o "$picture" --from 190 --for 20
	for text in "CPU scheduling" "1_scheduler" "&lt;0.100.0&gt; server" "on scheduler 1" "Running"; do
		grep -qF "$text" "$picture"
	done
	# Ten messages were sent in it.
	[ "$(grep -c 'stroke-opacity' "$picture")" = 10 ]
}
