#include "infer/evaluate.h"

namespace sextant {

void Evaluator::add(const HostBatch& host) {
  total_ += model_.executor().evaluate({&host, 1})[0];
  tokens_ += valid_tokens(host);
}

void Evaluator::add(const Evaluator& other) {
  total_ += other.total_;
  tokens_ += other.tokens_;
}

Evaluation Evaluator::result() const {
  return {tokens_ == 0 ? 0 : total_ / static_cast<double>(tokens_), tokens_, {}};
}

}  // namespace sextant
