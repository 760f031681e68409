#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Reading recordings and their exports as lines: a recording with known truths (tests/trace/make_trace.c),
# whole, cut and damaged, and terms against Erlang's own printing.

# shellcheck disable=SC2016 # variables of jq and of another shell
bats_require_minimum_version 1.5.0

setup_file() {
	export BUILD="${BUILD:-$BATS_TEST_DIRNAME/../build}"
	export HERE="$BATS_TEST_DIRNAME/trace"
	export BEAMWEAVE="$BUILD/beamweave"
	export TZ=UTC
	"$BUILD/tests/make_trace" "$BATS_FILE_TMPDIR/known.bwt"
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	known="$BATS_FILE_TMPDIR/known.bwt"
}

@test "the known recording has what was put in, however it is cut into chunks" {
	for seed in 0 1 2 3 4 5 6 7 8 9; do
		"$BUILD/tests/make_trace" cut.bwt "$seed"
		run "$BUILD/tests/invariants" cut.bwt
		[ "$status" = 0 ]
		jq -e '.first_ns == 1000000500000 and .last_ns == 1000900100000
			and .gc_ns == 5600000 and .run_ns == 430000000
			and .sent_bytes == 12345 and .received_bytes == 100
			and .lost == {discarded: 42, overwritten: 0, damaged: 0}
			and .own == 2 and .accounts
			and .kinds.call == 100 and .kinds.return_to == 100
			and .kinds.send == 50 and .kinds.receive == 50
			and .kinds.gc_minor_end == 3 and .kinds.gc_major_end == 1' <<< "$output"
	done
}

@test "JSON lines say the same as the recording" {
	"$BUILD/tests/invariants" "$known" | jq -S 'del(.accounts, .own)' > recording.json
	"$BEAMWEAVE" export "$known" --to jsonl > lines.jsonl
	jq -sS -f "$HERE/invariants.jq" lines.jsonl > lines.json
	diff recording.json lines.json
}

@test "text lines are as many and in the same order as JSON lines" {
	"$BEAMWEAVE" export "$known" --to jsonl -o lines.jsonl
	"$BEAMWEAVE" export "$known" --to text -o lines.txt
	[ "$(wc -l < lines.txt)" = "$(wc -l < lines.jsonl)" ]
	[ "$(grep -c ' call demo:' lines.txt)" = 100 ]
	[ "$(grep -c ' send to <0.100.0> server: {metric,_}$' lines.txt)" = 50 ]
	sort -c -k 1,1 lines.txt
	# Wall-clock time, the scheduler, the process with its name of the moment.
	grep -qxF '14:03:05.010100  sched 1   <0.100.0> server  call demo:inner/2' lines.txt
	grep -qF '14:03:05.700000  1002      LOSS: 42 events discarded over 20.0 ms: 37 call, 5 send' lines.txt
	grep -qF '1_scheduler (1001) goes off, sleeps in futex; idle comes on' lines.txt
}

@test "a name is shown from the moment of its registration to that of its end" {
	"$BEAMWEAVE" export "$known" --to jsonl > lines.jsonl
	jq -r 'select(.process == "<0.102.0>") | "\(.ts_ns) \(.name)"' lines.jsonl | awk '
		{ holder = $1 >= 1000300000000 && $1 < 1000400000000
		  if (($2 == "holder") != holder) exit 1; seen += holder }
		END { exit seen == 9 ? 0 : 1 }'
	[ "$(jq -r 'select(.process == "<0.101.0>" and .ts_ns < 1000450000000).name' lines.jsonl | sort -u)" \
		= client:start/0 ]
	[ "$(jq -r 'select(.process == "<0.101.0>" and .ts_ns >= 1000450000000).name' lines.jsonl | sort -u)" \
		= holder ]
}

@test "a part is exported by wall-clock time or by time from the start" {
	run --separate-stderr "$BEAMWEAVE" export "$known" --to text --from 14:03:05.6 --until +651ms
	[ "$status" = 0 ]
	[ "${#lines[@]}" = 3 ]
	[[ ${lines[0]} == "14:03:05.600000"*futex* ]]
	[[ ${lines[2]} == "14:03:05.650020"* ]]
	run "$BEAMWEAVE" export "$known" --to text --from noon
	[ "$status" = 2 ]
	[[ $output == *"--from noon is no time"* ]]
	run "$BEAMWEAVE" export "$known" --to text --from +2s --until +1s
	[ "$status" = 2 ]
}

@test "bad usage of export is one clear line and exit code 2" {
	for arguments in "" "--to" "--to pdf" "--to text a b"; do
		# shellcheck disable=SC2086 # several arguments
		run "$BEAMWEAVE" export $arguments
		[ "$status" = 2 ]
		[[ $output == *export* ]]
	done
}

@test "what cannot be read or written is one clear line and exit code 1" {
	run "$BEAMWEAVE" export none.bwt --to text
	[ "$status" = 1 ]
	[[ $output == *"none.bwt: there is no such file"* ]]
	printf 'no recording, but long enough to be one: it has more than 64 bytes in it' > other.bwt
	run "$BEAMWEAVE" export other.bwt --to text
	[ "$status" = 1 ]
	[[ $output == *"no recording of beamweave"* ]]
	run "$BEAMWEAVE" export "$known" --to text -o /nonexistent/x
	[ "$status" = 1 ]
	[[ $output == *"cannot write"* ]]
	run "$BEAMWEAVE" export "$known" --to jsonl -o /dev/full
	[ "$status" = 1 ]
	[[ $output == *"No space left"* ]]
	cp "$known" same.bwt
	run "$BEAMWEAVE" export same.bwt --to text -o same.bwt
	[ "$status" = 2 ]
	cmp "$known" same.bwt
}

