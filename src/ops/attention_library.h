#pragma once
// Attention by cuDNN, NVIDIA's library, for what it is faster at: bf16 and f16 without a window,
// rows of the batch that are one document. cudnn/ calls it; no_cudnn/ stands in for it in builds
// without.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "ops/heads.h"

struct CUstream_st;

namespace sextant::cudnn {

// "" if the library can be used; otherwise why not: this build has none, it cannot be loaded.
std::string why_unusable();

// The memory that attention_backward works in, a bound that depends on the arguments only; 0 for
// what the library is not asked to do.
int64_t workspace_bytes(const Heads& heads, DType dtype);

// What all calls take: a CUDA stream, the lengths of the rows of the batch in device memory (seq,
// or 0 for a row that is to be passed over, whose results are then unspecified) and work memory.
//   lengths: [batch, lengths_per_row(heads)], i32, all of a row equal
struct Call {
  CUstream_st* queue = nullptr;
  const int32_t* lengths = nullptr;
  std::span<std::byte> workspace;
  DType dtype = DType::BF16;
  Heads heads;
};
int64_t lengths_per_row(const Heads& heads);

// Addresses in device memory, of tensors as in ops/attention.h. False, and nothing is done, when
// the library cannot be loaded, refuses the shape or needs more work memory: one line on stderr
// says so, once. attention_backward adds to dq atomically: its last bits change from run to run.
bool attention(const Call& call, void* out, float* lse, const void* qkv);
bool attention_backward(const Call& call, void* dqkv, const void* dout, const void* out,
                        const float* lse, const void* qkv);

}  // namespace sextant::cudnn
