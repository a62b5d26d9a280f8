#include "infer/evaluate.h"

#include <cmath>

#include "ops/sum.h"
#include "tensor/copy.h"

namespace sextant {

double Evaluation::perplexity() const {
  return std::exp(loss);
}

Evaluator::Evaluator(Stream& stream, Transformer& model)
    : model_(model), sum_(stream.arena().allocate(Category::Workspace, DType::F64, {1})) {}

void Evaluator::add(Stream& stream, MicroBatch& batch, const HostBatch& host) {
  const Tensor loss = model_.loss(stream, batch.load(stream, host, 1));
  sum(stream, sum_, loss, Write::Replace);
  double value = 0;
  copy_to_host<double>(stream, {&value, 1}, sum_);
  total_ += value;
  tokens_ += valid_tokens(host);
}

Evaluation Evaluator::result() const {
  return {tokens_ == 0 ? 0 : total_ / static_cast<double>(tokens_), tokens_};
}

}  // namespace sextant
