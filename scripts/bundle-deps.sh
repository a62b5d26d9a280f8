#!/usr/bin/env bash
# Copies the header-only libraries and static libraries of this machine into .deps/, for building on
# a machine of the same kind with no package manager: carry the folder along, CMake looks there.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf .deps
mkdir -p .deps/include .deps/lib

find_in() {  # name, directories: the first that has it
  local name=$1 dir
  shift
  for dir in "$@"; do
    if [ -e "$dir/$name" ]; then echo "$dir/$name"; return; fi
  done
  echo "$name is not on this machine: scripts/install-packages.sh build" >&2
  return 1
}
header() { cp -rL "$(find_in "$1" /usr/local/include /usr/include)" .deps/include/; }
library() {
  cp -L "$(find_in "$1" /usr/local/lib "/usr/lib/$(c++ -print-multiarch)" /usr/lib64 /usr/lib)" .deps/lib/
}
for name in CLI toml++ nlohmann fmt xxhash.h zstd.h zstd_errors.h zdict.h pcre2.h; do header "$name"; done
for name in libzstd.a libpcre2-8.a; do library "$name"; done
# Headers only; pip's nvidia-cudnn-frontend puts them into the folder include of site-packages.
packages=$(python3 -c "import sysconfig; print(sysconfig.get_path('purelib'))" 2>/dev/null || true)
if frontend=$(find_in cudnn_frontend.h /usr/local/include /usr/include "$packages/include" 2>/dev/null); then
  cp -rL "$(dirname "$frontend")"/cudnn_frontend* "$(dirname "$frontend")"/cudnn_backend_base.h .deps/include/
else
  echo "without cudnn_frontend.h (pip install nvidia-cudnn-frontend): attention will not use cuDNN" >&2
fi
du -sh .deps
