#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "infer/evaluate.h"
#include "infer/open_data.h"
#include "model/transformer.h"
#include "optim/optimizer.h"
#include "train/preflight.h"
#include "train/record.h"

namespace sextant {

// A model in training on one rank: memory, parameters, optimizer, data. One step at a time; what
// happens between steps is the business of run.h.
class Trainer {
 public:
  // Allocates everything and draws the weights. `storage` and `clock` must outlive it.
  Trainer(const Config& config, const Preflight& preflight, Storage& storage, const Clock& clock,
          Log& log);

  int64_t steps_done() const { return step_; }
  StepRecord train_step();
  // Mean loss over the first train.eval_batches of the held-out data.
  Evaluation evaluate();

  void save(const std::string& directory);
  // Weights, optimizer and data cursor of a checkpoint of this very model, seed and data: the run
  // goes on. Throws Error(Data) for another.
  void resume(const std::string& checkpoint);
  // Weights only: a new run from there.
  void load_weights(const std::string& checkpoint);

  Arena& arena() { return arena_; }
  Transformer& model() { return model_; }
  Stream& stream() { return stream_; }

 private:
  double accumulate_gradients();  // returns the mean loss
  std::vector<NamedTensor> weights();

  Config config_;
  Preflight preflight_;
  Storage& storage_;
  const Clock& clock_;
  Arena arena_;
  Stream stream_;
  Transformer model_;
  Optimizer optimizer_;
  Loader data_;
  std::vector<HostBatch> host_;  // one per micro-batch of a step
  MicroBatch micro_;
  Activations activations_;
  Evaluator evaluator_;
  Tensor loss_sum_, norm_sum_;  // [1], f64
  int64_t step_ = 0;
  int64_t next_sample_ = 0;  // of the run, counted over all steps
};

}  // namespace sextant
