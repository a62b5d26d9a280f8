#!/usr/bin/env bash
# two_hosts_train_test.sh SEXTANT: `train` over MPI on two hosts has the losses of one host, and ends
# with 5 and the name of the missing rank when a host goes off the net.
set -uo pipefail
source "$(dirname "$0")/two_hosts.sh"
sextant=$1
make_hosts
cd "$folder" || exit 1

fail() {
  echo "FAILED: $*"
  tail -n 20 "$folder"/*.log
  exit 1
}

tiny=(--model.layers=2 --model.hidden=32 --model.heads=2 --model.vocab=256 --model.seq=32
  --batch.global=4 --optim.lr=0.01 --run.threads=1 --train.log_every=1)
over_mpi=(--run.transport=mpi --fault.deadline=5)
two_hosts=("${over_mpi[@]}" "--run.mpirun=$(mpirun_flags)")

# What metrics.jsonl says apart from times.
results() {
  sed 's/,"tokens_per_s".*//' "$1/metrics.jsonl"
}

compare() { # NAME LAYOUT...
  local name=$1
  shift
  "$sextant" train "${tiny[@]}" "$@" --train.steps=6 --run.out="$name-threads" \
    >"$name-threads.log" 2>&1 || fail "$name over threads: exit $?"
  "$sextant" train "${tiny[@]}" "$@" "${over_mpi[@]}" --train.steps=6 --run.out="$name-one" \
    >"$name-one.log" 2>&1 || fail "$name on one host: exit $?"
  on_host a "$sextant" train "${tiny[@]}" "$@" "${two_hosts[@]}" --train.steps=6 \
    --run.out="$name-two" >"$name-two.log" 2>&1 || fail "$name on two hosts: exit $?"
  [ "$(results "$name-one" | wc -l)" -eq 6 ] || fail "$name: not six steps"
  for other in threads two; do
    diff <(results "$name-one") <(results "$name-$other") >"$name-diff.log" ||
      fail "$name: one host and $other differ"
  done
  echo "$name: the same losses and norms over threads, on one host and on two"
}

compare dp --parallel.dp=2
compare zero3 --parallel.shard=2 --parallel.zero=3
compare pipeline --parallel.pp=2 --parallel.schedule=zb-h1

on_host a "$sextant" train "${tiny[@]}" --parallel.dp=2 "${two_hosts[@]}" --train.steps=1000000 \
  --run.out=cut >cut-out.log 2>cut-err.log &
running=$!
under_way() { [ -e cut/metrics.jsonl ] && [ "$(wc -l <cut/metrics.jsonl)" -ge 3 ]; }
wait_until 60 under_way || fail "the run does not get under way"
cut_link
begun=$SECONDS
ended() { ! kill -0 $running 2>/dev/null; }
# The deadline, the time that mpirun is given to end, and slack for a busy machine.
wait_until 30 ended || fail "still running $((SECONDS - begun)) s after the link was cut"
wait $running
code=$?
[ $code -eq 5 ] || fail "exit $code after the link was cut, not 5"
grep -q 'error: .*rank 1 .* within 5 s' cut-err.log || fail "the missing rank is not named"
echo "ended with 5, $((SECONDS - begun)) s after the link was cut: $(grep '^error' cut-err.log)"
