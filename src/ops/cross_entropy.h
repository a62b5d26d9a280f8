#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Cross entropy over a vocabulary that arrives in chunks of columns, so that neither all logits nor
// any probability need exist at once. Call begin, then chunk for columns 0...vocab in order, then
// end. Chunks that start at multiples of kVocabBlock give the same bits as one chunk of everything.
inline constexpr int64_t kVocabBlock = 1024;

// Running values of each token: [tokens, 3] = largest logit, sum of exp(logit - largest), logit of
// the target.
void cross_entropy_begin(Stream& stream, Tensor& running);

// logits: [tokens, width], columns first_column ... ; those at or beyond `vocab` are padding and
// are passed over. targets: [tokens], i32, -1 for a token that does not count.
void cross_entropy_chunk(Stream& stream, Tensor& running, const Tensor& logits,
                         const Tensor& targets, int64_t first_column, int64_t vocab);

void cross_entropy_join(Stream& stream, Tensor& running, const Tensor& parts);

// loss = log-sum-exp - logit of the target, 0 where the target is -1.   loss, lse: [tokens]
void cross_entropy_end(Stream& stream, Tensor& loss, Tensor& lse, const Tensor& running,
                       const Tensor& targets);

// logits become their gradient: (softmax - one at the target) * scale, 0 for padding and for tokens
// that do not count.
void cross_entropy_backward(Stream& stream, Tensor& logits, const Tensor& lse,
                            const Tensor& targets, int64_t first_column, int64_t vocab,
                            double scale);

}  // namespace sextant
