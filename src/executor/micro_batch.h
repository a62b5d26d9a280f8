#pragma once
#include "blueprint/context_part.h"
#include "data/loader.h"
#include "model/micro.h"
#include "tensor/stream.h"

namespace sextant {

// Device copy of host batches of one size; its tensors are allocated once and reused.
class MicroBatch {
 public:
  // `seq`: tokens per sequence on this rank.
  MicroBatch(Stream& stream, int64_t batch, int64_t seq, const ContextPart& context = {});

  // Copies the host batch to the device; the result is valid until the next call. Allocates memory
  // for token indices only if the batch has them.
  const Micro& load(Stream& stream, const HostBatch& host, const StepScalars& scalars = {},
                    double z_loss = 0);
  // What the layers compute: the head's output, and the sums over the micro-batch.
  void set_output(HeadOutput output, KvCache* cache, const Tensor& sums,
                  const Tensor& routing = {});
  // For verify: see Micro. `host` is the batch that was loaded.
  void set_chosen_experts(ChosenExperts* experts, const HostBatch& host);
  const Micro& micro() const { return micro_; }  // last loaded

 private:
  Micro micro_;
};

// Tokens of the batch that count in the loss.
int64_t valid_tokens(const HostBatch& host);

}  // namespace sextant
