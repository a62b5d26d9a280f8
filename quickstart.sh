#!/usr/bin/env bash
# From a clean clone to a trained model: packages, build, demo. Needs nothing but a shell and apt.
set -euo pipefail
cd "$(dirname "$0")"

scripts/install-packages.sh build
scripts/build.sh cpu
exec build/sextant demo "$@"
