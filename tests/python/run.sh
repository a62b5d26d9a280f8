#!/usr/bin/env bash
# Runs one Python test file in .venv: tests/python/run.sh FILE. Exit code 77 means skipped: there is
# no .venv, or a library that the whole file needs is not in it.
set -euo pipefail
python=$(dirname "$0")/../../.venv/bin/python
if [ ! -x "$python" ]; then
  echo "no .venv: scripts/python-env.sh makes it"
  exit 77
fi
status=0
"$python" -m pytest -q -rs -p no:cacheprovider "$@" || status=$?
if [ $status -eq 5 ]; then exit 77; fi  # pytest's code for: no test was run
exit $status
