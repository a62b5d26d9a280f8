#pragma once
#include "executor/executor.h"
#include "mesh/serial_mesh.h"

namespace sextant {

// A whole model on one rank, with its parameters and executor.
class SerialModel {
 public:
  // `micros` micro-batches per step, one per forward pass. Without options.gradients there are no
  // steps.
  SerialModel(Stream& stream, const Blueprint& blueprint, const TransformerOptions& options,
              int micros = 1, Recompute recompute = Recompute::None);

  const Blueprint& blueprint() const { return blueprint_; }
  ShardedParams& params() { return params_; }
  Transformer& transformer() { return transformer_; }
  Executor& executor() { return executor_; }
  Stream& stream() { return stream_; }

 private:
  Stream& stream_;
  Blueprint blueprint_;
  Pipeline pipeline_;
  SerialMesh mesh_;
  ShardedParams params_;
  Transformer transformer_;
  Executor executor_;
};

}  // namespace sextant
