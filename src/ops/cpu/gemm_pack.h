#pragma once
#include "ops/cpu/gemm.h"

namespace sextant::cpu {

// Copies `lines` lines by `k` of an operand, as T, from (first_line, first_k), into panels of
// `width` lines: panel after panel, each [k][width]. Missing lines of the last panel become zeros.
template <class T>
void pack(T* out, const Operand& from, int64_t first_line, int64_t lines, int64_t first_k,
          int64_t k, int64_t width);

}  // namespace sextant::cpu
