#include "plan/layer_time.h"

#include <algorithm>
#include <cmath>

#include "plan/collective.h"
#include "plan/gemm_time.h"

namespace sextant {
namespace {

// Share of Hopper's rate that Ampere's matrix instructions reach there.
constexpr double kOldInstructions = 0.62;
// Share of the multiprocessors that move tokens of experts beside compute: 20 of about 148.
constexpr double kMovers = 0.13;
// Gap between kernels of a captured graph, against launches one by one.
constexpr double kGraphGap = 0.2;

// Collects the work of one layer.
class Layer {
 public:
  Layer(const Case& asked, const Constants& constants)
      : asked_(asked), constants_(constants), hardware_(asked.hardware) {
    element_rate_ = hardware_.memory_rate * constants.memory_rate;
    tokens_ = static_cast<double>(asked.layout.micro) * static_cast<double>(asked.shape.seq) /
              asked.layout.cp;
  }

  double tokens() const { return tokens_; }

  // y = x W with x [rows, in], as the three GEMMs of training, and the casts to a narrow format.
  void linear(double rows, double in, double out, NumberFormat format, double rate_share = 1,
              double copies = 1) {
    const double one =
        copies * gemm_seconds(hardware_, constants_, format, rows, out, in) / rate_share;
    double cast_x = 0, cast_y = 0;
    if (is_narrow(format)) {
      // The producer writes two narrow copies, one transposed; a scale per tensor of the present
      // values needs the 16-bit ones first.
      const double moved = format == NumberFormat::Mxfp8 || format == NumberFormat::Nvfp4 ? 2 : 6;
      cast_x = moved * rows * in * copies / element_rate_;
      cast_y = moved * rows * out * copies / element_rate_;
    }
    time_.gemm += 3 * one;
    time_.elements += cast_x + cast_y;
    time_.forward += one + cast_x;
    time_.input += one + cast_y;
    time_.weight += one;
    // Gradients accumulate in memory.
    const double accumulate = copies * in * out * 2 * asked_.numerics.grad_bytes / element_rate_;
    time_.weight += accumulate;
    time_.elements += accumulate;
    gemm_forward_ += one + cast_x;
    kernels(1, 2);
  }

  // Element-wise work, in bytes.
  void elements(double forward, double backward) {
    time_.elements += (forward + backward) / element_rate_;
    time_.forward += forward / element_rate_;
    time_.input += backward / element_rate_;
    kernels(1, 1);
  }

  void kernels(double forward, double backward) {
    const double gap = constants_.launch * (asked_.practice.graphs ? kGraphGap : 1);
    time_.launches += (forward + backward) * gap;
    time_.forward += forward * gap;
    time_.input += backward * gap;
  }

  void attention_core(double heads, double qk_dim, double v_dim);
  void attention_block();
  void mlp(double rows, double width, double rate_share, double copies, double tp);
  void norms_and_residuals();
  void tensor_parallel(double times);
  void gather_logits(double bytes);
  void context_parallel();
  void gather_parts(double bytes);
  void experts();

  LayerTime& time() { return time_; }
  double gemm_forward() const { return gemm_forward_; }
  double core_forward() const { return core_forward_; }
  double up_forward() const { return up_forward_; }  // from the latents of attention
  double cheap_forward() const { return time_.forward - gemm_forward_ - core_forward_; }

