#include "plan/memory.h"

#include <algorithm>
#include <cmath>

#include "plan/own_memory.h"

namespace sextant {

double value_bytes(const Case& asked) {
  return asked.numerics.format == NumberFormat::Fp32 ? 4 : 2;
}

RankParameters parameters_on(const Case& asked, const Parameters& counts, double layers, bool first,
                             bool last) {
  const Layout& l = asked.layout;
  RankParameters here;
  const ModelShape& s = asked.shape;
  if (s.experts > 0) {
    const double dense = first ? std::min(static_cast<double>(s.dense_layers), layers)
                               : (l.pp == 1 ? static_cast<double>(s.dense_layers) : 0);
    here.experts = (layers - dense) * counts.experts / (static_cast<double>(l.ep) * l.etp);
    here.dense =
        (dense * counts.layer + (layers - dense) * (counts.expert_layer - counts.experts)) / l.tp;
  } else {
    here.dense = layers * counts.layer / l.tp;
  }
  if (first) here.dense += counts.embedding / l.tp;
  if (last) here.dense += (s.tied && l.pp > 1 ? counts.embedding : counts.head) / l.tp;
  return here;
}

namespace {

// Tensors of several micro-batches, freed in another order, leave more gaps.
constexpr double kPipelineFragments = 4;
// Bytes that an RMSNorm of PyTorch's operators keeps of a value: in fp32 what came in, and normed.
constexpr double kEagerNorm = 8;

// Per parameter: weights, gradients, optimizer, before sharding.
struct StateBytes {
  double weights = 2, gradients = 4, optimizer = 12;
};

StateBytes state_bytes(const Case& asked) {
  StateBytes bytes;
  const Numerics& n = asked.numerics;
  bytes.gradients = n.grad_bytes;
  bytes.optimizer = (n.master ? 4 : 0) + n.moment_bytes;
  // Gradients that accumulate in fp16 are copied to fp32, and scaled there, before the update.
  if (n.format == NumberFormat::Fp16 && n.master && n.grad_bytes < 4) bytes.optimizer += 4;
  if (asked.layout.zero == 3) {
    // The fp32 shard is the master copy: no 16-bit copy outside of gathered layers.
    bytes.weights = n.master ? 4 : 2;
    bytes.optimizer = n.moment_bytes;
  }
  if (n.format == NumberFormat::Fp32) return {4, 4, n.moment_bytes};
  return bytes;
}

void add_states(MemoryUse& use, const Case& asked, const RankParameters& here) {
  const Layout& l = asked.layout;
  const StateBytes bytes = state_bytes(asked);
  const double shard = static_cast<double>(l.zero > 0 ? l.shard : 1) * (l.zero > 0 ? l.cp : 1);
  const double expert_shard = l.zero > 0 ? expert_shards(l) : 1;
  const auto add = [&](double count, double over) {
    use.weights += count * bytes.weights / (l.zero >= 3 ? over : 1);
    use.gradients += count * bytes.gradients / (l.zero >= 2 ? over : 1);
    use.optimizer += count * bytes.optimizer / (l.zero >= 1 ? over : 1);
  };
  add(here.dense * held_stages(l), shard);
  add(here.experts * held_stages(l), expert_shard);
}

// Of an input of a linear layer.
double input_bytes(const Case& asked) {
  return asked.numerics.format >= NumberFormat::Fp8Tensor ? 1 : value_bytes(asked);
}

double attention_kept(const Case& asked, double tokens, bool scores_kept) {
  const ModelShape& s = asked.shape;
  const double value = value_bytes(asked);
  const double tp = asked.layout.tp;
  const double heads = static_cast<double>(s.heads) / tp, d = static_cast<double>(s.head_dim);
  double bytes = 0;
  if (s.kv_rank > 0) {
    const double qk = d + static_cast<double>(s.rope_dim), v = static_cast<double>(s.value_dim);
    // `train` keeps values and results of attention as wide as the keys.
    const double wide = asked.practice.own ? 4 * qk + v : 2 * qk + 2 * v;
    const bool drops_up = !asked.practice.own && asked.layout.recompute == Recompute::Selective &&
                          asked.practice.attention >= AttentionKernel::Flash1;
    bytes = tokens * value *
            (heads * (drops_up ? v : wide) + 2 * static_cast<double>(s.q_rank) +
             2 * static_cast<double>(s.kv_rank) + static_cast<double>(s.rope_dim));
  } else {
    const double kv = std::max(static_cast<double>(s.kv_heads) / tp, 1.0) * d;
    bytes = tokens * value * (2 * heads * d + 2 * kv);
    if (asked.practice.own && s.head_norm) bytes += tokens * value * (heads * d + kv);
  }
  if (asked.practice.own && asked.layout.cp > 1 && asked.layout.cp_kind == ContextKind::Ulysses &&
      asked.layout.recompute != Recompute::Selective)
    bytes += tokens * value * heads * d;
  bytes += tokens * heads * 4;  // log-sum-exp
  if (asked.practice.own && asked.layout.recompute == Recompute::Selective)
    bytes -= tokens * heads * (4 + value * (s.kv_rank > 0 ? 0 : d));  // the core's results
  if (asked.practice.attention < AttentionKernel::Flash1 && scores_kept) {
    // Softmax output, mask and dropped-out copy; a softmax of several kernels keeps its inputs.
    const double per_score = asked.practice.attention == AttentionKernel::Unfused ? 4 * value
                             : s.dropout || s.gated                               ? 2 * value + 1
                                                                                  : value;
    bytes += tokens * heads * static_cast<double>(s.seq) * per_score;
  }
  return bytes;
}

double experts_kept(const Case& asked, double tokens, bool cheap_kept) {
  const ModelShape& s = asked.shape;
  const Layout& l = asked.layout;
  // In `train` the experts' buffers have their capacity, the combined rows only what the rank sent.
  const double capacity = asked.practice.own && (l.ep > 1 || l.etp > 1)
                              ? std::max(asked.practice.expert_room, 1.0)
                              : asked.practice.imbalance;
  const double routed = tokens / l.tp * static_cast<double>(s.experts_per_token);
  const double narrow = input_bytes(asked), value = value_bytes(asked);
  const double wide = (s.gated ? 2 : 1) * value + (cheap_kept ? narrow : 0);
  return routed * static_cast<double>(s.hidden) * value * (asked.practice.own ? 1 : capacity) +
         routed * capacity *
             (narrow * l.etp * static_cast<double>(s.hidden) +
              static_cast<double>(s.expert_ffn) * wide) +
         tokens * static_cast<double>(s.shared_ffn) / l.tp * wide;
}

double logits_bytes(const Case& asked) {
  double each = asked.practice.logit_bytes;
  if (asked.practice.own) return own_logit_bytes(asked);
  // In fp32 there is no 16-bit copy beside the logits and their gradients.
  if (asked.numerics.format == NumberFormat::Fp32) each = std::max(4.0, each - 2);
  const double tokens = static_cast<double>(asked.layout.micro * asked.shape.seq) / asked.layout.cp;
  return tokens * static_cast<double>(asked.shape.vocab) /
         (asked.practice.vocab_parallel ? asked.layout.tp : 1) * each;
}

double gathered_bytes(const Case& asked, const Parameters& counts) {
  const Layout& l = asked.layout;
  if (l.zero < 3) return 0;
  const double layer =
      asked.shape.experts > 0 ? counts.expert_layer / (double(l.ep) * l.etp) : counts.layer;
  const double largest = std::max(layer, counts.embedding) / l.tp;
  // The layer in use, the one that is prefetched, and a whole gradient before its reduction. In a
  // pipeline all weights of the stage stay, and gradients whole until the last micro-batch.
  const double value = value_bytes(asked), between_micros = value + 4;
  return 2 * value * layer / l.tp + asked.numerics.reduce_bytes * largest +
         (l.pp > 1 && !asked.practice.each_micro
              ? between_micros * layer / l.tp * static_cast<double>(asked.shape.layers) / l.pp
              : 0);
}

}  // namespace

double usable_memory(const Hardware& hardware) {
  return 0.99 * hardware.memory;
}

bool fits(const Case& asked, const MemoryUse& use) {
  return use.total() <= usable_memory(asked.hardware);
}

double state_bytes_per_parameter(int zero, double shard, double moment_bytes) {
  const double optimizer = 4 + 2 * moment_bytes;
  return 2 / (zero >= 3 ? shard : 1) + 2 / (zero >= 2 ? shard : 1) +
         optimizer / (zero >= 1 ? shard : 1);
}

double held_stages(const Layout& layout) {
  return layout.pp > 1 && layout.schedule == ScheduleKind::DualPipe ? 2 : 1;
}

double expert_shards(const Layout& layout) {
  // Experts that are not divided are sharded with the rest of their layer.
  const double copies = static_cast<double>(layout.expert_copies());
  return layout.ep == 1 && layout.etp == 1 ? copies / layout.dp : copies;
}

double in_flight(const Layout& layout, int64_t micros, int64_t rank) {
  const double p = layout.pp, m = static_cast<double>(micros), r = static_cast<double>(rank);
  const double v = static_cast<double>(layout.stages()) / layout.pp;
  switch (layout.schedule) {
    case ScheduleKind::Gpipe:
    case ScheduleKind::LoopedBfs:
      return m;
    case ScheduleKind::OneFOneB:
      return std::min(p - r, m);
    case ScheduleKind::Interleaved:
    case ScheduleKind::InterleavedZb:
      return std::min((2 * (p - 1 - r) + (v - 1) * p + 1) / v, m);
    case ScheduleKind::ZbH1:
    case ScheduleKind::ZbV:
      return std::min(p, m);
    case ScheduleKind::ZbH2:
    case ScheduleKind::ZbAuto:
      return std::min(2 * p - 1, m);
    case ScheduleKind::VHalf:
      return std::min(p / 2 + 1, m);
    case ScheduleKind::VMin:
      return std::min(p / 3 + 1, m);
    case ScheduleKind::DualPipe:
    case ScheduleKind::DualPipeV:
      return std::min(p + 1, m);
  }
  return p;
}

double kept_bytes(const Case& asked, bool experts) {
  const ModelShape& s = asked.shape;
  const Layout& l = asked.layout;
  const double tokens = static_cast<double>(l.micro * s.seq) / l.cp;
  const double h = static_cast<double>(s.hidden);
  const double sp = l.sequence ? l.tp : 1;
  if (l.recompute == Recompute::Full) {
    const double input = tokens * h * value_bytes(asked) / sp;
    if (asked.practice.recomputed >= 1) return input;
    Case whole = asked;
    whole.layout.recompute = asked.practice.own ? Recompute::None : Recompute::Selective;
    return input + (1 - asked.practice.recomputed) * (kept_bytes(whole, experts) - input);
  }
  const double narrow = input_bytes(asked), value = value_bytes(asked);
  const bool flash = asked.practice.attention >= AttentionKernel::Flash1;
  const bool selective = l.recompute == Recompute::Selective;
  const bool drops_cheap = selective && flash && !asked.practice.own;
  const bool cheap_kept = !drops_cheap && l.recompute != Recompute::Cheap;
  // `train` computes the product of SwiGLU again, no other activation.
  const bool keeps_product = cheap_kept || (asked.practice.own && !s.gated);
  double bytes = tokens * 2 * value * h / sp;  // inputs of the norms
  const double sp_inputs = asked.practice.gathers_again ? sp : 1;
  if (cheap_kept) bytes += tokens * 2 * narrow * h / sp_inputs;  // their outputs, inputs of GEMMs
  if (s.dropout) bytes += tokens * 2 * h / sp;                   // masks
  if (!asked.practice.fused_norm && cheap_kept) bytes += tokens * 2 * kEagerNorm * h / sp;
  // Copies around a norm kernel that is not part of the program's own memory plan.
  if (asked.practice.norm_copies) bytes += tokens * 3 * h;
  bytes += attention_kept(asked, tokens, !selective);
  if (experts)
    bytes += experts_kept(asked, tokens, cheap_kept);
  else
    bytes += tokens * static_cast<double>(s.ffn) / l.tp *
             ((s.gated ? 2 : 1) * value + (keeps_product ? narrow : 0));
  if (selective && asked.practice.half_gemms) bytes *= 0.75;
  return bytes;
}

LayerMemory layer_memory(const Case& asked) {
  const bool sparse = asked.shape.experts > 0;
  LayerMemory out;
  out.kept = out.whole = kept_bytes(asked, sparse);
  if (asked.layout.recompute != Recompute::None) {
    Case whole = asked;
    whole.layout.recompute = Recompute::None;
    out.whole = kept_bytes(whole, sparse);
  }
  if (asked.practice.own) out.half = out.whole + own_half_bytes(asked);
  if (asked.layout.recompute == Recompute::Full) {
    Case whole = asked;
    whole.layout.recompute = Recompute::None;
    const double tokens =
        static_cast<double>(asked.layout.micro * asked.shape.seq) / asked.layout.cp;
    out.working = out.whole;
    out.scores = 2 * (attention_kept(whole, tokens, true) - attention_kept(whole, tokens, false));
  }
  if (!asked.practice.only_layers) out.logits = logits_bytes(asked);
  return out;
}

MemoryUse memory_use(const Case& asked, const Constants& constants) {
  const Parameters counts = count_parameters(asked.shape);
  if (!asked.practice.own)
    return memory_use(asked, constants, layer_memory(asked), counts, ScheduleHeld{});
  return memory_use(asked, constants, layer_memory(asked), counts,
                    held_passes(asked.layout, asked.micros(), relative_costs(asked)));
}

MemoryUse memory_use(const Case& asked, const Constants& constants, const LayerMemory& layer,
                     const Parameters& counts, const ScheduleHeld& held) {
  if (asked.practice.own) return own_memory(asked, constants, layer, counts, held);
  const Layout& l = asked.layout;
  const StageLayers layers = stage_layers(asked);
  const int64_t micros = std::max<int64_t>(asked.micros(), 1);
  MemoryUse worst;
  for (int rank : {0, 1, l.pp - 1}) {
    if (rank < 0 || rank >= l.pp) continue;
    const bool first = rank == 0, last = rank == l.pp - 1;
    const double own = first ? layers.first : last ? layers.last : layers.middle;
    MemoryUse use;
    use.rank = rank;
    add_states(use, asked, parameters_on(asked, counts, own, first, last));
    use.gathered = gathered_bytes(asked, counts);
    use.activations = layer.kept * own * in_flight(l, micros, rank);
    // Of what waits in the host's memory, the layers in use and on their way are here.
    if (l.offloads_activations()) use.activations = std::min(use.activations, layer.kept * 3);
    if (l.offloads_optimizer()) use.optimizer *= std::min(1.0, 3 / std::max(own, 1.0));
    if (last) use.logits = layer.logits;
    // A recomputed layer is alive after the logits are gone.
    use.activations += std::max(0.0, layer.working - use.logits) + layer.scores;
    use.fragments = constants.fragments * (l.pp > 1 ? kPipelineFragments : 1) * use.allocated();
    use.outside = constants.reserve * kGiB;
    if (use.total() > worst.total()) worst = use;
  }
  return worst;
}

}  // namespace sextant
