#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The call trees of random programs (tests/workloads/calltree.erl): what the timeline makes of a
# recording against what an interpreter of the same programs says.

bats_require_minimum_version 1.5.0
load lib/vm

setup() {
	vm_setup
	export VM_RPC_SECONDS=180
	vm_start t +S 2:2 -pa "$VM_ROOT/build/tests/ebin"
}

teardown() {
	vm_teardown
}

# Record programs FIRST to LAST; their calls into $VM_DIR/calls, the truth into $VM_DIR/truth.
programs_record() { # FIRST LAST RECORD-OPTIONS...
	local first=$1 last=$2 recorder pid spec
	local -a specs=()
	shift 2
	vm_rpc t "ok = file:write_file(\"$VM_DIR/specs\", [io_lib:format(\"~s:~s/~b~n\", [M, F, A]) ||
		{M, F, A} <- lists:usort(calltree:prepare($first, $last))])"
	vm_rpc t "calltree:truth($first, $last, \"$VM_DIR/truth\")"
	while read -r spec; do
		specs+=(-c "$spec")
	done < "$VM_DIR/specs"
	"$BEAMWEAVE" record -p "$(vm_pid t)" -d 0 -o "$VM_DIR/a.bwt" --kernel none "${specs[@]}" "$@" \
		2> "$VM_DIR/record.err" 3>&- &
	recorder=$!
	vm_wait_for 60 grep -q '^recording' "$VM_DIR/record.err"
	pid=$(vm_rpc t "{P, M} = spawn_monitor(fun() -> calltree:run($first, $last) end),
		receive {'DOWN', M, process, P, normal} -> pid_to_list(P) end")
	kill -INT "$recorder"
	wait "$recorder"
	[ "$("$BEAMWEAVE" report summary "$VM_DIR/a.bwt" --json | jq .events.discarded)" = 0 ]
	"$VM_ROOT/build/tests/timeline_check" "$VM_DIR/a.bwt"
	"$VM_ROOT/build/tests/call_dump" "$VM_DIR/a.bwt" | awk -v pid="${pid//\"/}" '$3 == pid' |
		sort -n > "$VM_DIR/calls"
}

# One line for each call whose function, parent or sort of end is not the truth; ids count from the
# first of the process in both.
programs_compare() {
	awk '
		NR == FNR { parent[$1] = $2; mfa[$1] = $3; end[$1] = $4; known++; next }
		{ rank[$1] = ++count; above[count] = $2; seen[count] = $4; how[count] = $8; certain[count] = $9 }
		END {
			if (count != known)
				print "calls: " count ", truth: " known
			for (i = 1; i <= known; i++) {
				wrong = mfa[i] != seen[i] || parent[i] + 0 != rank[above[i]] + 0
				wrong = wrong || (end[i] == "tail") != (how[i] == "tail")
				wrong = wrong || how[i] !~ (end[i] == "return" ? "^returned$" : ".")
				# an end of which no event tells, and only such a one, is doubtful
				wrong = wrong || (how[i] == "unseen") == certain[i]
				wrong = wrong || (how[i] == "unseen" && end[i] != "exception")
				if (wrong)
					print i, parent[i], mfa[i], end[i], "seen:", rank[above[i]] + 0, seen[i], how[i], certain[i]
			}
		}' "$VM_DIR/truth" "$VM_DIR/calls"
}

@test "the call trees of 1,000 random programs equal an interpreter's, doubtful ends marked" {
	programs_record 1 1000
	[ "$(wc -l < "$VM_DIR/truth")" -gt 5000 ]
	programs_compare > "$VM_DIR/wrong"
	head "$VM_DIR/wrong"
	[ ! -s "$VM_DIR/wrong" ]
	# Most ends are told by an event.
	[ "$(awk '$9 == 0' "$VM_DIR/calls" | wc -l)" -lt $(($(wc -l < "$VM_DIR/calls") / 10)) ]
}

@test "with values captured every call's end is seen, exceptions as such" {
	programs_record 1 100 --capture return
	# return_trace keeps a frame for each call: a tail call nests in the one that made it.
	[ "$(wc -l < "$VM_DIR/calls")" = "$(wc -l < "$VM_DIR/truth")" ]
	[ "$(awk '$8 != "returned" && $8 != "exception"' "$VM_DIR/calls" | wc -l)" = 0 ]
	[ "$(awk '$9 == 0' "$VM_DIR/calls" | wc -l)" = 0 ]
	[ "$(awk '$4 == "exception"' "$VM_DIR/truth" | wc -l)" -gt 0 ]
	[ "$(awk '$8 == "exception"' "$VM_DIR/calls" | wc -l)" -ge "$(awk '$4 == "exception"' "$VM_DIR/truth" | wc -l)" ]
}
