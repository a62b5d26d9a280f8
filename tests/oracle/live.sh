#!/usr/bin/env bash
# live.sh SEXTANT SYSTEM_TEST: makes the fixtures with what is installed here and runs the oracle's
# tests on them. Exit 77: PyTorch or transformers is not installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$here/../../.venv/bin/python
[ -x "$python" ] || python=python3
"$python" -c 'import torch, transformers, safetensors' 2>/dev/null || {
  echo "skipped: PyTorch is not installed; scripts/python-env.sh --torch installs it"
  exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$here/make_fixtures.py" "$folder" --sextant "$1"
SXT_ORACLE_FIXTURES=$folder "$2" --gtest_filter='*Oracle*'
