#!/usr/bin/env bash
# Configures and builds one preset; installs nothing.
#   scripts/build.sh [preset] [cmake options...]    default preset: cpu, which makes build/sextant
# SXT_TARGET, when set, names the only targets to build.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=cpu
if [ $# -gt 0 ] && [[ $1 != -* ]]; then preset=$1; shift; fi
if ! command -v cmake >/dev/null || ! command -v c++ >/dev/null; then
  echo "A C++ compiler and CMake are needed: scripts/install-packages.sh build" >&2
  exit 1
fi
# A clone elsewhere finds what this one has compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
generator=()  # the presets name Ninja
if ! command -v ninja >/dev/null; then generator=(-G "Unix Makefiles"); fi

if ! cmake --preset "$preset" ${generator[@]+"${generator[@]}"} "$@"; then
  echo "Configuring failed. To install missing packages: scripts/install-packages.sh build" >&2
  exit 1
fi
cmake --build --preset "$preset" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" \
  ${SXT_TARGET:+--target $SXT_TARGET}
