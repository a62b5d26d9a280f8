#!/usr/bin/env bash
# What takes longer than a change can wait: Clang, thread sanitizer, a build without the optional
# libraries, clang-tidy on everything, long fuzzing, and larger random counts in the tests
# (SXT_LONG=1, see tests/support/counts.h).
#   scripts/nightly.sh [seconds of fuzzing per target, default 600]
set -euo pipefail
cd "$(dirname "$0")/.."

fuzz_seconds=${1:-600}
failed=()
stage() {  # name, command...: goes on after a failure, so that one night shows all of them
  local name=$1 start=$SECONDS
  shift
  echo "=== $name"
  if "$@"; then echo "=== $name: ok, $((SECONDS - start)) s"; else failed+=("$name"); fi
}
test_preset() {  # preset, ctest options...
  local preset=$1
  shift
  scripts/build.sh "$preset" && ctest --preset "$preset" --parallel "$(nproc)" "$@"
}

# The optional libraries as if they were not there.
without_optional() {
  cmake --preset cpu-only -B build-bare -DSXT_ZSTD_INCLUDE=OFF -DSXT_PCRE2_INCLUDE=OFF &&
    cmake --build build-bare --parallel "$(nproc)" &&
    ctest --test-dir build-bare -L fast --output-on-failure --parallel "$(nproc)"
}

# The README's first command, on what a clone has.
quickstart() {
  local clone
  clone=$(mktemp -d)
  git clone -q . "$clone" && "$clone/quickstart.sh"
  local code=$?
  rm -rf "$clone"
  return $code
}

scripts/install-packages.sh build test ci nightly
scripts/python-env.sh --torch
export SXT_LONG=1
stage "gcc, all tests, large counts" test_preset cpu
stage "quickstart on a clean clone" quickstart
stage "clang, all tests" test_preset clang
stage "tsan, fast tests" test_preset tsan
stage "no zstd, no PCRE2, fast tests" without_optional
# Random layouts that gcc has run for hours: they add no memory access of their own.
stage "asan, all tests" test_preset asan -L 'fast|slow' -E SlowFalseAlarms
stage "mutants" scripts/mutants.py
stage "broken lifetimes" scripts/lifetimes.py
stage "results, bit by bit" scripts/results.py compare tests/results/baseline.json
stage "extreme settings" scripts/extremes.py --count 1000
stage tidy scripts/tidy.sh
stage "fuzz, $fuzz_seconds s each" scripts/fuzz.sh "$fuzz_seconds"

if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "all passed in $SECONDS s"
