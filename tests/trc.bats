# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # $names inside jq filters are jq's
# Files of OTP's own trace ports: what dbg wrote of a known program is read as a recording of ours is.

bats_require_minimum_version 1.5.0

setup_file()
{
	export BUILD="${BUILD:-$BATS_TEST_DIRNAME/../build}"
	export BEAMWEAVE="$BUILD/beamweave"
	for stamp in none timestamp monotonic_timestamp strict_monotonic_timestamp; do
		traced "$BATS_FILE_TMPDIR/$stamp.trc" none "$stamp"
	done
	traced "$BATS_FILE_TMPDIR/wrap" 40000 monotonic_timestamp
	cd "$BATS_FILE_TMPDIR" || return
}

# traced FILE BYTES TIMESTAMP: in a VM of its own.
traced()
{
	ERL_CRASH_DUMP=/dev/null timeout 60 erl -noshell -pa "$BUILD/tests/ebin" \
		-eval "ok = trc_known:main(\"$1\", $2, $3), halt(0)."
}

setup()
{
	cd "$BATS_FILE_TMPDIR" || return
}

# one SECTION FILTER FILE: what jq finds in a section.
one()
{
	"$BEAMWEAVE" report "$1" "$3" --json --limit 0 | jq -r "$2"
}

@test "every call, message, child and exit of a known program is there, with any sort of timestamps" {
	for stamp in none timestamp monotonic_timestamp strict_monotonic_timestamp; do
		echo "$stamp"
		local file=$stamp.trc calls='.calls[] | select(.mfa == "trc_known:\($f)/1").count'
		for pair in "work 1000" "leaf 1000" "fail 1"; do
			local f=${pair% *}
			[[ $(one calls "\"$f\" as \$f | $calls" "$file") == "${pair#* }" ]]
		done
		[[ $(one calls '.calls[] | select(.mfa == "trc_known:fail/1").exceptions' "$file") == 1 ]]
		# 1,000 pings and the stop; 1,000 pongs
		[[ $(one messages '[.pairs[] | select(.to_name == "trc_known:echo/1").count] | add' "$file") == 1001 ]]
		[[ $(one messages '[.pairs[] | select(.to_name == "trc_runner").count] | max' "$file") == 1000 ]]
		[[ $(one summary '.events.by_kind.send_to_non_existing_process' "$file") == 1 ]]
		[[ $(one processes '[.processes[] | select(.initial_call == "trc_known:child/1" and .exited_ns)] | length' "$file") == 10 ]]
		# their parent is the runner
		[[ $(one processes '(.processes[] | select(.name == "trc_runner").process) as $runner |
			[.processes[] | select(.parent == $runner)] | length' "$file") == 12 ]]
	done
}

@test "times are those of the trace, and where it has none only the order is told" {
	[[ $(one summary .tracer monotonic_timestamp.trc) == trc ]]
	for stamp in timestamp monotonic_timestamp strict_monotonic_timestamp; do
		local ns
		ns=$(one summary .duration_ns $stamp.trc)
		((ns > 1000000 && ns < 60000000000))
	done
	# a microsecond from one to the next
	local events ns
	events=$(one summary .events.recorded none.trc)
	ns=$(one summary .duration_ns none.trc)
	((ns <= events * 1000 && ns >= (events - 2) * 1000))
	"$BEAMWEAVE" report summary none.trc | grep -qi "no times\|order"
}

@test "a wrapped set is read from its oldest file on, whichever member is given" {
	local members=(wrap*.trc)
	[[ ${#members[@]} -ge 3 ]]
	for member in "${members[@]}"; do
		"$BEAMWEAVE" export "$member" --to text >"out.$member"
		cmp "out.${members[0]}" "out.$member"
	done
	# the newest event is the last: the runner's exit
	tail -n 3 "out.${members[0]}" | grep -q "exit"
	# times never go back
	"$BEAMWEAVE" export "${members[0]}" --to jsonl | jq -s '[.[].ts_ns] | . == sort' | grep -qx true
}

@test "a file that ends in the middle of a record is read up to there, and says so" {
	local size
	size=$(stat -c %s monotonic_timestamp.trc)
	head -c $((size - 7)) monotonic_timestamp.trc >cut.trc
	"$BEAMWEAVE" report cut.trc | grep -q "DAMAGED FILE"
	[[ $(one calls '.calls[] | select(.mfa == "trc_known:work/1").count' cut.trc) == 1000 ]]
	# rubbish between two records costs what it covers
	python3 -c '
data = open("monotonic_timestamp.trc", "rb").read()
open("rubbish.trc", "wb").write(data[:20000] + b"\xff" * 333 + data[20000:])'
	run -0 "$BEAMWEAVE" report summary rubbish.trc
	[[ $output == *"DAMAGED FILE"* || $output == *"lost"* ]]
}

@test "what a trace port dropped is a loss, with its number" {
	python3 -c '
import struct
data = open("monotonic_timestamp.trc", "rb").read()
at = 0
for _ in range(1000):
    at += 5 + struct.unpack(">I", data[at + 1:at + 5])[0]
open("dropped.trc", "wb").write(data[:at] + b"\x01" + struct.pack(">I", 4711) + data[at:])'
	[[ $(one loss '[.rings[].intervals[].count] | add' dropped.trc) == 4711 ]]
	[[ $(one calls '.calls[] | select(.mfa == "trc_known:work/1").count' dropped.trc) == 1000 ]]
}

@test "every export takes it" {
	for format in perfetto chrome jsonl text; do
		"$BEAMWEAVE" export monotonic_timestamp.trc --to "$format" -o "out.$format"
		[[ -s out.$format ]]
	done
	[[ $(jq '[.traceEvents[] | select(.cat == "call")] | length' out.chrome) == 2001 ]]
}
