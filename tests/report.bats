#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Reports of a made recording of which everything is known: see the head of tests/trace/make_trace.c.
# What is expected here was worked out from that table by hand.
# shellcheck disable=SC2016 # $names inside jq filters are jq's

bats_require_minimum_version 1.5.0

setup() {
	BUILD=$BATS_TEST_DIRNAME/../build
	BEAMWEAVE=${BEAMWEAVE:-$BUILD/beamweave}
	export TZ=UTC
	cd "$BATS_TEST_TMPDIR" || return
	# found by PATH: commands that it prints are as short as its users'
	mkdir bin
	ln -s "$BEAMWEAVE" bin/beamweave
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
	BEAMWEAVE=beamweave
	"$BUILD/tests/make_trace" known.bwt
}

# said SECTION JQ-FILTER [OPTIONS...]: what the report says as JSON.
said() {
	local section=$1 filter=$2
	shift 2
	"$BEAMWEAVE" report "$section" known.bwt --json "$@" | jq -r "$filter"
}

# Fails when a line of the standard output is wider than the terminal, or steers it.
fits() {
	# shellcheck disable=SC2154 # run sets output
	awk 'length($0) > 100 { print "too wide: " $0; bad = 1 } END { exit bad }' <<< "$output"
	! grep -q "$(printf '[\001-\010\013-\037\177]')" <<< "$output"
}

# One line on stderr that holds TEXT.
one_line() {
	# shellcheck disable=SC2154 # run sets stderr and stderr_lines
	[ "${#stderr_lines[@]}" = 1 ]
	# shellcheck disable=SC2154
	[[ "$stderr" == *"$1"* ]]
	[ -z "$output" ]
}

@test "calls are counted, timed and named with their callers" {
	[ "$(said calls '.calls | length')" = 2 ]
	[ "$(said calls '.calls[0] | "\(.mfa) \(.count) \(.open) \(.total_ns) \(.p50_ns) \(.p99_ns) \(.max_ns)"')" \
		= "demo:outer/1 50 0 20000000 400000 400000 400000" ]
	[ "$(said calls '.calls[1] | "\(.mfa) \(.count) \(.total_ns) \(.p90_ns)"')" = "demo:inner/2 50 10000000 200000" ]
	[ "$(said calls '.calls[1].callers[] | "\(.mfa) \(.count)"')" = "demo:outer/1 50" ]
	[ "$(said calls '.calls[0].callers[] | "\(.mfa) \(.count)"')" = "null 50" ]
	[ "$(said calls '.calls[0].slowest[0] | "\(.process) \(.name) \(.duration_ns)"')" = "<0.100.0> server 400000" ]
	[ "$(said calls '[.calls[] | select((.parts_ns | add) != .total_ns)] | length')" = 0 ]
	[ "$(said calls '[.calls[].slowest[] | select((.parts_ns | add) != .duration_ns)] | length')" = 0 ]
}

@test "messages are matched by sender and receiver" {
	[ "$(said messages '.pairs[] | "\(.from) \(.to) \(.count) \(.unmatched)"')" = "<0.101.0> <0.100.0> 50 0" ]
	[ "$(said messages '.pairs[0].fetched_ns | "\(.p50) \(.p99) \(.max)"')" = "50000 50000 50000" ]
	[ "$(said messages '.receivers[] | "\(.process) \(.name) \(.arrived) \(.fetched) \(.queue.max) \(.queue.end)"')" \
		= "<0.100.0> server 50 50 1 0" ]
	[ "$(said messages '.receivers[0].by_tag[] | "\(.tag) \(.count)"')" = "metric 50" ]
	[ "$(said messages '.receivers[0].by_sender[] | "\(.from) \(.count)"')" = "<0.101.0> 50" ]
}

@test "garbage collections add up" {
	[ "$(said gc '.processes[] | "\(.process) \(.minor) \(.major) \(.total_ns) \(.max_ns) \(.reclaimed_words)"')" \
		= "<0.102.0> 3 1 5600000 5000000 103000" ]
}

