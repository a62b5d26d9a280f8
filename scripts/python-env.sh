#!/usr/bin/env bash
# Makes .venv from tests/python/requirements.txt, with --torch PyTorch in it too, with --cudnn the
# headers of cudnn-frontend; does nothing when all of that is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# Installs what a file lists into .venv, unless it was installed as it is.
install() {  # file, pip options...
  local wanted=tests/python/$1 stamp=.venv/$1
  shift
  if cmp -s "$wanted" "$stamp"; then return; fi
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$@" -r "$wanted" &&
    cp "$wanted" "$stamp"
}
make_environment() {
  if ! { [ -x .venv/bin/python ] && .venv/bin/python -c ''; } ||
    ! cmp -s tests/python/requirements.txt .venv/requirements.txt; then
    echo "Making .venv for the Python tests"
    rm -rf .venv
    python3 -m venv .venv || return
  fi
  install requirements.txt || return
  if [ "${1:-}" = --torch ]; then install requirements-torch.txt; fi
  # Without what its Python modules need: a compiler of kernels, half a gigabyte.
  if [ "${1:-}" = --cudnn ]; then install requirements-cudnn.txt --no-deps; fi
}

if ! make_environment "$@"; then
  rm -rf .venv
  echo "The Python libraries could not be installed. All other tests: scripts/build.sh && ctest --preset cpu" >&2
  exit 1
fi
