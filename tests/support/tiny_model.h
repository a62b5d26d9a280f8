#pragma once
#include <string>
#include <vector>

#include "base/random.h"
#include "model/transformer.h"
#include "tensor/copy.h"

namespace sextant {

// Small models and batches for the tests of this module.

inline ModelConfig tiny_config(Family family) {
  ModelConfig model;
  model.family = family;
  model.layers = 2;
  model.hidden = 8;
  model.heads = 4;
  model.kv_heads = family == Family::Gpt2 ? 4 : 2;
  model.head_dim = family == Family::Qwen3 ? 4 : 2;
  model.ffn = has_experts(family) ? 0 : 12;
  if (has_experts(family)) {
    model.experts = 3;
    model.experts_per_token = 2;
    model.expert_ffn = 6;
  }
  if (family == Family::DeepseekMoe) {
    model.kv_heads = 4;
    model.head_dim = 4;
    model.qk_rope_head_dim = model.v_head_dim = 2;
    model.q_lora_rank = 6;
    model.kv_lora_rank = 5;
    model.router = RouterKind::Sigmoid;
    model.shared_experts = model.dense_layers = 1;
    model.ffn = 12;
  }
  if (family == Family::Mistral) model.sliding_window = 3;
  model.vocab = 19;
  model.seq = 6;
  model.tied = family != Family::Llama;
  model.init_std = 0.4;
  return model;
}

inline constexpr double kTinyLossScale = 0.125;

// Scalars of a step that has the loss scale of tiny models.
inline StepScalars tiny_scalars(Stream& stream, int64_t step = 0) {
  Tensor both = stream.arena().allocate(Category::Workspace, DType::F64, {2});
  const std::vector<double> values = {kTinyLossScale, static_cast<double>(step)};
  copy_from_host<double>(stream, both, values);
  return {both.slice(0, 1), both.slice(1, 2), step};
}

struct TinyTokens {
  std::vector<int32_t> tokens, targets, positions, starts;
};

// Random tokens; row 0 is one document, later rows hold two, some targets do not count.
inline TinyTokens tiny_tokens(int64_t batch, int64_t seq, int64_t vocab) {
  const Random random(3, "tokens");
  TinyTokens out;
  auto& [tokens, targets, positions, starts] = out;
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t cut = row == 0 ? 0 : seq / 2;
    for (int64_t i = 0; i < seq; ++i) {
      const auto element = static_cast<uint64_t>(row * seq + i);
      const int64_t start = i >= cut ? cut : 0;
      tokens.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab), element)));
      targets.push_back(i + 1 == cut ? -1
                                     : static_cast<int32_t>(
                                           random.below(static_cast<uint64_t>(vocab), element, 1)));
      starts.push_back(static_cast<int32_t>(start));
      positions.push_back(static_cast<int32_t>(i - start));
    }
  }
  return out;
}

// A batch of them on the device.
inline Micro tiny_micro(Stream& stream, int64_t batch, int64_t seq, int64_t vocab) {
  const TinyTokens host = tiny_tokens(batch, seq, vocab);
  Micro micro;
  micro.batch = batch;
  micro.seq = seq;
  micro.scalars = tiny_scalars(stream);
  const auto upload = [&](const std::vector<int32_t>& values) {
    Tensor tensor = stream.arena().allocate(Category::Activations, DType::I32, {batch * seq});
    copy_from_host<int32_t>(stream, tensor, values);
    return tensor;
  };
  micro.tokens = upload(host.tokens);
  micro.targets = upload(host.targets);
  micro.positions = upload(host.positions);
  micro.starts = upload(host.starts);
  micro.sums = stream.arena().allocate(Category::Workspace, DType::F64,
                                       {static_cast<int64_t>(SideSum::Count)});
  fill_zero(stream, micro.sums);
  return micro;
}

// Gives the tokens indices, so that Dropout drops: the rows begin at `first_row` of a whole batch.
inline void number_tokens(Stream& stream, Micro& micro, int64_t first_row = 0) {
  std::vector<int32_t> indices;
  for (int64_t i = 0; i < micro.size(); ++i)
    indices.push_back(static_cast<int32_t>(first_row * micro.seq + i));
  micro.indices = stream.arena().allocate(Category::Activations, DType::I32, {micro.size()});
  copy_from_host<int32_t>(stream, micro.indices, indices);
}

}  // namespace sextant
