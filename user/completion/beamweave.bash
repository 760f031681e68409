# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of beamweave for bash. What there is to complete is asked from the program itself.

_beamweave_commands() {
	beamweave --help 2> /dev/null | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'
}

_beamweave_options() {
	beamweave "$1" --help 2> /dev/null | grep -oE '^ {2,6}(-[a-z?], )?--[a-z-]+' | grep -oE -- '--[a-z-]+'
}

_beamweave_sections() {
	beamweave report --help 2> /dev/null | awk '/^Sections:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'
}

_beamweave_nodes() {
	epmd -names 2> /dev/null | awk '$1 == "name" { print $2 }'
}

_beamweave_pids() {
	pgrep '^beam(\.smp)?$' 2> /dev/null
}

_beamweave() {
	local word=$2 before=$3 command=${COMP_WORDS[1]:-} words=

	COMPREPLY=()
	if [ "$COMP_CWORD" -le 1 ]; then
		words="$(_beamweave_commands) --help --version"
	else
		case $before in
		-n | --node) words=$(_beamweave_nodes) ;;
		-p | --pid) words=$(_beamweave_pids) ;;
		-e | --events) words="messages running gc procs ports sched socket syscall" ;;
		-t | --to) [ "$command" = export ] && words="perfetto chrome jsonl text" ;;
		--capture) words="args return args,return" ;;
		--mode) words="discard overwrite" ;;
		--color) words="auto always never" ;;
		--tracer) words="nif port ip none" ;;
		--kernel) words="none sched process blocking socket socket_io syscall" ;;
		--pids) words="all existing new" ;;
		-o | --output | --cookie-file | --session) ;;
		*)
			case $word in
			-*) words=$(_beamweave_options "$command") ;;
			*) [ "$command" = report ] && words=$(_beamweave_sections) ;;
			esac
			;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	# Files, where nothing else fits: recordings, outputs.
	[ "${#COMPREPLY[@]}" -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}

complete -o filenames -F _beamweave beamweave
