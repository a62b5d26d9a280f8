#!/usr/bin/env bash
# Runs one Python test file in .venv: tests/python/run.sh FILE. Exit code 77 means skipped.
set -euo pipefail
python=$(dirname "$0")/../../.venv/bin/python
if [ ! -x "$python" ]; then
  echo "no .venv: scripts/python-env.sh makes it"
  exit 77
fi
exec "$python" -m pytest -q -p no:cacheprovider "$@"
