#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The Trace Event Format export (chrome://tracing, speedscope), held against recordings of which
# everything is known, and against the timeline of the same recording.

bats_require_minimum_version 1.5.0

setup_file() {
	export BUILD="${BUILD:-$BATS_TEST_DIRNAME/../build}"
	export CHECK="$BATS_TEST_DIRNAME/chrome/check.py"
	export PYTHONDONTWRITEBYTECODE=1
	for name in trace odd; do
		"$BUILD/tests/make_$name" "$BATS_FILE_TMPDIR/$name.bwt"
		"$BUILD/beamweave" export "$BATS_FILE_TMPDIR/$name.bwt" --to chrome \
			-o "$BATS_FILE_TMPDIR/$name.json"
		"$BUILD/tests/timeline_sums" "$BATS_FILE_TMPDIR/$name.bwt" \
			> "$BATS_FILE_TMPDIR/$name.sums"
	done
}

@test "an export is JSON, and has the invariants of its recording: counts, sums, nesting, flows" {
	for name in trace odd; do
		jq -e '.displayTimeUnit == "ns" and (.traceEvents | length > 20)' \
			"$BATS_FILE_TMPDIR/$name.json"
		python3 "$CHECK" "$BATS_FILE_TMPDIR/$name.json" "$BATS_FILE_TMPDIR/$name.sums"
	done
}

@test "the check sees what is wrong with an export" {
	for group in runs calls gcs messages mailboxes instants stalls losses sockets; do
		jq ".$group |= with_entries(.value[0] += 1 | .value[1] += 1)" \
			"$BATS_FILE_TMPDIR/trace.sums" > "$BATS_TEST_TMPDIR/wrong.sums"
		run python3 "$CHECK" "$BATS_FILE_TMPDIR/trace.json" "$BATS_TEST_TMPDIR/wrong.sums"
		[ "$status" = 1 ]
	done
	# Without its flows' ends, and with a slice that reaches over the next one.
	jq -c '.traceEvents |= map(select(.ph != "f"))' "$BATS_FILE_TMPDIR/trace.json" \
		> "$BATS_TEST_TMPDIR/flows.json"
	jq -c '(.traceEvents | map(select(.cat == "run"))[0].ts) as $ts |
		(.traceEvents[] | select(.cat == "run" and .ts == $ts).dur) |= 50000' \
		"$BATS_FILE_TMPDIR/trace.json" > "$BATS_TEST_TMPDIR/cross.json"
	for name in flows cross; do
		run python3 "$CHECK" "$BATS_TEST_TMPDIR/$name.json" "$BATS_FILE_TMPDIR/trace.sums"
		[ "$status" = 1 ]
	done
}

@test "a part of a recording is what lies at least in part in that time" {
	local from until want
	local calls='[.traceEvents[] | select(.cat == "call") |
		{from: (.ts * 1000 | round), to: ((.ts + .dur) * 1000 | round)}]'
	from=$(jq "$calls | map(.from) | sort | .[50]" "$BATS_FILE_TMPDIR/trace.json")
	until=$(jq "$calls | map(.from) | sort | .[60]" "$BATS_FILE_TMPDIR/trace.json")
	"$BUILD/beamweave" export "$BATS_FILE_TMPDIR/trace.bwt" --to chrome \
		-o "$BATS_TEST_TMPDIR/part.json" --from "${from}ns" --until "${until}ns"
	want=$(jq "$calls | map(select(.to >= $from and .from <= $until)) | length" \
		"$BATS_FILE_TMPDIR/trace.json")
	[ "$want" -ge 11 ]
	[ "$(jq "$calls | length" "$BATS_TEST_TMPDIR/part.json")" = "$want" ]
}

@test "an export that cannot be written fails" {
	run "$BUILD/beamweave" export "$BATS_FILE_TMPDIR/trace.bwt" --to chrome -o /dev/full
	[ "$status" = 1 ]
}

@test "names and terms with quotes, control bytes and foreign scripts stay inside their strings" {
	jq -e '[.. | strings | select(test("[\u0000-\u001f\u007f]"))] | length == 0' \
		"$BATS_FILE_TMPDIR/odd.json"
}
