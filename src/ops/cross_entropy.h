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
// are passed over. targets: [tokens], i32, -1 for a token that does not count; a target outside the
// vocabulary is reported as Error(Data) and taken as -1.
void cross_entropy_chunk(Stream& stream, Tensor& running, const Tensor& logits,
                         const Tensor& targets, int64_t first_column, int64_t vocab);

// The running values of a vocabulary whose columns are spread over ranks, from those of the ranks,
// joined in rank order as chunks would be. A rank whose columns are all padding adds nothing.
//   parts: [ranks, tokens, 3]   running: [tokens, 3], replaced
void cross_entropy_join(Stream& stream, Tensor& running, const Tensor& parts);

// loss = lse - logit of the target + z_loss * lse^2 with lse the log-sum-exp, both 0 where the
// target is -1.   loss, lse: [tokens]
void cross_entropy_end(Stream& stream, Tensor& loss, Tensor& lse, const Tensor& running,
                       const Tensor& targets, double z_loss = 0);

// logits become their gradient: (softmax - one at the target + 2 z_loss lse softmax) * scale, 0 for
// padding and for tokens that do not count.   scale: [1], f64
void cross_entropy_backward(Stream& stream, Tensor& logits, const Tensor& lse,
                            const Tensor& targets, int64_t first_column, int64_t vocab,
                            const Tensor& scale, double z_loss = 0);

}  // namespace sextant
