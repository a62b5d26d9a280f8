#pragma once
#include "executor/serial_model.h"
#include "train/record.h"

namespace sextant {

// Sums the loss of host batches, which may have different numbers of valid tokens.
class Evaluator {
 public:
  explicit Evaluator(SerialModel& model) : model_(model) {}

  void add(const HostBatch& host);
  void add(const Evaluator& other);
  Evaluation result() const;

 private:
  SerialModel& model_;
  double total_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace sextant
