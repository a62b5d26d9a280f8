#include "plan/case.h"

#include <algorithm>
#include <cmath>

#include "blueprint/blueprint.h"

namespace sextant {

const char* name_of(NumberFormat format) {
  constexpr const char* kNames[] = {"fp32",        "bf16",  "fp16", "fp8-tensorwise",
                                    "fp8-rowwise", "mxfp8", "nvfp4"};
  return kNames[static_cast<size_t>(format)];
}

bool is_v_shaped(ScheduleKind kind) {
  return kind == ScheduleKind::ZbV || kind == ScheduleKind::VHalf || kind == ScheduleKind::VMin ||
         kind == ScheduleKind::DualPipeV;
}

bool takes_chunks(ScheduleKind kind) {
  return kind == ScheduleKind::Interleaved || kind == ScheduleKind::LoopedBfs ||
         kind == ScheduleKind::InterleavedZb;
}

int64_t Layout::stages() const {
  if (pp == 1) return 1;
  return int64_t{1} * pp * (is_v_shaped(schedule) ? 2 : takes_chunks(schedule) ? chunks : 1);
}

ModelShape shape_of(const ModelConfig& model, int64_t seq) {
  ModelShape shape;
  shape.layers = model.layers;
  shape.hidden = model.hidden;
  shape.heads = model.heads;
  shape.kv_heads = model.kv_heads;
  shape.head_dim = model.head_dim;
  shape.value_dim = model.head_dim;
  shape.ffn = model.ffn;
  shape.vocab = model.vocab;
  shape.seq = seq;
  const ModelFeatures features = features_of(model);
  shape.gated = features.gated;
  shape.tied = model.tied;
  shape.dropout = model.dropout > 0;
  shape.learned_positions = !features.rotary;
  shape.head_norm = features.head_norm;
  if (model.sliding_window < seq) shape.window = model.sliding_window;
  shape.alternates = false;
  if (model.kv_lora_rank > 0) {
    shape.q_rank = model.q_lora_rank;
    shape.kv_rank = model.kv_lora_rank;
    shape.rope_dim = model.qk_rope_head_dim;
    shape.head_dim -= shape.rope_dim;
    shape.value_dim = model.v_head_dim;
  }
  shape.experts = model.experts;
  if (model.experts > 0) {
    shape.experts_per_token = model.experts_per_token;
    shape.expert_ffn = model.expert_ffn;
    shape.shared_ffn = model.shared_experts * model.expert_ffn;
    shape.dense_layers = model.dense_layers;
  }
  return shape;
}

StageLayers stage_layers(int64_t layers, int64_t pp) {
  const double n = static_cast<double>(layers), p = static_cast<double>(pp);
  if (pp == 1) return {n, n, n};
  if (layers % pp == 0) return {n / p, n / p, n / p};
  // Embedding and head count as a layer each.
  if ((layers + 2) % pp == 0) return {(n + 2) / p - 1, (n + 2) / p, (n + 2) / p - 1};
  const double less = std::floor(n / p);
  // One layer is missing for equal stages: the last rank, which has the head, goes without it.
  if ((layers + 1) % pp == 0) return {less + 1, less + 1, less};
  return {less, less + 1, less};
}

StageLayers stage_layers(const Case& asked) {
  return asked.split.middle > 0 ? asked.split : stage_layers(asked.shape.layers, asked.layout.pp);
}

namespace {

double attention_parameters(const ModelShape& s) {
  const double h = static_cast<double>(s.hidden), a = static_cast<double>(s.heads);
  const double d = static_cast<double>(s.head_dim);
  if (s.kv_rank == 0) return h * a * d * 2 + h * static_cast<double>(s.kv_heads) * d * 2;
  const double q = static_cast<double>(s.q_rank), kv = static_cast<double>(s.kv_rank);
  const double rope = static_cast<double>(s.rope_dim), v = static_cast<double>(s.value_dim);
  return h * q + q * a * (d + rope) + h * (kv + rope) + kv * a * (d + v) + a * v * h;
}

double mlp_parameters(const ModelShape& s, double width) {
  return static_cast<double>(s.hidden) * width * (s.gated ? 3 : 2);
}

}  // namespace

double attention_pairs(const ModelShape& s) {
  const double seq = static_cast<double>(s.seq), all = seq * seq / 2;
  const double window = static_cast<double>(s.window);
  if (s.window == 0 || window >= seq) return all;
  if (s.alternates) return (all + std::min(all, seq * window)) / 2;
  return window * (seq - window / 2);
}

Parameters count_parameters(const ModelShape& s) {
  Parameters out;
  const double h = static_cast<double>(s.hidden);
  const double attention = attention_parameters(s) + 2 * h;
  out.layer = attention + mlp_parameters(s, static_cast<double>(s.ffn));
  out.embedding = static_cast<double>(s.vocab) * h;
  if (s.learned_positions) out.embedding += static_cast<double>(s.seq) * h;
  out.head = s.tied ? 0 : static_cast<double>(s.vocab) * h;
  const double dense = static_cast<double>(s.experts > 0 ? s.dense_layers : s.layers);
  const double sparse = static_cast<double>(s.layers) - dense;
  double used = dense * out.layer + static_cast<double>(s.vocab) * h;
  if (s.experts > 0) {
    const double one = mlp_parameters(s, static_cast<double>(s.expert_ffn));
    out.experts = one * static_cast<double>(s.experts);
    const double rest = attention + mlp_parameters(s, static_cast<double>(s.shared_ffn)) +
                        h * static_cast<double>(s.experts);
    out.expert_layer = rest + out.experts;
    used += sparse * (rest + one * static_cast<double>(s.experts_per_token));
  }
  out.total = dense * out.layer + sparse * out.expert_layer + out.embedding + out.head;
  out.active = used;
  return out;
}

double model_flops(const ModelShape& s, double tokens) {
  const double d = static_cast<double>(s.head_dim + s.rope_dim);
  const double v = static_cast<double>(s.value_dim > 0 ? s.value_dim : s.head_dim);
  // Publications of models with some windowed layers count all pairs in all layers.
  const double seq = static_cast<double>(s.seq);
  const double keys = s.alternates ? seq / 2 : attention_pairs(s) / seq;
  const double attention =
      6 * static_cast<double>(s.layers) * static_cast<double>(s.heads) * (d + v) * keys;
  return tokens * (6 * count_parameters(s).active + attention);
}

}  // namespace sextant
