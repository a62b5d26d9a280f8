#!/usr/bin/env bash
# Formats the sources; with --check only says which are not formatted, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

action=(-i)
if [ "${1:-}" = --check ]; then action=(--dry-run -Werror); fi
git ls-files -z --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' |
  while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
  xargs -0 -r -n 20 -P "$(nproc)" clang-format "${action[@]}"
