#include "infer/micro_batch.h"

#include <algorithm>

#include "tensor/copy.h"

namespace sextant {

MicroBatch::MicroBatch(Stream& stream, int64_t batch, int64_t seq) {
  micro_.batch = batch;
  micro_.seq = seq;
  for (Tensor* tensor : {&micro_.tokens, &micro_.targets, &micro_.positions, &micro_.starts})
    *tensor = stream.arena().allocate(Category::Activations, DType::I32, {batch * seq});
}

const Micro& MicroBatch::load(Stream& stream, const HostBatch& host, double loss_scale,
                              double z_loss) {
  SXT_CHECK(host.batch == micro_.batch && host.seq == micro_.seq, Internal, "a batch of ",
            host.batch, " x ", host.seq, " for tensors of ", micro_.batch, " x ", micro_.seq);
  copy_from_host<int32_t>(stream, micro_.tokens, host.tokens);
  copy_from_host<int32_t>(stream, micro_.targets, host.targets);
  copy_from_host<int32_t>(stream, micro_.positions, host.positions);
  copy_from_host<int32_t>(stream, micro_.starts, host.starts);
  micro_.loss_scale = loss_scale;
  micro_.z_loss = z_loss;
  return micro_;
}

int64_t valid_tokens(const HostBatch& host) {
  return std::count_if(host.targets.begin(), host.targets.end(),
                       [](int32_t target) { return target >= 0; });
}

}  // namespace sextant
