#!/usr/bin/env bash
# Packages, build, every test, the Python ones too. Options go to CMake: ./test.sh -DSXT_CUDA=OFF
set -euo pipefail
cd "$(dirname "$0")"

scripts/install-packages.sh build test
scripts/python-env.sh
# With CUDA for the GPU that is here, if there is one; `-DSXT_CUDA=ON` compiles the CUDA parts anyway.
architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d . || true)
scripts/build.sh cpu -DSXT_CUDA="$([ -n "$architecture" ] && echo ON || echo OFF)" \
  -DSXT_CUDA_ARCHITECTURES="${architecture:-90}" -DSXT_UNITY=ON "$@"
# One more than cores: many tests wait for processes.
exec ctest --preset cpu --parallel "$(($(nproc) + 1))"
