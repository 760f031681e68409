# SPDX-License-Identifier: Apache-2.0
# What build/tests/invariants prints of a recording, worked out from its JSON lines (jq -s).
def pairs($begins; $ends):
  reduce .[] as $e ({open: {}, sum: 0};
    if ($e.kind | test($begins)) then .open[$e.process] = $e.ts_ns
    elif ($e.kind | test($ends)) and .open[$e.process] then
      .sum += $e.ts_ns - .open[$e.process] | .open[$e.process] = null
    else . end) | .sum;
def lost($why): map(select(.kind == "loss" and .why == $why).count) | add // 0;
def transferred($kind): map(select(.kind == $kind and .result > 0).result) | add // 0;
{
  first_ns: .[0].ts_ns,
  last_ns: .[-1].ts_ns,
  gc_ns: pairs("^gc_(minor|major)_start$"; "^gc_(minor|major)_end$"),
  run_ns: pairs("^in$"; "^out$"),
  sent_bytes: transferred("sock_send"),
  received_bytes: transferred("sock_recv"),
  lost: {discarded: lost("discarded"), overwritten: lost("overwritten"), damaged: lost("damaged")},
  kinds: (group_by(.kind) | map({key: .[0].kind, value: length}) | from_entries)
}
