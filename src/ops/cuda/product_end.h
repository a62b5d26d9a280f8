#pragma once
// The ends of products: what a library's kernel can do, and what a kernel of ours does after it.
// For matmul alone.
#include <optional>

#include "ops/cuda/gemm.h"

namespace sextant::cuda {

// Rows first ... first + count of c, whose sums lie in `sums`, or in c where sums is c; null: 0.
struct Rows {
  int64_t first, count;
  const float* sums;
  bool starts_from_c, adds;
};

// The end of these rows of c, in the order of Epilogue.   type: of bias and pre-activation
void finish(Stream& stream, Tensor& c, DType type, const Epilogue& epilogue, const Rows& rows);

// The end that the library would have to fuse; nothing if it has none such. Its GELU is not meant
// for the precision of f32.
std::optional<GemmEnd> fused_end(DType type, const Epilogue& epilogue);

}  // namespace sextant::cuda
