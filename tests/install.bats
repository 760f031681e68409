#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # what zsh expands
#
# What is installed: the program, its manual pages, completions, the OTP application, the package.

bats_require_minimum_version 1.5.0

setup_file() {
	export ROOT="$BATS_TEST_DIRNAME/.."
	export BUILD="${BUILD:-$ROOT/build}"
	export STAGE="$BATS_FILE_TMPDIR/stage"
	make -s -C "$ROOT" install PREFIX=/usr DESTDIR="$STAGE" > /dev/null
	"$BUILD/tests/make_trace" "$BATS_FILE_TMPDIR/trace.bwt"
	export MAN="$STAGE/usr/share/man/man1"
	PATH="$STAGE/usr/bin:$PATH"
}

# Its options, as COMMAND --help lists them.
options() {
	beamweave "$1" --help | grep -oE '^ {2,6}(-[a-z?], )?--[a-z-]+' | grep -oE -- '--[a-z-]+'
}

# Without what makes letters bold.
plain() {
	sed 's/.\x08//g'
}

commands() {
	beamweave --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'
}

@test "an uninstalled beamweave leaves no file" {
	local stage="$BATS_TEST_TMPDIR/stage"
	make -s -C "$ROOT" install PREFIX=/opt/b DESTDIR="$stage" > /dev/null
	[ "$(find "$stage" -type f | wc -l)" -gt 15 ]
	make -s -C "$ROOT" uninstall PREFIX=/opt/b DESTDIR="$stage"
	[ "$(find "$stage" -type f | wc -l)" = 0 ]
}

@test "every command has a manual page that mandoc finds sound, with each of its options" {
	for command in $(commands); do
		local page="$MAN/beamweave-$command.1"
		run mandoc -T lint -W error "$page"
		[ "$status" = 0 ]
		for option in $(options "$command"); do
			mandoc -T utf8 "$page" | plain | grep -qF -- "$option"
		done
		mandoc -T utf8 "$page" | plain | grep -q "^SYNOPSIS"
		mandoc -T utf8 "$MAN/beamweave.1" | plain | grep -qF "beamweave-$command(1)"
	done
}

@test "every JSON key and every kind of event stands in a manual page" {
	local text="$BATS_TEST_TMPDIR/text"
	mandoc -T utf8 "$MAN/beamweave-report.1" | plain > "$text"
	for section in findings summary stalls calls messages gc sockets threads processes loss; do
		# by_kind and discarded have kinds of events for keys
		for key in $(beamweave report "$section" "$BATS_FILE_TMPDIR/trace.bwt" --json |
			jq -r '[paths | select(any(.[]; . == "by_kind" or . == "discarded" or . == "recorded") | not) |
				map(strings) | .[-1] // empty] | unique | .[]'); do
			grep -qw -- "$key" "$text" || { echo "$section: $key" && false; }
		done
	done
	mandoc -T utf8 "$MAN/beamweave-export.1" | plain > "$text"
	for kind in $(grep -oE '= "[a-z_]+"' "$ROOT/user/trace/kinds.c" | tr -d '= "'); do
		grep -qw -- "$kind" "$text" || { echo "$kind" && false; }
	done
}

@test "bash completes commands, options, sections, formats and pids" {
	# shellcheck source=/dev/null
	source "$STAGE/usr/share/bash-completion/completions/beamweave"
	complete_line() {
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_beamweave beamweave "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
		echo " ${COMPREPLY[*]} "
	}
	[[ "$(complete_line beamweave re)" == " record report " ]]
	[[ "$(complete_line beamweave record --max-s)" == " --max-size " ]]
	[[ "$(complete_line beamweave report st)" == " stalls " ]]
	[[ "$(complete_line beamweave export --to ch)" == " chrome " ]]
	for command in $(commands); do
		local line
		line=$(complete_line beamweave "$command" --)
		for option in $(options "$command"); do
			[[ "$line" == *" $option "* ]]
		done
	done
	# A process that is called as a VM is.
	cp "$(command -v sleep)" "$BATS_TEST_TMPDIR/beam.smp"
	"$BATS_TEST_TMPDIR/beam.smp" 60 3>&- &
	local pid=$!
	sleep 0.2
	line=$(complete_line beamweave record -p "")
	kill "$pid"
	[[ "$line" == *" $pid "* ]]
}

@test "zsh takes the completion" {
	zsh -n "$STAGE/usr/share/zsh/site-functions/_beamweave"
	# Without its line editor the functions that show are ours.
	run -0 zsh -fc '
		_describe() { print -l -- "${(@P)2}" }; compadd() { shift; print -l -- "${(@P)1}" }; _files() { }
		words=(beamweave ""); CURRENT=2; source "$1"
		words=(beamweave export --to ""); CURRENT=4; source "$1"
		words=(beamweave record --max); CURRENT=3; source "$1"' zsh \
		"$STAGE/usr/share/zsh/site-functions/_beamweave"
	grep -q "^record:record an Erlang VM" <<< "$output"
	grep -qx "perfetto" <<< "$output"
	grep -qx -- "--max-size" <<< "$output"
}

@test "the Debian package installs into an empty root and runs there" {
	local root="$BATS_TEST_TMPDIR/root"
	[ "$(id -u)" = 0 ] || skip "dpkg and chroot need root"
	make -s -C "$ROOT" deb
	mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/tmp"
	touch "$root/var/lib/dpkg/status"
	dpkg --root="$root" --install "$BUILD"/beamweave_*.deb > "$BATS_TEST_TMPDIR/log" 2>&1
	[ "$(dpkg --root="$root" -l beamweave | grep -c '^ii')" = 1 ]
	cp "$BATS_FILE_TMPDIR/trace.bwt" "$root/tmp"
	run -0 chroot "$root" /usr/bin/beamweave report /tmp/trace.bwt
	grep -q "What cost time" <<< "$output"
	zcat "$root/usr/share/man/man1/beamweave-record.1.gz" | grep -q "max\\\\-size"
	dpkg --root="$root" --purge beamweave >> "$BATS_TEST_TMPDIR/log" 2>&1
	[ ! -e "$root/usr/bin/beamweave" ]
}
