#!/usr/bin/env bash
# From a clean clone to a trained model: packages, build, demo. Needs nothing but a shell and apt.
set -euo pipefail
cd "$(dirname "$0")"

scripts/install-packages.sh build
# The program alone; its CUDA parts only where there is a GPU to run them.
cuda=OFF
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then cuda=ON; fi
SXT_TARGET=sextant scripts/build.sh cpu -DSXT_CUDA=$cuda -DSXT_UNITY=ON
exec build/sextant demo "$@"
