#pragma once
// Matrix products by cuBLASLt, with the ends that it can fuse. For matmul alone.
#include "base/function_ref.h"
#include "ops/matmul_workspace.h"

namespace sextant::cuda {

// What becomes of a finished sum inside the library's kernel. Auxiliary: the pre-activation,
// written by GeluAux, read by GeluBackward. GELU is the form by tanh. SumsOfA writes the sum over k
// of each row of op(a) to where `bias` is, in the type of c.
enum class GemmEnd { None, Bias, Gelu, GeluBias, GeluAux, GeluAuxBias, GeluBackward, SumsOfA };

// An operand in fp8, whose numbers along k are next to each other in memory.
struct Fp8Operand {
  Fp8Scales order = Fp8Scales::None;  // None: it is not fp8
  DType type = DType::F8E4M3;
  const float* scales = nullptr;
};

// Row-major: c[m, n] = end(op(a) * op(b) + beta * c), summed in f32; in fp8 of the numbers times
// their scales. There sums of two E4M3 operands with one scale each are accumulated fast, as tensor
// cores keep them; those with an E5M2 operand, which is a gradient, and those with scales of tiles
// or blocks are added up in f32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::F32;    // of a, b, bias and auxiliary; a and b may both be fp8
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
  Fp8Operand fp8_a = {}, fp8_b = {};

  bool is_fp8() const { return fp8_a.order != Fp8Scales::None; }
  DType a_type() const { return is_fp8() ? fp8_a.type : type; }
  DType b_type() const { return is_fp8() ? fp8_b.type : type; }
};

// Bytes of the shared scratch, from its start, that a product may use.
inline constexpr int64_t kGemmWorkspace = int64_t{32} << 20;

// False, and nothing done, where the library has no kernel for the shape, alignment and end. The
// same call always has the same kernel, whose sums have a fixed order.
bool gemm(Stream& stream, const Gemm& problem);

// The same for a product with an end that `other` does too, with the same results in the same
// places. False, and nothing done, also where `other` was the faster one when both were measured,
// or was not to be measured (tune_matmul).
bool gemm_if_faster(Stream& stream, const Gemm& problem, FunctionRef<void()> other);

}  // namespace sextant::cuda