 private:
  const Case& asked_;
  const Constants& constants_;
  const Hardware& hardware_;
  LayerTime time_;
  double tokens_ = 0, element_rate_ = 1;
  double core_forward_ = 0, gemm_forward_ = 0, up_forward_ = 0;
};

void Layer::attention_core(double heads, double qk_dim, double v_dim) {
  const ModelShape& shape = asked_.shape;
  const double seq = static_cast<double>(shape.seq);
  const double sequences = static_cast<double>(asked_.layout.micro) / asked_.layout.cp;
  const double peak = half_peak(hardware_) * power_share(hardware_, constants_);
  const double pairs = attention_pairs(shape);
  const AttentionKernel kernel = asked_.practice.attention;
  double forward = 0, backward = 0;
  if (kernel >= AttentionKernel::Flash1) {
    const double flops = 2 * sequences * heads * pairs * (qk_dim + v_dim);
    const bool recent = hardware_.generation >= GpuGeneration::Hopper;
    double share = kernel == AttentionKernel::Flash1 ? constants_.flash1 : constants_.flash2;
    if (recent)  // without Hopper's asynchronous instructions at most kOldInstructions of the peak
      share = kernel == AttentionKernel::Library ? constants_.flash_new : share * kOldInstructions;
    // Short sequences leave part of the tiles on the diagonal masked.
    share *= seq / (seq + 256);
    forward = flops / (peak * share);
    backward = 2.5 * flops / (peak * share * 0.85);
    kernels(1, 3);
  } else {
    // Two batched GEMMs over all pairs, and the score matrix through memory.
    const double scores = sequences * heads * seq * seq;
    const double flops = 2 * scores * (qk_dim + v_dim);
    const double rate = gemm_rate(hardware_, constants_, NumberFormat::Bf16);
    const double fused = kernel == AttentionKernel::FusedSoftmax ? 1 : constants_.score_passes;
    const double passes_forward = shape.dropout ? 11 : 8, passes_backward = shape.dropout ? 15 : 10;
    forward = flops / rate + scores * passes_forward * fused / element_rate_;
    backward = 2 * flops / rate + scores * passes_backward * fused / element_rate_;
    kernels(5, 8);
  }
  time_.attention += forward + backward;
  time_.forward += forward;
  time_.input += backward;
  core_forward_ += forward;
}

void Layer::attention_block() {
  const ModelShape& s = asked_.shape;
  const double tp = asked_.layout.tp, hidden = static_cast<double>(s.hidden);
  const NumberFormat format = asked_.numerics.format;
  const double heads = static_cast<double>(s.heads) / tp;
  const double dim = static_cast<double>(s.head_dim);
  if (s.kv_rank > 0) {
    const double rope = static_cast<double>(s.rope_dim), v = static_cast<double>(s.value_dim);
    const double q_rank = static_cast<double>(s.q_rank), kv_rank = static_cast<double>(s.kv_rank);
    linear(tokens_, hidden, q_rank, format);
    linear(tokens_, hidden, kv_rank + rope, format);
    const double before = gemm_forward_;
    linear(tokens_, q_rank, heads * (dim + rope), format);
    linear(tokens_, kv_rank, heads * (dim + v), format);
    up_forward_ = gemm_forward_ - before;
    linear(tokens_, heads * v, hidden, format);
    attention_core(heads, dim + rope, v);
    // Rotary parts are split off and joined again, for queries and keys.
    elements(tokens_ * heads * (dim + rope) * 2 * 8, tokens_ * heads * (dim + rope) * 2 * 8);
    return;
  }
  const double kv = std::max(static_cast<double>(s.kv_heads) / tp, 1.0) * dim;
  linear(tokens_, hidden, heads * dim + 2 * kv, format);
  linear(tokens_, heads * dim, hidden, format);
  attention_core(heads, dim, dim);
  if (!s.learned_positions) {
    const bool fused = asked_.practice.fused_norm && !asked_.practice.eager;
    const double moved = tokens_ * (heads * dim + kv) * 4 * (fused ? 1 : 4);
    elements(moved, moved);
  }
}

void Layer::mlp(double rows, double width, double rate_share, double copies, double tp) {
  const ModelShape& s = asked_.shape;
  const double hidden = static_cast<double>(s.hidden), local = width / tp;
  const NumberFormat format = asked_.numerics.format;
  linear(rows, hidden, s.gated ? 2 * local : local, format, rate_share, copies);
  linear(rows, local, hidden, format, rate_share, copies);
  const double moved = rows * copies * local * 2;
  if (s.gated && asked_.practice.eager)  // SiLU, then the product
    elements(moved * 5, moved * 9);
  else
    elements(moved * (s.gated ? 3 : 2), moved * (s.gated ? 5 : 3));
}

void Layer::norms_and_residuals() {
  const ModelShape& s = asked_.shape;
  const double shared = asked_.layout.sequence ? asked_.layout.tp : 1;
  const double bytes = tokens_ * static_cast<double>(s.hidden) * 2 / shared;
  const double dropout = s.dropout ? 2.5 : 0;
  const bool eager = !asked_.practice.fused_norm;
  const double norm = eager ? constants_.eager_norm / 3 : 2;
  const double norm_back = eager ? constants_.eager_norm * 2 / 3 : 4;
  elements(2 * bytes * (norm + 3 + dropout), 2 * bytes * (norm_back + 2 + dropout));
}

// Collectives of `times` column-row pairs: an all-reduce each way, or with sequence parallel an
// all-gather and a reduce-scatter, plus the gather of the kept shard again in backward.
void Layer::tensor_parallel(double times) {
  const Layout& layout = asked_.layout;
  if (layout.tp <= 1) return;
  const LinkGroup group = group_of(layout.tp, 1, hardware_, layout.world());
  const double bytes = tokens_ * static_cast<double>(asked_.shape.hidden) * 2;
  const auto seconds = [&](CollectiveKind kind) {
    return collective_seconds(hardware_, constants_, kind, bytes, group);
  };
  double forward = 0, backward = 0;
  if (layout.sequence) {
    forward = seconds(CollectiveKind::AllGather) + seconds(CollectiveKind::ReduceScatter);
    backward = forward;
  } else {
    forward = backward = seconds(CollectiveKind::AllReduce);
  }
  // Work in pieces hides them, but for the share that runs into the same memory and SMs.
  const double exposed = asked_.practice.tp_overlap ? 0.2 + constants_.overlap : 1;
  time_.tp_forward += times * forward * exposed;
  time_.tp_backward += times * backward * exposed;
}

void Layer::gather_logits(double bytes) {
  const LinkGroup group = group_of(asked_.layout.tp, 1, hardware_, asked_.layout.world());
  time_.tp_forward +=
      collective_seconds(hardware_, constants_, CollectiveKind::AllGather, bytes, group);
}

void Layer::context_parallel() {
  const Layout& layout = asked_.layout;
  if (layout.cp <= 1) return;
  const ModelShape& s = asked_.shape;
  const LinkGroup group = group_of(layout.cp, layout.tp, hardware_, layout.world());
  const double kv_heads = s.kv_rank > 0
                              ? static_cast<double>(s.heads) / layout.tp
                              : std::max(static_cast<double>(s.kv_heads) / layout.tp, 1.0);
  const double kv = tokens_ * kv_heads * static_cast<double>(s.head_dim) * 2 * 2;
  double forward = 0, backward = 0;
  if (layout.cp_kind == ContextKind::Ulysses) {
    const double q = tokens_ * static_cast<double>(s.heads * s.head_dim) / layout.tp * 2;
    forward = collective_seconds(hardware_, constants_, CollectiveKind::AllToAll, q + kv, group) +
              collective_seconds(hardware_, constants_, CollectiveKind::AllToAll, q, group);
    backward = forward;
  } else {
    const double all = kv * layout.cp;
    forward = collective_seconds(hardware_, constants_, CollectiveKind::AllGather, all, group);
    backward = 2 * forward;
    if (layout.cp_kind == ContextKind::Ring) {
      // Each step's transfer runs beside the attention of the block before.
      const double core = core_forward_;
      forward = std::max(0.0, forward - core) + constants_.overlap * std::min(forward, core);
      backward = std::max(0.0, backward - 2.5 * core) +
                 constants_.overlap * std::min(backward, 2.5 * core);
    }
  }
  time_.cp_forward += forward;
  time_.cp_backward += backward;
}

// The ranks of etp gather the rows of an expert before it and sum its outputs after it.
void Layer::gather_parts(double bytes) {
  if (asked_.layout.etp == 1) return;
  const LinkGroup group = group_of(asked_.layout.etp, 1, hardware_, asked_.layout.world());
  double seconds = 0;
  for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
    seconds += collective_seconds(hardware_, constants_, kind, bytes, group);
  time_.ep_forward += seconds;
  time_.ep_backward += seconds;
}

void Layer::experts() {
  const ModelShape& s = asked_.shape;
  const Layout& layout = asked_.layout;
  const double hidden = static_cast<double>(s.hidden);
  // With tensor parallel each rank routes its part of the tokens.
  const double own = tokens_ / layout.tp;
  const double routed = own * static_cast<double>(s.experts_per_token);
  linear(own, hidden, static_cast<double>(s.experts), NumberFormat::Bf16);
  elements(own * static_cast<double>(s.experts) * 4 * 6,
           own * static_cast<double>(s.experts) * 4 * 6);
  // Permutation before and after, weighting and sum: each reads and writes every routed copy.
  elements(routed * hidden * 2 * 4, routed * hidden * 2 * 4);
  const double here = static_cast<double>(s.experts) / layout.ep;
  // The slowest rank has the most rows.
  const double rows = routed * layout.etp / here * (layout.ep > 1 ? asked_.practice.imbalance : 1);
  mlp(rows, static_cast<double>(s.expert_ffn),
      asked_.practice.grouped || !is_narrow(asked_.numerics.format) ? constants_.grouped
                                                                    : constants_.apart,
      here, layout.etp);
  if (s.shared_ffn > 0) mlp(tokens_, static_cast<double>(s.shared_ffn), 1, 1, layout.tp);
  gather_parts(routed * layout.etp * hidden * 2);
  if (layout.ep > 1) {
    const LinkGroup group = group_of(layout.ep, layout.etp, hardware_, layout.world());
    // A token goes once to each domain it is needed in, and is copied there. With k experts chosen
    // evenly, n domains have n (1 - (1 - 1/n)^k) of them in the mean.
    const double domains =
        std::ceil(static_cast<double>(group.ranks) / static_cast<double>(group.local));
    const double copies =
        domains * (1 - std::pow(1 - 1 / domains, static_cast<double>(s.experts_per_token)));
    const double bytes = routed * hidden * 2 * asked_.practice.imbalance;
    double seconds =
        collective_seconds(hardware_, constants_, CollectiveKind::AllToAll, bytes, group);
    if (domains > 1) {
      const double outside = own * copies * hidden * 2 * (domains - 1) / domains /
                             (hardware_.nic * constants_.to_all_far);
      const double inside = bytes / (hardware_.link * constants_.to_all);
      seconds = std::max(outside, inside) + constants_.latency * 20e-6;
    }
    if (asked_.practice.experts_overlap) {
      // Beside the compute of another micro-batch.
      const double forward = time_.forward, backward = time_.input + time_.weight;
      time_.ep_forward +=
          std::max(0.0, 2 * seconds - forward) + kMovers * std::min(2 * seconds, forward);
      time_.ep_backward +=
          std::max(0.0, 2 * seconds - backward) + kMovers * std::min(2 * seconds, backward);
      return;
    }
    time_.ep_forward += 2 * seconds;
    time_.ep_backward += 2 * seconds;
  }
}

// What backward computes again.
void recompute(Layer& layer, const Case& asked) {
  LayerTime& time = layer.time();
  switch (asked.layout.recompute) {
    case Recompute::None:
      return;
    case Recompute::Cheap:
      time.again = layer.cheap_forward();
      return;
    case Recompute::Selective:
      // The attention core where its scores were kept; else what is cheap, and queries, keys and
      // values from their latents.
      time.again = asked.practice.attention < AttentionKernel::Flash1
                       ? layer.core_forward()
                       : layer.cheap_forward() + (asked.practice.own ? 0 : layer.up_forward());
      if (asked.practice.half_gemms) time.again += layer.gemm_forward() / 2;
      return;
    case Recompute::Full: {
      const double share = asked.practice.recomputed;
      time.again = share * time.forward;
      time.tp_backward += share * time.tp_forward;
      time.cp_backward += share * time.cp_forward;
      time.ep_backward += share * time.ep_forward;
      return;
    }
  }
}

}  // namespace

LayerTime layer_time(const Case& asked, const Constants& constants, PricedLayer kind) {
  Layer layer(asked, constants);
  const ModelShape& s = asked.shape;
  const Layout& layout = asked.layout;
  const double hidden = static_cast<double>(s.hidden), vocab = static_cast<double>(s.vocab);
  switch (kind) {
    case PricedLayer::Embedding: {
      const double bytes = layer.tokens() * hidden * 2 / (layout.sequence ? layout.tp : 1);
      layer.elements(2 * bytes, 4 * bytes);
      return layer.time();
    }
    case PricedLayer::Head: {
      layer.linear(layer.tokens(), hidden, vocab / layout.tp, NumberFormat::Bf16);
      const double logits =
          layer.tokens() * vocab / (asked.practice.vocab_parallel ? layout.tp : 1);
      const double moved = logits * asked.practice.logit_traffic;
      layer.elements(moved / 2, moved / 2);
      if (!asked.practice.vocab_parallel) layer.gather_logits(logits * 2);
      layer.tensor_parallel(0.5);
      if (asked.practice.chunked_logits) layer.time().again = layer.time().forward;
      return layer.time();
    }
    case PricedLayer::Dense:
    case PricedLayer::Experts:
      break;
  }
  layer.attention_block();
  layer.norms_and_residuals();
  if (kind == PricedLayer::Experts) {
    layer.experts();
    layer.tensor_parallel(1 + (s.shared_ffn > 0));
  } else {
    layer.mlp(layer.tokens(), static_cast<double>(s.ffn), 1, 1, layout.tp);
    layer.tensor_parallel(2);
  }
  layer.context_parallel();
  recompute(layer, asked);
  return layer.time();
}

LayerTimes layer_times(const Case& asked, const Constants& constants) {
  const ModelShape& s = asked.shape;
  LayerTimes out;
  if (s.experts == 0 || s.dense_layers > 0)
    out.dense = layer_time(asked, constants, PricedLayer::Dense);
  if (s.experts > 0) out.sparse = layer_time(asked, constants, PricedLayer::Experts);
  out.embedding = layer_time(asked, constants, PricedLayer::Embedding);
  out.head = layer_time(asked, constants, PricedLayer::Head);
  return out;
}

}  // namespace sextant
