#pragma once
#include <span>

#include "ops/dispatch.h"

namespace sextant {

// Copies tokens between whole sequences and the parts that ranks hold (context parallel). In each
// row of the batch, the concatenated parts are numbered as one sequence: token i of row b is token
// i % seq of row b of part i / seq.
//   whole: [batch * length, ...]   parts: [ranks, batch * seq, ...], ... of any shape and type

// For parts that are consecutive chunks of the sequence: length = ranks * seq.
void join_sequence(Stream& stream, Tensor& whole, const Tensor& parts, int64_t batch);
void split_sequence(Stream& stream, Tensor& parts, const Tensor& whole, int64_t batch);

// In every row of the batch, `count` tokens from in_parts on are the tokens of the whole from
// in_whole on.
struct TokenChunk {
  int64_t in_parts = 0, in_whole = 0, count = 0;
};

// A list of disjoint chunks, checked once: an operation then compares only its ends with the
// tensors. The list must outlive this.
class TokenChunks {
 public:
  TokenChunks() = default;
  explicit TokenChunks(std::span<const TokenChunk> list);

  std::span<const TokenChunk> list() const { return list_; }
  int64_t tokens() const { return tokens_; }  // of all chunks
  int64_t parts_end() const { return parts_end_; }
  int64_t whole_end() const { return whole_end_; }

 private:
  std::span<const TokenChunk> list_;
  int64_t tokens_ = 0, parts_end_ = 0, whole_end_ = 0;
};

// The same for a list of chunks, for example in zigzag order; output tokens in no chunk stay
// unchanged. `parts` of a single rank may omit the first dim.
void gather_chunks(Stream& stream, Tensor& whole, const Tensor& parts, int64_t batch,
                   const TokenChunks& chunks);
void scatter_chunks(Stream& stream, Tensor& parts, const Tensor& whole, int64_t batch,
                    const TokenChunks& chunks);

}  // namespace sextant
