#!/usr/bin/env bash
# Builds a copy in a directory with spaces in its name, CUDA and all, and runs the house tests there.
#   spaces.sh SOURCE_DIR
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
copy="$scratch/a directory with spaces"
mkdir "$copy"
tar -C "$1" --exclude='./build*' --exclude=./.git --exclude=./.venv --exclude=./out -cf - . |
  tar -C "$copy" -xf -

cd "$copy"
scripts/install-packages.sh build
SXT_TARGET=sextant_tensor scripts/build.sh cpu -DSXT_CUDA_ARCHITECTURES=90 -DSXT_UNITY=ON
SXT_TARGET=house_test scripts/build.sh cpu
ctest --test-dir build -R '^(Modules|SmallHouse|MarkdownLinks)\.' --output-on-failure --no-tests=error