@test "a reader that has enough ends the export quietly" {
	for seed in 1 2 3; do
		run --separate-stderr bash -o pipefail -c '"$BEAMWEAVE" export "$1" --to jsonl | head -n 1' - "$known"
		[ "$status" = 0 ]
		[ "${#lines[@]}" = 1 ]
		[ -z "$stderr" ]
	done
}

@test "a cut recording is exported up to its cut, and says so" {
	head -c 20000 "$known" > cut.bwt
	run --separate-stderr "$BEAMWEAVE" export cut.bwt --to jsonl
	[ "$status" = 0 ]
	[[ $stderr == *"cut.bwt was not closed"* ]]
	jq -es 'length > 100' <<< "$output"
}

@test "a recording comes through a pipe" {
	"$BEAMWEAVE" export "$known" --to jsonl > file.jsonl
	"$BEAMWEAVE" export - --to jsonl < <(cat "$known") > pipe.jsonl
	cmp file.jsonl pipe.jsonl
}

@test "captured terms print as Erlang prints them" {
	escript "$HERE/terms.escript" .
	"$BUILD/tests/print_term" < terms > ours
	[ "$(wc -l < printed)" -gt 2000 ]
	diff printed ours
}

@test "what stands for a term that was left out prints as what it was" {
	# The words are those of a live VM's pids and ports (tests/unit/names_test.c).
	cat > left_out.escript <<-'END'
		#!/usr/bin/env escript
		main(_) ->
		    Terms = [{'$pid', 16#800000013}, {'$port', 16#1800000037}, {'$ref', 255}, {'$fun', 16},
		             '$cut', [1, 2 | {'$cut', 100}], {'$cut', <<"abc">>, 5000}, {'$other', 1}],
		    ok = file:write_file("terms",
		        [begin B = term_to_binary(T), <<(byte_size(B)):32, B/binary>> end || T <- Terms]).
	END
	escript left_out.escript
	run "$BUILD/tests/print_term" < terms
	[ "$status" = 0 ]
	[ "${lines[0]}" = '<0.1.0>' ]
	[ "${lines[1]}" = '#Port<0.3>' ]
	[ "${lines[2]}" = '#Ref<ff>' ]
	[ "${lines[3]}" = '#Fun<10>' ]
	[ "${lines[4]}" = '...' ]
	[ "${lines[5]}" = '[1,2|...(100 more)]' ]
	[ "${lines[6]}" = '<<"abc"...>>(5000 bytes)' ]
	[ "${lines[7]}" = "{'\$other',1}" ]
}

@test "cuts and turned bits do no harm under the sanitizers, and what is whole is read" {
	cd "$BATS_TEST_DIRNAME/.." || return
	"$BUILD/tests/make_trace" "$BATS_TEST_TMPDIR/cut.bwt" 5
	include=(-Ierl/c_src -Ibpf -Iuser/trace -Iuser/view -isystem "${ERL_INCLUDE:-/usr/lib/erlang/usr/include}")
	"${CC:-gcc}" -std=c11 -D_GNU_SOURCE -g -O1 -fno-strict-aliasing -fsanitize=address,undefined \
		-fno-sanitize-recover=undefined "${include[@]}" tests/trace/damage.c user/trace/*.c \
		user/view/{lines,lines_json,lines_text,lines_text_kernel,moment,units}.c erl/c_src/ring_dict.c \
		-lxxhash -ljansson -lseccomp -lm -o "$BATS_TEST_TMPDIR/damage"
	run "$BATS_TEST_TMPDIR/damage" "$BATS_TEST_TMPDIR/cut.bwt" 2000
	[ "$status" = 0 ]
	[[ $output == *"2000 flips"* ]]
}

@test "a text that was captured element by element prints as one, arguments as a list" {
	# LIST_EXT of small integers, as captures hold them; term_to_binary/1 makes STRING_EXT of these.
	python3 - <<-'END'
		def elements(text):
		    return b"l" + len(text).to_bytes(4, "big") + b"".join(b"a" + bytes([c]) for c in text) + b"j"
		terms = [elements(b"now"), elements(b"a\n\"b"), elements(b"\x01\x02"),
		         b"h\x02" + elements(b"ok") + b"a\x07",
		         elements(b"ab")[:-1] + b"d\x00\x04$cut"]
		with open("terms", "wb") as out:
		    for term in terms:
		        out.write((len(term) + 1).to_bytes(4, "big") + b"\x83" + term)
	END
	run "$BUILD/tests/print_term" < terms
	[ "$status" = 0 ]
	[ "${lines[0]}" = '"now"' ]
	[ "${lines[1]}" = '"a\n\"b"' ]
	[ "${lines[2]}" = '[1,2]' ]
	[ "${lines[3]}" = '{"ok",7}' ]
	[ "${lines[4]}" = '[97,98|...]' ]
}
