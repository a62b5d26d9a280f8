#pragma once
#include "ops/cuda/attention_args.h"

namespace sextant::cuda {

// Error(Usage) for f64.
void check_type(const char* op, DType dtype);

// How queries, keys and values, and rows of [tokens, heads * head_dim] lie (see Heads).
AttentionSizes sizes_of(const Heads& heads, int64_t kv_seq);
RowLayout query_layout(const Heads& heads);
RowLayout fused_kv_layout(const Heads& heads);
RowLayout packed_kv_layout(const Heads& heads, int64_t kv_seq);
RowLayout out_layout(const Heads& heads);

// A place in a tensor, `elements` behind its first.
const void* place_in(const Tensor& tensor, int64_t elements);
Result result_in(Tensor& tensor, int64_t elements, const RowLayout& layout);

// delta = rowsum(dout * out): [batch, heads, seq], except in rows of the batch that are done.
void write_delta(Stream& stream, float* delta, const Tensor& dout, const Tensor& out,
                 const Heads& heads, const DoneRows& done);

}  // namespace sextant::cuda
