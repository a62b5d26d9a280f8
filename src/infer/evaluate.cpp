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

Evaluation Evaluator::result(Communicator* ranks) const {
  double total = total_;
  int64_t tokens = tokens_;
  if (ranks != nullptr) {
    ranks->all_reduce_host(std::span(&total, 1), Fold::Sum);
    ranks->all_reduce_host(std::span(&tokens, 1), Fold::Sum);
  }
  return {tokens == 0 ? 0 : total / static_cast<double>(tokens), tokens};
}

void Evaluator::reset() {
  total_ = 0;
  tokens_ = 0;
}

}  // namespace sextant
