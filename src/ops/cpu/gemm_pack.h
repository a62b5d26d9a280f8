#pragma once
#include "base/range.h"
#include "ops/cpu/gemm.h"
#include "tensor/convert.h"

namespace sextant::cpu {

// Copies `lines` lines by `k` of an operand, as T, from (first_line, first_k), into panels of
// `width` lines: panel after panel, each [k][width]. Missing lines of the last panel become zeros.
// Elements of fp8 are multiplied by `scale`.
template <class T>
void pack(T* out, const Operand& from, int64_t first_line, int64_t lines, int64_t first_k,
          int64_t k, int64_t width, float scale = 1);

// The same for an operand of bf16 in pairs of neighbours along k: words of 32 bits, the even k in
// the upper half; an odd last k is paired with `rest`. `k` is the range of elements, from an even
// one; panels are [words][width].
void pack_pairs(float* out, const Operand& from, int64_t first_line, int64_t lines, const Range& k,
                int64_t width, bf16 rest);

// What an odd last k is paired with, in a and in b: a product of -0, which leaves every sum as it
// is.
inline constexpr bf16 kNegativeZero{0x8000}, kZero{0};

}  // namespace sextant::cpu
