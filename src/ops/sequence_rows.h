#pragma once
#include <span>

#include "ops/dispatch.h"

namespace sextant {

// Tokens between the sequence as one tensor and the parts of it that ranks hold. For every row of
// the batch, the parts one after the other count as one sequence too: token i of row b is token
// i % seq of row b of part i / seq.
//   whole: [batch * length, ...]   parts: [ranks, batch * seq, ...], ... of any shape and type

// Part r has the r-th chunk of the sequence: length = ranks * seq.
void join_sequence(Stream& stream, Tensor& whole, const Tensor& parts, int64_t batch);
void split_sequence(Stream& stream, Tensor& parts, const Tensor& whole, int64_t batch);

// Tokens in_parts ... + count - 1 of the parts are tokens in_whole ... + count - 1 of the whole, in
// every row of the batch.
struct TokenChunk {
  int64_t in_parts = 0, in_whole = 0, count = 0;
};

// The same by a list of chunks that meet no token twice, such as zigzag order; tokens that no chunk
// has stay as they are where they would be written. `parts` may lack its first dim, as one part.
void gather_chunks(Stream& stream, Tensor& whole, const Tensor& parts, int64_t batch,
                   std::span<const TokenChunk> chunks);
void scatter_chunks(Stream& stream, Tensor& parts, const Tensor& whole, int64_t batch,
                    std::span<const TokenChunk> chunks);

}  // namespace sextant
