#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Loss and gradient of whole logits at once, for what the two halves below give one after the
// other: running, loss and lse as after cross_entropy_end, logits replaced as by
// cross_entropy_backward. The same bits on the CPU; a GPU reads and writes the logits once.
//   loss, lse: [tokens]   running: [tokens, 3]   logits: [tokens, width]   scale: [1], f64
void cross_entropy(Stream& stream, Tensor& loss, Tensor& lse, Tensor& running, Tensor& logits,
                   const Tensor& targets, int64_t vocab, const Tensor& scale, double z_loss = 0);

// Cross entropy over chunks of vocabulary columns, without materializing all logits or any
// probabilities. Call begin, then chunk for columns 0 ... vocab - 1 in order, then end. Chunks that
// start at multiples of kVocabBlock give the same bits as a single chunk.
inline constexpr int64_t kVocabBlock = 1024;

// running: [tokens, 3] = max logit, sum of exp(logit - max), logit of the target (online softmax).
void cross_entropy_begin(Stream& stream, Tensor& running);

// logits: [tokens, width], columns from first_column on; those at or beyond `vocab` are padding and
// are skipped. targets: [tokens], i32, -1 for an ignored token; a target outside the vocabulary is
// reported as Error(Data) and taken as -1.
void cross_entropy_chunk(Stream& stream, Tensor& running, const Tensor& logits,
                         const Tensor& targets, int64_t first_column, int64_t vocab);

// Merges the running values of ranks that each hold some vocabulary columns (vocabulary parallel),
// in rank order like chunks. A rank whose columns are all padding adds nothing.
//   parts: [ranks, tokens, 3]   running: [tokens, 3], replaced
void cross_entropy_join(Stream& stream, Tensor& running, const Tensor& parts);

// lse = log-sum-exp of the logits, loss = lse - target logit + z_loss * lse^2; both 0 where the
// target is -1.   loss, lse: [tokens]
void cross_entropy_end(Stream& stream, Tensor& loss, Tensor& lse, const Tensor& running,
                       const Tensor& targets, double z_loss = 0);

// Replaces logits by their gradient: (softmax - one_hot(target) + 2 z_loss lse softmax) * scale, 0
// for padding and ignored tokens.   scale: [1], f64
void cross_entropy_backward(Stream& stream, Tensor& logits, const Tensor& lse,
                            const Tensor& targets, int64_t first_column, int64_t vocab,
                            const Tensor& scale, double z_loss = 0);

}  // namespace sextant
