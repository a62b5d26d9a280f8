#pragma once
// Matrix products by cuBLASLt, with the ends that it can fuse. For matmul alone.
#include "ops/matmul.h"

namespace sextant::cuda {

// What becomes of a finished sum inside the library's kernel. Auxiliary: the pre-activation,
// written by GeluAux, read by GeluBackward. GELU is the form by tanh.
enum class GemmEnd { None, Bias, Gelu, GeluBias, GeluAux, GeluAuxBias, GeluBackward };

// Row-major: c[m, n] = end(op(a) * op(b) + beta * c), summed in f32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::F32;    // of a, b, bias and auxiliary
  DType c_type = DType::F32;  // `type` or f32; `type` with an end
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::byte* c = nullptr;
  Transpose transpose_a = Transpose::No, transpose_b = Transpose::No;
  int64_t a_stride = 0, b_stride = 0;  // elements between rows in memory; those of c have n
  float beta = 0;
  GemmEnd end = GemmEnd::None;
  const std::byte* bias = nullptr;
  std::byte* auxiliary = nullptr;
};

// Bytes of the shared scratch, from its start, that a product may use.
inline constexpr int64_t kGemmWorkspace = int64_t{32} << 20;

// False, and nothing done, where the library has no kernel for the shape, alignment and end. The
// same call always has the same kernel, whose sums have a fixed order.
bool gemm(Stream& stream, const Gemm& problem);

}  // namespace sextant::cuda
