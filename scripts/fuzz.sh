#!/usr/bin/env bash
# Runs libFuzzer targets for a bounded time: scripts/fuzz.sh [seconds each, default 15] [target...]
# Without names, all of them.
# What it finds new stays in build-fuzz/corpus/; a crash is written to build-fuzz/ and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-15}
names=("${@:2}")
SXT_TARGET="${names[*]:-fuzzers}" scripts/build.sh fuzz
shopt -s nullglob
targets=(build-fuzz/fuzz/*_fuzz)
if [ ${#names[@]} -gt 0 ]; then targets=("${names[@]/#/build-fuzz/fuzz/}"); fi
[ ${#targets[@]} -gt 0 ] || { echo "no fuzz targets were built" >&2; exit 1; }

fuzz() {
  local name seeds
  name=$(basename "$1")
  seeds=tests/fuzz/$name
  mkdir -p "build-fuzz/corpus/$name"
  [ -d "$seeds" ] || { echo "$name has no corpus: $seeds" >&2; return 1; }
  timeout $((seconds + 120)) "$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
    -max_len=65536 -print_final_stats=1 -verbosity=0 -artifact_prefix="build-fuzz/$name-" \
    "build-fuzz/corpus/$name" "$seeds" >"build-fuzz/$name.log" 2>&1 ||
    { tail -n 40 "build-fuzz/$name.log" >&2; echo "$name failed" >&2; return 1; }
  echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$name.log") inputs in ${seconds} s"
}

# As many at a time as there are cores.
running=0
status=0
for target in "${targets[@]}"; do
  if [ $running -ge "$(nproc)" ]; then wait -n || status=1; running=$((running - 1)); fi
  fuzz "$target" &
  running=$((running + 1))
done
while [ $running -gt 0 ]; do wait -n || status=1; running=$((running - 1)); done
exit $status
