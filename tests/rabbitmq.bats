#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A real server: RabbitMQ of the distribution, on loopback, its data in a temporary folder.

bats_require_minimum_version 1.5.0

load lib/vm

setup_file() {
	vm_setup
	export RMQ="$VM_DIR/rabbitmq" VM_EPMD_PID
	mkdir -p "$RMQ/home" "$RMQ/data" "$RMQ/log"
	printf 'rabbit%s' "$RANDOM$RANDOM" > "$RMQ/home/.erlang.cookie"
	chmod 400 "$RMQ/home/.erlang.cookie"
	echo '[].' > "$RMQ/plugins"
	RMQ_PORT=$(vm_free_port)
	export RMQ_PORT RMQ_URL="amqp://guest:guest@127.0.0.1:$RMQ_PORT"
	export RMQ_NODE="bwrmq${VM_ID,,}@localhost"
	HOME="$RMQ/home" RABBITMQ_NODENAME=$RMQ_NODE RABBITMQ_MNESIA_BASE="$RMQ/data" \
		RABBITMQ_LOG_BASE="$RMQ/log" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 \
		RABBITMQ_NODE_PORT=$RMQ_PORT RABBITMQ_DIST_PORT=$(vm_free_port) \
		RABBITMQ_PID_FILE="$RMQ/pid" RABBITMQ_ENABLED_PLUGINS_FILE="$RMQ/plugins" \
		RABBITMQ_CONF_ENV_FILE="$RMQ/none" RABBITMQ_CONFIG_FILE="$RMQ/none" \
		/usr/lib/rabbitmq/bin/rabbitmq-server > "$RMQ/out.log" 2>&1 3>&- &
	vm_wait_for 90 amqp-declare-queue -u "$RMQ_URL" -q orders
	RMQ_PID=$(cat "$RMQ/pid")
	export RMQ_PID
}

teardown_file() {
	[ -z "${RMQ_PID:-}" ] || vm_end "$RMQ_PID"
	vm_teardown
}

# Evaluate in the RabbitMQ node, from a VM of our own.
rmq_eval() {
	HOME="$RMQ/home" erl -noshell -hidden -start_epmd false -sname "bwask$$@localhost" -eval "
		R = rpc:call('$RMQ_NODE', erlang, apply, [fun() -> $1 end, []]),
		io:format(\"~tp~n\", [R]), halt()."
}

# One connection, which stays open for a while: ports are asked for their sockets once a second.
publish() { # COUNT
	{ seq 2 "$1"; sleep 3; echo 1; } | amqp-publish -l -u "$RMQ_URL" -r orders
}

rmq_length() {
	rmq_eval '{ok, Q} = rabbit_amqqueue:lookup({resource, <<"/">>, queue, <<"orders">>}), {ok, L, _} = rabbit_amqqueue:stat(Q), L'
}

rmq_holds() { # COUNT
	[ "$(rmq_length)" = "$1" ]
}

@test "RabbitMQ under 10,000 messages is recorded without loss and answers as before" {
	run -0 amqp-publish -u "$RMQ_URL" -r orders -b before
	run -0 --separate-stderr amqp-get -u "$RMQ_URL" -q orders
	[ "$output" = before ]

	file="$VM_DIR/rabbit.bwt"
	"$BEAMWEAVE" record -p "$RMQ_PID" -d 0 -c rabbit_channel --messages --running --gc -o "$file" \
		2> "$VM_DIR/record.err" 3>&- &
	recorder=$!
	vm_wait_for 20 grep -q '^recording' "$VM_DIR/record.err"
	publish 10000
	# The server has them all when it can count them.
	vm_wait_for 20 rmq_holds 10000
	kill -INT "$recorder"
	wait "$recorder"

	run -0 --separate-stderr "$BEAMWEAVE" report calls "$file" --json
	published=$(jq '[.calls[] | select(.mfa == "rabbit_channel:handle_method/3") | .count] | add' <<< "$output")
	[ "$published" -ge 10000 ]

	run -0 --separate-stderr "$BEAMWEAVE" report processes "$file" --json
	jq -e '[.processes[] | select(((.name // "") + (.initial_call // "")) | test("rabbit_channel"))] | length >= 1' \
		<<< "$output"

	run -0 --separate-stderr "$BEAMWEAVE" report summary "$file" --json
	[ "$(jq .events.discarded <<< "$output")" = 0 ]
	kernel=$(jq '.kernel.enabled | index("socket_io") != null' <<< "$output")

	if [ "$kernel" = true ]; then
		run -0 --separate-stderr "$BEAMWEAVE" report sockets "$file" --json
		# Each message is three frames on the wire, more than 50 bytes.
		jq -e --arg port ":$RMQ_PORT" '[.sockets[] | select((.local | endswith($port)) and .received_bytes > 500000
			and .owner != null)] | length >= 1' <<< "$output"
	fi

	run -0 amqp-publish -u "$RMQ_URL" -r orders -b after
	run -0 --separate-stderr amqp-get -u "$RMQ_URL" -q orders
	[ "$output" = 2 ]
	run -0 rmq_eval 'length([P || P <- processes(), {flags, F} <- [erlang:trace_info(P, flags)], F =/= []])
		+ length([x || {F, A} <- rabbit_channel:module_info(functions), {traced, T} <- [erlang:trace_info({rabbit_channel, F, A}, traced)],
			T =/= false])'
	[ "$output" = 0 ]
	run -0 find /dev/shm /tmp /var/tmp -maxdepth 1 -name "beamweave*$RMQ_PID*"
	[ -z "$output" ]
}

@test "trace shows what a channel is called with and returns while messages go through" {
	"$BEAMWEAVE" trace -p "$RMQ_PID" rabbit_channel:handle_method/3 -l 6 -d 30 \
		> "$VM_DIR/trace.out" 2> "$VM_DIR/trace.err" 3>&- &
	tracer=$!
	vm_wait_for 20 grep -q '^tracing' "$VM_DIR/trace.err"
	run -0 amqp-publish -u "$RMQ_URL" -r orders -b traced
	wait "$tracer"
	cat "$VM_DIR/trace.out" "$VM_DIR/trace.err"
	# channel.open, basic.publish, channel.close: each called and returned from
	[ "$(wc -l < "$VM_DIR/trace.out")" = 6 ]
	grep -qF "{'basic.publish',0,<<>>,<<\"orders\">>,false,false}, {content,60," "$VM_DIR/trace.out"
	# time, the channel's process with a name, the call with its method, what it returned and when
	grep -qE "^[0-9:]{8}\.[0-9]{6} <0\.[0-9]+\.[0-9]+> .*rabbit_channel:handle_method\(.*'(channel|basic)\." \
		"$VM_DIR/trace.out"
	grep -qE "rabbit_channel:handle_method/3 -> \{noreply,.* <[0-9.]+ (ns|us|ms)>$" "$VM_DIR/trace.out"
	grep -q "that many were asked for" "$VM_DIR/trace.err"
	run -0 rmq_eval 'erlang:trace_info({rabbit_channel, handle_method, 3}, traced)'
	[ "$output" = "{traced,false}" ]
}
