# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2030,SC2031 # what bash -c expands; each test is a subshell
# Bad input through every command: one clear line on stderr, the documented exit code, no crash. And
# terminals of all sorts.

bats_require_minimum_version 1.5.0

load lib/vm.bash

setup()
{
	vm_setup
	cd "$VM_DIR" || return
}

teardown()
{
	vm_teardown
}

COMMANDS="record trace report export doctor"

# refused STATUS TEXT COMMAND...: ends so, says TEXT on stderr in one line (and maybe an indented one of
# what to do, or argp's pointer to --help), and nothing on stdout.
refused()
{
	local want=$1 text=$2
	shift 2
	run --separate-stderr timeout 60 "$BEAMWEAVE" "$@"
	# shellcheck disable=SC2154 # of run
	echo "$* => $status: $output$stderr"
	[[ $status == "$want" ]]
	[[ -z $output ]]
	[[ $stderr == *"$text"* ]]
	[[ $(grep -cvE '^  |^Try |^information\.|^more' <<<"$stderr") == 1 ]]
}

@test "options that there are not, and values that are none, in every command" {
	for command in $COMMANDS; do
		refused 2 "unrecognized option '--nonsense'" "$command" --nonsense
		run -0 "$BEAMWEAVE" "$command" --help
		[[ ${#lines[@]} -gt 10 ]]
	done
	refused 2 "too many" report findings a.bwt b.bwt
	refused 2 "one argument too many" export --to text a.bwt b.bwt
	refused 2 "say what to write" export
	refused 2 "there is no format 'svg'" export --to svg
	refused 2 "is no process id" doctor -p 1x
	refused 2 "" trace -p 0 lists
	refused 2 "" trace
	refused 2 "there is no command" nonsense
}

@test "targets that there are not, in every command that takes one" {
	local pid
	sleep 0 &
	pid=$!
	wait "$pid"
	for command in "record -d 1" "trace lists" doctor; do
		# shellcheck disable=SC2086 # words
		refused 1 "there is no process $pid" $command -p "$pid"
		# shellcheck disable=SC2086
		refused 1 "is no Erlang VM: it runs" $command -p "$BASHPID"
		# shellcheck disable=SC2086
		refused 1 "no node nobody$$ runs on this host" $command -n "nobody$$"
	done
	vm_start a
	(umask 077 && echo wrong >cookie)
	refused 1 "refused the cookie" trace -p "$(vm_pid a)" lists --cookie-file cookie
	refused 1 "refused the cookie" record -p "$(vm_pid a)" -c lists --cookie-file cookie -d 1
	refused 1 "did you mean: lists" trace -p "$(vm_pid a)" list:seq
	refused 1 "lists:seq/2" trace -p "$(vm_pid a)" lists:sek
	run -2 "$BEAMWEAVE" trace -p "$(vm_pid a)" lists:seq/x
	[[ ${lines[1]} == "  lists:seq/x" && ${lines[2]} == "            ^" ]]
	vm_clean a
	vm_start_plain plain
	refused 1 "not distributed" trace -p "$(vm_pid plain)" lists
}

@test "files that are no recordings, in every section and every format" {
	: >empty
	head -c 5000 /dev/urandom >noise
	printf 'BWTRACE1' >short
	mkdir folder
	local uses=()
	for section in findings summary stalls calls messages gc sockets threads processes loss; do
		uses+=("report $section" "report $section --json")
	done
	for format in perfetto chrome jsonl text; do
		uses+=("export -o out --to $format")
	done
	for use in "${uses[@]}"; do
		for file in missing empty noise short folder; do
			# shellcheck disable=SC2086 # words
			refused 1 "$file" $use $file
		done
	done
}

@test "recordings that are cut or have turned bits, in every section and every format" {
	"$VM_ROOT/build/tests/make_trace" whole.bwt
	local size
	size=$(stat -c %s whole.bwt)
	head -c $((size * 2 / 3)) whole.bwt >cut.bwt
	python3 -c '
import sys
data = bytearray(open("whole.bwt", "rb").read())
for at in range(3000, len(data), 9973):
    data[at] ^= 0x10
open("flipped.bwt", "wb").write(data)'
	for file in cut.bwt flipped.bwt; do
		for section in findings summary stalls calls messages gc sockets threads processes loss; do
			run -0 --separate-stderr "$BEAMWEAVE" report "$section" "$file"
			[[ $output == *"DAMAGED FILE"* ]]
			run -0 --separate-stderr "$BEAMWEAVE" report "$section" "$file" --json
			jq -e '.damage != null' <<<"$output" >/dev/null
		done
		for format in perfetto chrome jsonl text; do
			run -0 --separate-stderr "$BEAMWEAVE" export --to "$format" -o out "$file"
			[[ $stderr == *"the rest is exported"* ]]
			[[ -s out ]]
		done
	done
}

@test "output that cannot be written, in every command that writes" {
	"$VM_ROOT/build/tests/make_trace" whole.bwt
	for use in "report whole.bwt" "report summary whole.bwt --json" "export whole.bwt --to text" \
		"export whole.bwt --to jsonl" "export whole.bwt --to chrome -o -" \
		"export whole.bwt --to perfetto -o -" "doctor" "doctor --json"; do
		run bash -c '"$0" '"$use"' >/dev/full' "$BEAMWEAVE"
		echo "$use: $output"
		[[ $status == 1 ]]
		[[ $output == *"No space left on device"* ]]
	done
	refused 1 "cannot write" export whole.bwt --to text -o /nonexistent/out
}

@test "a reader that has had enough ends every command quietly" {
	"$VM_ROOT/build/tests/make_trace" whole.bwt
	for use in "report processes whole.bwt --limit 0" "export whole.bwt --to text" \
		"export whole.bwt --to jsonl" "export whole.bwt --to chrome -o -"; do
		run bash -c 'set -o pipefail; "$0" '"$use"' | head -n 1' "$BEAMWEAVE"
		echo "$use: $output"
		[[ ${#lines[@]} -le 1 ]]
	done
}

@test "reports fit the terminal, down to forty columns, and need no colour and no locale" {
	"$VM_ROOT/build/tests/make_odd" odd.bwt
	"$VM_ROOT/build/tests/make_trace" whole.bwt
	for columns in 40 60 80 120; do
		COLUMNS=$columns "$BEAMWEAVE" report findings whole.bwt |
			grep -v "beamweave report" |
			awk -v most="$columns" 'length($0) > most { print; bad = 1 } END { exit bad }'
	done
	for section in findings summary stalls calls messages gc sockets threads processes loss; do
		for locale in C C.UTF-8 tr_TR.UTF-8 POSIX; do
			LC_ALL=$locale TERM=dumb "$BEAMWEAVE" report "$section" whole.bwt >"out.$locale"
			cmp out.C "out.$locale"
		done
		# Not a byte that steers a terminal, whatever the names in the recording are.
		for file in whole.bwt odd.bwt; do
			"$BEAMWEAVE" report "$section" "$file" | LC_ALL=C tr -d '\n' |
				(! LC_ALL=C grep -qP '[\x00-\x1f\x7f]')
		done
	done
	for format in text jsonl chrome; do
		"$BEAMWEAVE" export odd.bwt --to "$format" -o out
		LC_ALL=C tr -d '\n' <out | (! LC_ALL=C grep -qaP '[\x00-\x1f\x7f]')
	done
}
