#!/usr/bin/env bash
# Packages, build, every test, the Python ones too. Options go to CMake: ./test.sh -DSXT_CUDA=OFF
set -euo pipefail
cd "$(dirname "$0")"

scripts/install-packages.sh build test
scripts/python-env.sh
scripts/build.sh cpu -DSXT_CUDA=ON -DSXT_UNITY=ON "$@"
exec ctest --preset cpu --parallel "$(nproc)"
