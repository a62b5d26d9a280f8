#pragma once
// Matrix products of fp8 by cuBLASLt, which on Hopper takes operands whose numbers along k are next
// to each other. For matmul alone.
#include "ops/cuda/gemm.h"

namespace sextant::cuda {

// How the scales of an operand lie in memory (f32).
//   One     one for all
//   Tiles   of 1 x 128: [tiles of k, lines]
//   Blocks  of 128 x 128: [blocks of lines, blocks of k rounded up to a multiple of 4]
enum class Fp8Scales : uint8_t { One, Tiles, Blocks };

struct Fp8Operand {
  const std::byte* data = nullptr;  // [lines, k]
  DType type = DType::F8E4M3;
  const float* scales = nullptr;
  Fp8Scales layout = Fp8Scales::One;
};

// Row-major: c[m, n] = end(a * b^T + beta * c) of the numbers times their scales.
struct Fp8Gemm {
  int64_t m = 0, n = 0, k = 0;
  Fp8Operand a, b;
  DType c_type = DType::BF16;  // also of bias and auxiliary
  std::byte* c = nullptr;
  float beta = 0;
  GemmEnd end = GemmEnd::None;
  const std::byte* bias = nullptr;
  std::byte* auxiliary = nullptr;
};

// False, and nothing done, where the library has no kernel. Sums of two E4M3 operands with one
// scale each are accumulated fast, as tensor cores keep them; those with an E5M2 operand, which is
// a gradient, and those with scales of blocks are added up in f32.
bool fp8_gemm(Stream& stream, const Fp8Gemm& problem);

}  // namespace sextant::cuda
