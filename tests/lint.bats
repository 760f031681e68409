#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The hand it is written in: what `make lint` looks at.

setup() {
	cd "$BATS_TEST_DIRNAME/.." || return 1
}

@test "clang-format, shellcheck and dialyzer find nothing" {
	make --no-print-directory lint
}
