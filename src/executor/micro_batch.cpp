#include "executor/micro_batch.h"

#include <algorithm>

#include "tensor/copy.h"

namespace sextant {

MicroBatch::MicroBatch(Stream& stream, int64_t batch, int64_t seq, const ContextPart& context) {
  micro_.batch = batch;
  micro_.seq = seq;
  Arena& arena = stream.arena();
  for (Tensor* tensor : {&micro_.tokens, &micro_.targets, &micro_.positions})
    *tensor = arena.allocate(Category::Activations, DType::I32, {micro_.size()});
  if (context.degree == 1) {
    micro_.starts = arena.allocate(Category::Activations, DType::I32, {micro_.size()});
    return;
  }
  const Shape shape{context_parts(context), batch, seq * context.ulysses};
  micro_.key_begin = arena.allocate(Category::Activations, DType::I32, shape);
  micro_.key_end = arena.allocate(Category::Activations, DType::I32, shape);
}

const Micro& MicroBatch::load(Stream& stream, const HostBatch& host, const StepScalars& scalars,
                              double z_loss) {
  SXT_CHECK(host.batch == micro_.batch && host.seq == micro_.seq, Internal, "a batch of ",
            host.batch, " x ", host.seq, " for tensors of ", micro_.batch, " x ", micro_.seq);
  copy_from_host<int32_t>(stream, micro_.tokens, host.tokens);
  copy_from_host<int32_t>(stream, micro_.targets, host.targets);
  copy_from_host<int32_t>(stream, micro_.positions, host.positions);
  if (micro_.starts) {
    copy_from_host<int32_t>(stream, micro_.starts, host.starts);
  } else {
    copy_from_host<int32_t>(stream, micro_.key_begin, host.key_begin);
    copy_from_host<int32_t>(stream, micro_.key_end, host.key_end);
  }
  if (!host.is_numbered) {
    micro_.indices = Tensor();
  } else {
    if (!micro_.indices)
      micro_.indices =
          stream.arena().allocate(Category::Activations, DType::I32, micro_.tokens.shape());
    copy_from_host<int32_t>(stream, micro_.indices, host.indices);
  }
  micro_.scalars = scalars;
  micro_.z_loss = z_loss;
  return micro_;
}

void MicroBatch::set_output(HeadOutput output, KvCache* cache, const Tensor& sums,
                            const Tensor& routing) {
  micro_.output = output;
  micro_.cache = cache;
  micro_.sums = sums;
  micro_.routing = routing;
}

void MicroBatch::set_chosen_experts(ChosenExperts* experts, const HostBatch& host) {
  micro_.chosen_experts = experts;
  micro_.token_numbers = {};
  if (experts != nullptr)
    micro_.token_numbers =
        std::span(host.indices).first(static_cast<size_t>(host.samples * host.seq));
}

int64_t valid_tokens(const HostBatch& host) {
  return std::count_if(host.targets.begin(), host.targets.end(),
                       [](int32_t target) { return target >= 0; });
}

}  // namespace sextant
