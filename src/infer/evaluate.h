#pragma once
#include "infer/micro_batch.h"
#include "model/transformer.h"

namespace sextant {

struct Evaluation {
  double loss = 0;     // mean over the tokens that count
  int64_t tokens = 0;  // how many did
  double perplexity() const;
};

// Adds up the loss of host batches, which need not be equally full.
class Evaluator {
 public:
  Evaluator(Stream& stream, Transformer& model);

  void add(Stream& stream, MicroBatch& batch, const HostBatch& host);
  Evaluation result() const;

 private:
  Transformer& model_;
  Tensor sum_;  // [1], f64
  double total_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace sextant
