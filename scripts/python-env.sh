#!/usr/bin/env bash
# Makes .venv from tests/python/requirements.txt; does nothing when that file has not changed.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=tests/python/requirements.txt
stamp=.venv/requirements.txt
[ -e "$wanted" ] || exit 0
if [ -x .venv/bin/python ] && cmp -s "$wanted" "$stamp" && .venv/bin/python -c ''; then exit 0; fi

echo "Making .venv for the Python tests"
rm -rf .venv
if ! { python3 -m venv .venv &&
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input -r "$wanted"; }; then
  rm -rf .venv
  echo "The Python libraries could not be installed. All other tests: scripts/build.sh && ctest --preset cpu" >&2
  exit 1
fi
cp "$wanted" "$stamp"
