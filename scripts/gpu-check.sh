#!/usr/bin/env bash
# One call for a machine with PyTorch, transformers and a GPU: builds, makes the fixtures of the oracle
# anew (fixtures.tar.gz), runs all tests, the live comparison with both libraries among them.
#   scripts/gpu-check.sh OUT
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/gpu-check.sh OUT}
mkdir -p "$out"
scripts/build.sh cpu > "$out/build.log" 2>&1 || { tail -n 40 "$out/build.log"; exit 1; }
grep -E 'found:|missing:' "$out/build.log"
build/sextant --version
build/sextant doctor
python3 tests/oracle/make_fixtures.py "$out/fixtures" --sextant build/sextant > "$out/fixtures.log" 2>&1 ||
  tail -n 40 "$out/fixtures.log"
tar -C "$out" -czf "$out/fixtures.tar.gz" fixtures
rm -rf "$out/fixtures"
ctest --test-dir build -j "$(nproc)" --output-on-failure > "$out/ctest.log" 2>&1
tail -n 30 "$out/ctest.log"