@test "a socket's bytes are the bytes that went over it" {
	[ "$(said sockets '.sockets[] | "\(.family) \(.local) \(.remote) \(.sent_bytes) \(.sends) \(.received_bytes) \(.receives) \(.retransmits)"')" \
		= "inet 127.0.0.1:40000 127.0.0.1:8080 12345 3 100 1 1" ]
	[ "$(said sockets '.sockets[0] | "\(.erlang_port) \(.owner) \(.owner_name)"')" = "#Port<0.5> <0.100.0> server" ]
}

@test "a thread's states add up to the recording" {
	[ "$(said threads .duration_ns)" = 1000000000 ]
	[ "$(said threads '[.threads[] | .running_ns + .runnable_ns + .sleeping_ns + .blocked_ns + .stopped_ns + .unknown_ns]
		| unique | join(",")')" = 1000000000 ]
	[ "$(said threads '[.threads[] | select(.role == "normal") | .stopped_ns] | join(",")')" = 49990000,49990000 ]
	# stopped from 100 to the waking at 149.99, preempted for 30 ms, asleep from 600 to 650; each
	# waking (0.99, 149.99, 650) came 10 or 20 us before the CPU
	[ "$(said threads '.threads[] | select(.tid == 1001) | "\(.sleeping_ns) \(.runnable_ns)"')" = "50000000 40000" ]
	[ "$(said threads '.threads[] | select(.tid == 1002) | "\(.sleeping_ns) \(.runnable_ns)"')" = "0 30020000" ]
}

@test "stalls are grouped by cause and culprit, and one stop is one burst" {
	[ "$(said stalls '.groups[] | select(.cause == "stopped") | "\(.count) \(.total_ns) \(.bursts | length)"')" = "2 99980000 1" ]
	[ "$(said stalls '.groups[] | select(.cause == "stopped").bursts[0] | "\(.start_ns) \(.duration_ns) \(.threads)"')" \
		= "1000100000000 49990000 2" ]
	[ "$(said stalls '.groups[] | select(.cause == "preempted") | "\(.by) \(.count) \(.max_ns)"')" = "hog 1 30000000" ]
	[ "$(said stalls '.stalls[] | select(.cause == "preempted") | "\(.detail.by_tid) \(.detail.by) \(.thread.number)"')" \
		= "2000 hog 2" ]
	[ "$(said stalls '[.stalls[] | select(([.parts[].duration_ns] | add) != .duration_ns)] | length')" = 0 ]
	[ "$(said stalls '[.stalls[] | select(.duration_ns < 40000000)] | length' --min 40ms)" = 0 ]
}

@test "processes have their running time and their counts" {
	# 9-99, 160-200, 201-270, 289-292
	[ "$(said processes '.processes[] | select(.process == "<0.100.0>") | "\(.name) \(.initial_call) \(.running_ns) \(.calls) \(.receives)"')" \
		= "server server:init/1 202000000 100 50" ]
	# 295-440 and 899-900.1
	[ "$(said processes '.processes[] | select(.process == "<0.102.0>") | "\(.initial_call) \(.running_ns) \(.gc_ns) \(.parent)"')" \
		= "worker:run/2 146100000 5600000 <0.100.0>" ]
	[ "$(said processes '[.processes[].process] | index("<0.900.0>")')" = null ]
}

@test "what was lost is told by ring, kind and time, and beside every other figure" {
	[ "$(said loss '.rings[] | select(.tid == 1002) | "\(.discarded.call) \(.discarded.send)"')" = "37 5" ]
	[ "$(said loss '.rings[] | select(.tid == 1002).intervals[] | "\(.from_ns) \(.to_ns) \(.count)"')" \
		= "1000700000000 1000720000000 42" ]
	[ "$(said summary .events.discarded)" = 42 ]
	for section in findings summary stalls calls messages gc sockets threads processes loss; do
		[ "$(said "$section" '.gaps[] | "\(.from_ns) \(.to_ns) \(.count)"')" = "1000700000000 1000720000000 42" ]
		run -0 "$BEAMWEAVE" report "$section" known.bwt
		[[ "$output" == *"42 events lost between 14:03:05.700000 and 14:03:05.720000"* ]]
	done
	# before the loss nothing is over a gap
	[ "$(said calls '.gaps | length' --to 14:03:05.6)" = 0 ]
}

@test "the summary says when, how long and how many of each kind" {
	[ "$(said summary '"\(.schema) \(.start_ns) \(.duration_ns) \(.clock)"')" = "1 1000000000000 1000000000 CLOCK_MONOTONIC" ]
	[[ "$(said summary .wall_start)" == 2026-11-30T14:03:05.000000+00:00 ]]
	[ "$(said summary '.events.by_kind | "\(.call) \(.return_to) \(.send) \(.receive) \(.gc_major_end) \(.tcp_retransmit)"')" \
		= "100 100 50 50 1 1" ]
	[ "$(said summary '(.events.by_kind | add) == .events.recorded')" = true ]
}

@test "events of our own processes are counted in words where they are left out" {
	# <0.900.0> is ours: its in and its out
	[ "$(said summary '.events.own')" = 2 ]
	[ "$(said loss '.own_events')" = 2 ]
	recorded=$(said summary '.events.recorded')
	[ "$(said loss '[.rings[].recorded] | add')" = $((recorded + 2)) ]
	for section in summary loss; do
		run -0 "$BEAMWEAVE" report "$section" known.bwt
		[[ "$output" == *"2 events in the file are of beamweave's own processes on the node"* ]]
	done
}

@test "a command that is printed can be pasted, from wherever the program runs" {
	ln -s bin/beamweave beamweave
	run -0 ./beamweave report loss known.bwt
	[[ "$(tr -s ' \n' ' ' <<< "$output")" == *"See: ./beamweave report loss"* ]]
	[ "$(./beamweave report known.bwt --json | jq -r '.findings[0].next | split(" ")[0]')" = ./beamweave ]
	[ "$(beamweave report known.bwt --json | jq -r '.findings[0].next | split(" ")[0]')" = beamweave ]
}

@test "findings say in words what happened, most lost time first" {
	[ "$(said findings '[.findings[].lost_ns] | . == (sort | reverse)')" = true ]
	[ "$(said findings '.findings[] | select(.cause == "stopped") | "\(.lost_ns) \(.count) \(.first_ns) \(.certain)"')" \
		= "99980000 2 1000100000000 true" ]
	run -0 "$BEAMWEAVE" report known.bwt
	text=$(tr -s ' \n' ' ' <<< "$output")
	[[ "$text" == *"The VM was stopped (SIGSTOP or a debugger) for 50.0 ms at 14:03:05.100000. 2 scheduler threads were held up."* ]]
	[[ "$text" == *"'hog' (pid 2000) took the CPU from a scheduler thread that had work, for 30.0 ms at 14:03:05.500000."* ]]
	[[ "$text" == *"Major GC of <0.102.0>"*": 5.00 ms"* ]]
	[[ "$text" == *"from 127.0.0.1:40000 to 127.0.0.1:8080"* ]]
}

@test "every finding names a command that works" {
	said findings '.findings[].next' > commands
	[ -s commands ]
	while read -r _ command; do
		# shellcheck disable=SC2086 # words are wanted
		run -0 "$BEAMWEAVE" $command
	done < commands
}

@test "a window holds what touches it" {
	# outer i lasts from 10 + i to 10.4 + i
	[ "$(said calls '.calls[] | select(.mfa == "demo:outer/1").count' --from 14:03:05.0205 --to 14:03:05.0295)" = 9 ]
	[ "$(said calls '.calls[] | select(.mfa == "demo:outer/1").count' --from +20.5ms --to +29.5ms)" = 9 ]
	[ "$(said calls '.calls[] | select(.mfa == "demo:outer/1").count' --from 1000020500000ns --to 1000029500000ns)" = 9 ]
	[ "$(said threads '.threads[] | select(.role == "normal") | "\(.stopped_ns) \(.running_ns)"' \
		--from 14:03:05.1 --to 14:03:05.15)" = "49990000 0
49990000 0" ]
	[ "$(said threads '[.threads[] | .running_ns + .runnable_ns + .sleeping_ns + .blocked_ns + .stopped_ns + .unknown_ns]
		| unique | join(",")' --from +510ms --to +515ms)" = 5000000 ]
	# outer at 20, 21, ..., 30 and inner at 20.1, ..., 29.1
	[ "$(said processes '.processes[] | select(.process == "<0.100.0>") | "\(.running_ns) \(.calls)"' --from +20ms --to +30ms)" \
		= "10000000 21" ]
}

@test "times are those of the reader's zone" {
	TZ=Europe/Berlin run -0 "$BEAMWEAVE" report stalls known.bwt --from 15:03:05.09 --to 15:03:05.16
	[[ "$output" == *"15:03:05.100000   50.0 ms"* ]]
}

@test "SECTION and FILE stand in either order, FILE is beamweave.bwt by default" {
	run -0 "$BEAMWEAVE" report gc known.bwt
	expected=$output
	run -0 "$BEAMWEAVE" report known.bwt gc
	[ "$output" = "$expected" ]
	cp known.bwt beamweave.bwt
	run -0 "$BEAMWEAVE" report gc --json
	[ "$(jq -r .file <<< "$output")" = beamweave.bwt ]
	cp known.bwt gc
	run -0 "$BEAMWEAVE" report gc gc --json
	[ "$(jq -r '"\(.file) \(.section)"' <<< "$output")" = "gc gc" ]
}

@test "every section fits a terminal of 100 columns" {
	for section in findings summary stalls calls messages gc sockets threads processes loss; do
		run -0 "$BEAMWEAVE" report "$section" known.bwt
		fits
		[[ "${lines[0]}" == "known.bwt: "*"2026-11-30 14:03:05 to 14:03:06 (1.00 s)" ]]
	done
	run -0 "$BEAMWEAVE" report --help
	fits
}

@test "--limit leaves rows out and says so" {
	[ "$(said stalls '.stalls | length' --limit 1)" = 1 ]
	run -0 "$BEAMWEAVE" report stalls known.bwt --limit 1
	[[ "$output" == *"more stalls (--limit 0 shows all)"* ]]
}

@test "a cut file is read up to its last whole chunk, and says so" {
	head -c $(($(stat -c %s known.bwt) * 2 / 3)) known.bwt > cut.bwt
	run -0 --separate-stderr "$BEAMWEAVE" report summary cut.bwt
	[[ "${lines[1]}" == "DAMAGED FILE: It was not closed in order"* ]]
	run -0 --separate-stderr "$BEAMWEAVE" report summary cut.bwt --json
	[ "$(jq .damage.no_end <<< "$output")" = true ]
}

@test "a file with flipped bits is read as far as it is whole" {
	cp known.bwt flipped.bwt
	size=$(stat -c %s known.bwt)
	printf '\377\377\377\377' | dd of=flipped.bwt bs=1 seek=$((size / 2)) conv=notrunc status=none
	run -0 --separate-stderr "$BEAMWEAVE" report summary flipped.bwt
	[[ "${lines[1]}" == "DAMAGED FILE:"* ]]
}

@test "a recording of which nothing is whole is an error" {
	head -c 64 known.bwt > header.bwt
	head -c 100 known.bwt > start.bwt
	cp header.bwt noise.bwt
	head -c 100000 /dev/urandom >> noise.bwt
	for file in header start noise; do
		run -1 --separate-stderr "$BEAMWEAVE" report summary "$file.bwt"
		one_line "$file.bwt: nothing in this recording is whole"
		run -1 --separate-stderr "$BEAMWEAVE" export --to text "$file.bwt"
		one_line "$file.bwt: nothing in this recording is whole"
	done
}

@test "what is whole behind a huge hole is read, and the hole is not" {
	# the chunks' ends lie at multiples of 8: cut in two where the second half still has its chunks
	size=$(stat -c %s known.bwt)
	half=$((size / 2 / 8 * 8))
	head -c "$half" known.bwt > holed.bwt
	truncate -s 1T holed.bwt || skip "no sparse file of this size here"
	tail -c +"$((half + 1))" known.bwt >> holed.bwt
	run -0 timeout 60 "$BEAMWEAVE" report summary holed.bwt --json
	[ "$(jq '.damage.skipped_bytes > 1000000000000' <<< "$output")" = true ]
	# the end is there
	[ "$(jq '.damage.no_end' <<< "$output")" = false ]
	[ "$(jq '.duration_ns' <<< "$output")" = 1000000000 ]
	rm holed.bwt
}

@test "no file, a file that is none of ours and a newer one are each one clear line" {
	run -1 --separate-stderr "$BEAMWEAVE" report nothing.bwt
	one_line "nothing.bwt: there is no such file"
	echo "something else, and longer than a header of a recording is, to be sure of it" > other.bwt
	run -1 --separate-stderr "$BEAMWEAVE" report other.bwt
	one_line "other.bwt: this is no recording of beamweave"
	: > empty.bwt
	run -1 --separate-stderr "$BEAMWEAVE" report empty.bwt
	one_line "empty.bwt: this is no recording of beamweave"
	run -1 --separate-stderr "$BEAMWEAVE" report .
	one_line ".: "
	# the version stands after 8 bytes of magic
	printf '\377' | dd of=known.bwt bs=1 seek=8 conv=notrunc status=none
	run -1 --separate-stderr "$BEAMWEAVE" report known.bwt
	one_line "known.bwt: a newer beamweave wrote this file"
}

@test "what never ends and is no recording is not waited for" {
	run "$BEAMWEAVE" report summary /dev/zero
	[ "$status" -eq 1 ]
	[[ "$output" == *"this is no recording of beamweave"* ]]
}

@test "a path cannot steer the terminal" {
	run -1 --separate-stderr "$BEAMWEAVE" report $'\033[2Jx.bwt'
	one_line "?[2Jx.bwt: there is no such file"
	cp known.bwt $'\033[2Jx.bwt'
	run -0 "$BEAMWEAVE" report $'\033[2Jx.bwt'
	fits
}

@test "bad options are one clear line and exit code 2" {
	run -2 --separate-stderr "$BEAMWEAVE" report known.bwt --min soon
	one_line "--min soon is no time"
	run -2 --separate-stderr "$BEAMWEAVE" report known.bwt --limit many
	one_line "--limit many is no number"
	run -2 --separate-stderr "$BEAMWEAVE" report known.bwt --from noon
	one_line "--from noon is no time"
	run -2 --separate-stderr "$BEAMWEAVE" report known.bwt --from +0.5s --to +0.4s
	one_line "--to +0.4s lies before --from +0.5s"
	run -2 --separate-stderr "$BEAMWEAVE" report known.bwt --from 15:00
	one_line "it goes from 14:03:05.000000 to 14:03:06.000000"
	run -2 --separate-stderr "$BEAMWEAVE" report known.bwt calls other.bwt
	one_line "one SECTION and one FILE"
	run -2 "$BEAMWEAVE" report --nonsense
}

@test "output that cannot be written is an error" {
	run -1 bash -c '"$1" report known.bwt > /dev/full' _ "$BEAMWEAVE"
	[[ "$output" == *"No space left on device"* ]]
	run -1 bash -c '"$1" report known.bwt --json > /dev/full' _ "$BEAMWEAVE"
	[[ "$output" == *"No space left on device"* ]]
	# longer than a buffer of the C library
	long=$(printf 'x%.0s' {1..200}).bwt
	cp known.bwt "$long"
	for section in findings stalls; do
		run -1 bash -c '"$1" report "$2" "$3" --limit 0 > /dev/full' _ "$BEAMWEAVE" "$section" "$long"
		[[ "$output" == *"No space left on device"* ]]
	done
}
