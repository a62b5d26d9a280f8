#!/usr/bin/env bash
# two_hosts_probe_test.sh MPI_PROBE: the transport between two hosts gives the bits of threads, and
# names the missing rank when the other host is gone.
set -uo pipefail
source "$(dirname "$0")/two_hosts.sh"
probe=$1
make_hosts

fail() {
  echo "FAILED: $*"
  cat "$folder"/*.log
  exit 1
}

on_host a "$probe" 2 bits "$(mpirun_flags)" >"$folder/bits.log" 2>&1 || fail "bits: exit $?"
grep -q 'same bits' "$folder/bits.log" || fail "bits: not compared"

on_host a "$probe" 2 forever "$(mpirun_flags)" >"$folder/out.log" 2>"$folder/err.log" &
running=$!
wait_until 60 grep -qs 'under way' "$folder/err.log" || fail "the ranks do not get under way"
cut_link
begun=$SECONDS
ended() { ! kill -0 $running 2>/dev/null; }
wait_until 30 ended || fail "still running $((SECONDS - begun)) s after the link was cut"
wait $running
code=$?
[ $code -eq 5 ] || fail "exit $code after the link was cut, not 5"
grep -q 'rank 1 .* within 3 s' "$folder/err.log" || fail "the missing rank is not named"
echo "ended with 5, $((SECONDS - begun)) s after the link was cut: $(grep '^error' "$folder/err.log")"
