#!/usr/bin/env bash
# One call for a machine with a GPU: builds with CUDA, runs the tests on the GPU and all others, and
# prints a summary. With PyTorch and transformers there, makes the fixtures of the oracle anew
# (fixtures.tar.gz) and compares with both libraries.
#   scripts/gpu-check.sh OUT [--only-gpu]
# Logs go to OUT. The exit status is 0 when everything passed. --only-gpu: only the tests on the GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/gpu-check.sh OUT [--only-gpu]}
only=${2:-}
mkdir -p "$out"
failed=()

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -n 1 | tr -d .)
scripts/build.sh cpu ${architecture:+-DSXT_CUDA_ARCHITECTURES=$architecture} > "$out/build.log" 2>&1 ||
  { tail -n 40 "$out/build.log"; exit 1; }
grep -E 'found:|missing:' "$out/build.log"
build/sextant --version
build/sextant doctor

# Most of the time of these tests is the CPU's reference in f64, so each module's are divided over some
# processes that run at once: `run_parts LOG PROGRAM FILTER [COMMAND...]` leaves LOG-0.log and so on, whose
# last lines are exit statuses.
parts=$(($(nproc) / 2 < 1 ? 1 : $(nproc) / 2 > 6 ? 6 : $(nproc) / 2))
run_parts() {
  local log=$1 program=$2 filter=$3 part
  shift 3
  for ((part = 0; part < parts; ++part)); do
    (GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part timeout 1800 "$@" "$program" --gtest_filter="$filter"
      echo "exit $?") > "$log-$part.log" 2>&1 &
  done
  wait
}

for program in build/*_test build/tests/system_test; do
  [ -x "$program" ] || continue
  name=$(basename "$program")
  count=$("$program" --gtest_list_tests --gtest_filter='*Cuda*' 2> /dev/null | grep -c '^  ')
  [ "$count" -gt 0 ] || continue
  log="$out/gpu-$name"
  run_parts "$log" "$program" '*Cuda*'
  passed=$(cat "$log"-*.log | grep -c '^\[       OK \]')
  skipped=$(cat "$log"-*.log | grep -cE '^\[  SKIPPED \] .*\(')
  printf 'gpu  %-18s %4d passed, %d skipped, of %d' "$name" "$passed" "$skipped" "$count"
  if [ "$(grep -lx 'exit 0' "$log"-*.log | wc -l)" -eq "$parts" ] && [ $((passed + skipped)) -eq "$count" ]; then
    echo
  else
    echo ": $log-*.log"
    cat "$log"-*.log | grep -E '^\[  FAILED  \] .*\(|Failure|error:|^exit [1-9]' | head -n 20
    failed+=("$name on the GPU")
  fi
done

# Kernels of our own under NVIDIA's compute-sanitizer: accesses beyond their memory, races in shared
# memory, reads of memory that nobody wrote. Tests without libraries, which have kernels of theirs.
kernels='ElementsCuda.*:NormsCuda.*:TokensCuda.*:UpdateCuda.*:ExpertsCuda.Routing*:ExpertsCuda.Permutations*:ExpertsCuda.Groups*'
kernels+=':CudaAttention.Queries*:CudaAttention.BlocksOfKeys*:CudaAttention.Merge*'
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck initcheck; do
    log="$out/sanitizer-$tool"
    run_parts "$log" build/ops_test "$kernels" timeout 900 compute-sanitizer --tool "$tool" --error-exitcode 99
    printf 'gpu  %-18s ' "$tool"
    if [ "$(grep -lx 'exit 0' "$log"-*.log | wc -l)" -eq "$parts" ]; then
      echo clean
    else
      echo "$(cat "$log"-*.log | grep '^exit' | sort | uniq -c | tr -s ' \n' ' ')(124: not done within 900 s): $log-*.log"
      cat "$log"-*.log | grep -E '^=========' | head -n 20
      failed+=("$tool: $log-*.log")
    fi
  done
else
  echo "gpu  compute-sanitizer is not there: kernels were not checked by it"
fi

# The commands of the pages that need a GPU.
python3 tests/pages/pages_test.py build/sextant --kind gpu > "$out/pages.log" 2>&1 || failed+=("pages: $out/pages.log")

if [ "$only" != --only-gpu ]; then
  if python3 -c 'import torch, transformers' 2> /dev/null; then
    python3 tests/oracle/make_fixtures.py "$out/fixtures" --sextant build/sextant > "$out/fixtures.log" 2>&1 ||
      { tail -n 40 "$out/fixtures.log"; failed+=("fixtures"); }
    tar -C "$out" -czf "$out/fixtures.tar.gz" fixtures
    rm -rf "$out/fixtures"
  fi
  ctest --test-dir build -j "$(nproc)" -LE gpu --output-on-failure > "$out/ctest.log" 2>&1 || failed+=("ctest")
  tail -n 30 "$out/ctest.log"
fi

if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "gpu-check: all passed"
