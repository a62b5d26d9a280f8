#!/usr/bin/env bash
# clang-tidy over all sources, or over the files given; every finding is an error.
#   scripts/tidy.sh [file.cpp ...]
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset clang >/dev/null
# The sources of the compiled modules; what another toolchain builds is not in the database.
compiled() { sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build-clang/compile_commands.json; }
if [ $# -gt 0 ]; then printf '%s\0' "$@"; else compiled | sort -u | tr '\n' '\0'; fi |
  xargs -0 -r -n 1 -P "$(nproc)" clang-tidy -p build-clang --quiet
