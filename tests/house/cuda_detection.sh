#!/usr/bin/env bash
# Configures the tree as if CUDA were absent, half there, broken or too old, with toolkits made of a
# script and empty files, and with the real one where there is one. None may fail to configure.
#   cuda_detection.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
real_path=$PATH

# Only the tools the configure step needs, so that no real nvcc is on the path.
if [ -e /usr/bin/nvcc ]; then echo "nvcc is in /usr/bin and cannot be hidden"; exit 77; fi
mkdir "$scratch/tools"
for tool in cmake ninja; do ln -s "$(command -v "$tool")" "$scratch/tools/$tool"; done
unset CUDACXX CUDA_PATH CUDA_HOME CUDAHOSTCXX LIBRARY_PATH CMAKE_PREFIX_PATH

# toolkit NAME VERSION: a directory with an nvcc that answers questions but compiles nothing.
toolkit() {
  local root=$scratch/$1
  mkdir -p "$root/bin" "$root/include" "$root/lib64"
  cat >"$root/bin/nvcc" <<NVCC
#!/bin/sh
case "\$*" in
  *__cmake_determine_cuda*) echo "#\$ TOP=$root" >&2; exit 1 ;;
  *--version* | *-V*) echo "Cuda compilation tools, release ${2%.*}, V$2" ;;
  *) echo "nvcc: broken" >&2; exit 1 ;;
esac
NVCC
  chmod +x "$root/bin/nvcc"
  touch "$root/include/cuda_runtime.h" "$root/lib64/libcudart.so" "$root/lib64/libcudart_static.a"
}
give_cublas() {  # NAME
  touch "$scratch/$1/include/"{cublas_v2.h,cublasLt.h} "$scratch/$1/lib64/"{libcublas.so,libcublasLt.so}
}

failures=0
# expect NAME TEXT SOURCE [cmake options...]: the report has TEXT and the build has SOURCE.
expect() {
  local name=$1 text=$2 source=$3 log=$scratch/$1.log build="$scratch/build $1"
  shift 3
  if ! cmake -S "$source_dir" -B "$build" -G Ninja "$@" >"$log" 2>&1; then
    echo "$name: configure failed"; failures=1
  elif ! grep -qF -- "$text" "$log"; then
    echo "$name: no line with '$text'"; failures=1
  elif ! grep -qF "$source" "$build/build.ninja"; then
    echo "$name: $source is not built"; failures=1
  else
    echo "$name: $(grep -F -- "$text" "$log")"
    return
  fi
  cat "$log"
}

cpu=tensor/no_cuda/gpus.cpp
gpu=tensor/cuda/gpus.cu
PATH=$scratch/tools:/usr/bin:/bin
hide=(-DCMAKE_IGNORE_PATH="/usr/local/bin;/usr/local/lib;/usr/local/lib64")
mkdir "$scratch/nothing"
expect absent "missing: nvcc (GPUs, the build goes on for the CPU)" $cpu \
  "${hide[@]}" -DCUDAToolkit_ROOT="$scratch/nothing"
toolkit half 13.0.88
expect half "missing: libcublas (nvcc 13.0.88 is there)" $cpu "${hide[@]}" -DCUDAToolkit_ROOT="$scratch/half"
toolkit "no headers" 13.0.88
give_cublas "no headers"
rm "$scratch/no headers/include/cublasLt.h"
expect "no headers" "missing: cublasLt.h (nvcc 13.0.88 is there)" $cpu \
  "${hide[@]}" -DCUDAToolkit_ROOT="$scratch/no headers"
toolkit old 12.4.131
give_cublas old
expect old "missing: CUDA 13.0 or later (found 12.4.131)" $cpu "${hide[@]}" -DCUDAToolkit_ROOT="$scratch/old"
toolkit broken 13.0.88
give_cublas broken
expect broken "missing: an nvcc that can compile" $cpu "${hide[@]}" -DCUDAToolkit_ROOT="$scratch/broken"
expect off "not looked for, SXT_CUDA=OFF" $cpu -DSXT_CUDA=OFF

PATH=$real_path
nvcc=$(command -v nvcc || true)
if [ -e "$(dirname "$nvcc")/../include/cublasLt.h" ]; then
  expect complete "found: CUDA" $gpu
else
  echo "complete: no real toolkit on this machine, not tried"
fi
exit $failures
