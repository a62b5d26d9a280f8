#!/usr/bin/env bash
# Formats the sources; with --check only says which are not formatted, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

action=(-i)
if [ "${1:-}" = --check ]; then action=(--dry-run -Werror); fi
find src tests bench \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r -n 20 -P "$(nproc)" clang-format "${action[@]}"
