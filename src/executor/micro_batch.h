#pragma once
#include "blueprint/context_part.h"
#include "data/loader.h"
#include "model/micro.h"
#include "tensor/stream.h"

namespace sextant {

// The device side of host batches of one size: its tensors are made once and filled again.
class MicroBatch {
 public:
  // `seq` tokens of each sequence, perhaps a part of it.
  MicroBatch(Stream& stream, int64_t batch, int64_t seq, const ContextPart& context = {});

  // Copies the host batch over; the result is valid until the next call. Only one that has indices
  // takes memory for them.
  const Micro& load(Stream& stream, const HostBatch& host, const StepScalars& scalars = {},
                    double z_loss = 0);
  // What its layers are to give: the head, and the sums over the micro-batch.
  void set_output(HeadOutput output, KvCache* cache, const Tensor& sums);
  const Micro& micro() const { return micro_; }  // what was loaded last

 private:
  Micro micro_;
};

// Tokens of the batch whose target counts.
int64_t valid_tokens(const HostBatch& host);

}  // namespace sextant
