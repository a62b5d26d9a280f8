#pragma once
// What the attention kernels take. A head is numbered by its group, which shares a key-value head,
// and its place in the group.
#include <cuda_runtime.h>

#include <cstdint>

#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant::cuda {

struct AttentionSizes {
  int batch = 0, groups = 0, heads = 0;  // heads of one group
  int seq = 0, kv_seq = 0, head_dim = 0;
};

// Where rows lie, in elements: row i of a head at batch_row * batch + group * group_stride + ...
struct RowLayout {
  int64_t batch = 0, group = 0, head = 0, row = 0;
  __host__ __device__ int64_t at(int batch_row, int group_of_heads, int head_of_group) const {
    return batch_row * batch + group_of_heads * group + head_of_group * head;
  }
};

// A result of the compute type or, when `is_wide`, of f32.
struct Result {
  void* data = nullptr;
  bool is_wide = false;
  RowLayout layout;
};

// Rows of the batch whose results are there already: those with a length other than 0.
struct DoneRows {
  const int32_t* lengths = nullptr;  // null: none is
  int64_t stride = 1;                // from row to row
  const int32_t* are_all = nullptr;  // 1 if all are, else 0; with lengths
  __device__ bool has(int batch_row) const {
    return lengths != nullptr && lengths[batch_row * stride] != 0;
  }
  __device__ bool has_all() const { return lengths != nullptr && *are_all != 0; }
};

// Keys [x, y) for each query, [batch, seq]; neither bound decreases along a row.
struct ForwardArgs {
  AttentionSizes sizes;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  RowLayout q_layout, kv_layout;
  const int2* ranges = nullptr;
  DoneRows done;
  Result out;
  float* lse = nullptr;  // [batch, heads, seq], or null
};

// Gradients: delta = rowsum(dout * out), P = exp(score - lse), dS = P * (dout v^T - delta).
struct BackwardArgs {
  AttentionSizes sizes;
  const void *q = nullptr, *k = nullptr, *v = nullptr, *dout = nullptr;
  RowLayout q_layout, kv_layout, dout_layout;
  const int2* ranges = nullptr;
  DoneRows done;
  const float *lse = nullptr, *delta = nullptr;
  Result dq, dk, dv;
  Write write_dq = Write::Replace;   // or Chain
  Write write_dkv = Write::Replace;  // or Add
};

// `dtype` is that of the inputs: f32, bf16 or f16.
void attend(Stream& stream, DType dtype, const ForwardArgs& args);
void attend_backward(Stream& stream, DType dtype, const BackwardArgs& args);
// The two halves of attend_backward.
void keys_backward(Stream& stream, DType dtype, const BackwardArgs& args);
void queries_backward(Stream& stream, DType dtype, const BackwardArgs& args);

}  // namespace sextant::cuda
