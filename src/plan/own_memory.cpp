#include "plan/own_memory.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr double kColumns = 4096;    // of chunked logits, at a time
constexpr double kArenaLoss = 0.01;  // of the peak, between tensors of planned addresses
constexpr double kWorkspace = 68.0 * 1024 * 1024;  // of matrix products on a GPU
constexpr double kHidden = 4;                      // hidden states on their way, beside those kept

// Parameters that are reduced or gathered together: those of a block, of the embedding, the head.
struct Groups {
  double block = 0, experts = 0, embedding = 0, head = 0;
  double largest(double whole_block) const { return std::max({whole_block, embedding, head}); }
  // In use and prefetched.
  double gathered(double layers) const {
    const double one = block + experts, end = std::max(embedding, head);
    return layers > 1 ? one + std::max(one, end) : one + end;
  }
};

Groups groups_of(const Case& asked, const Parameters& counts, bool first, bool last) {
  const ModelShape& s = asked.shape;
  const Layout& l = asked.layout;
  Groups out;
  if (s.experts > 0) {
    out.experts = counts.experts / (static_cast<double>(l.ep) * l.etp);
    out.block =
        std::max(counts.expert_layer - counts.experts, s.dense_layers > 0 ? counts.layer : 0.0) /
        l.tp;
  } else {
    out.block = counts.layer / l.tp;
  }
  if (first) out.embedding = counts.embedding / l.tp;
  if (last) out.head = (s.tied ? counts.embedding : counts.head) / l.tp;
  return out;
}

// ZeRO-2 and 3: a bucket of gradients fills while the one before is on its way; embedding and head
// have a block for a neighbour. Where weight gradients come later, all of a stage's fill first.
double bucket_bytes(const Case& asked, const RankParameters& here, const Groups& groups,
                    double waiting) {
  if (asked.layout.zero < 2) return 0;
  const double block = groups.block + groups.experts, all = here.dense + here.experts;
  return asked.numerics.grad_bytes * std::max(waiting * all, groups.largest(block) + block);
}

// What a rank holds at its fullest time beside its states.
struct Fullest {
  double activations = 0, buckets = 0;
  double total() const { return activations + buckets; }
};

void add_states(MemoryUse& use, const Case& asked, const RankParameters& here, const Groups& groups,
                double layers) {
  const Layout& l = asked.layout;
  const Numerics& n = asked.numerics;
  const double value = value_bytes(asked);
  const double optimizer = (n.master && value < 4 ? 4 : 0) + n.moment_bytes;
  const double all = here.dense + here.experts;
  const double shard = l.shard, expert_shard = l.ep > 1 || l.etp > 1 ? expert_shards(l) : shard;
  const auto over = [&](int stage) {
    return l.zero >= stage ? here.dense / shard + here.experts / expert_shard : all;
  };
  use.weights = value * over(3);
  use.gradients = n.grad_bytes * over(2);
  use.optimizer = optimizer * over(1);
  if (l.zero >= 3) use.gathered += value * groups.gathered(layers);
  const bool is_tied_here = asked.shape.tied && groups.embedding > 0 && groups.head > 0;
  if (is_tied_here && asked.micros() > 1) use.gathered += n.grad_bytes * groups.embedding;
}

}  // namespace

double arena_limit(const Hardware& hardware, const Constants& constants) {
  const bool is_gpu = hardware.generation != GpuGeneration::Cpu;
  return usable_memory(hardware) - (is_gpu ? constants.reserve * kGiB : 0);
}

double own_logit_bytes(const Case& asked) {
  const double tokens = static_cast<double>(asked.layout.micro * asked.shape.seq) / asked.layout.cp;
  const double columns = static_cast<double>(asked.shape.vocab) / asked.layout.tp;
  return tokens * value_bytes(asked) *
         (asked.practice.chunked_logits ? std::min(columns, kColumns) : columns);
}

double own_half_bytes(const Case& asked) {
  const ModelShape& s = asked.shape;
  const Layout& l = asked.layout;
  const double tokens = static_cast<double>(l.micro * s.seq) / l.cp, tp = l.tp;
  const double hidden = static_cast<double>(s.hidden), dim = static_cast<double>(s.head_dim);
  double values = l.sequence ? (s.experts > 0 ? 1 : 2) * hidden * (1 - 1 / tp) : 0;
  // What came into the norms of heads is gone then, unless it was made again with the other cheap
  // ones.
  if (s.head_norm && l.recompute != Recompute::Cheap && l.recompute != Recompute::Selective)
    values -= dim * (static_cast<double>(s.heads) / tp +
                     std::max(static_cast<double>(s.kv_heads) / tp, 1.0));
  return tokens * value_bytes(asked) * values;
}

MemoryUse own_memory(const Case& asked, const Constants& constants, const LayerMemory& layer,
                     const Parameters& counts, const ScheduleHeld& held) {
  const Layout& l = asked.layout;
  const StageLayers layers = stage_layers(asked);
  const bool is_dual = l.pp > 1 && l.schedule == ScheduleKind::DualPipe;
  const bool is_v = l.pp > 1 && is_v_shaped(l.schedule);
  const double tokens = static_cast<double>(l.micro * asked.shape.seq) / l.cp;
  const double hidden = tokens * static_cast<double>(asked.shape.hidden) * value_bytes(asked) /
                        (l.sequence ? l.tp : 1);
  MemoryUse worst;
  for (int place = 0; place < 3; ++place) {
    if ((l.pp == 1 && place > 0) || (l.pp == 2 && place == 1)) continue;
    const bool is_end = place != 1;
    const bool first = place == 0 || (is_dual && is_end);
    const bool last = l.pp == 1 || (is_v ? place == 0 : place == 2 || (is_dual && is_end));
    // A V has the first and the last stage on rank 0.
    const bool is_counted = is_v && asked.split.middle <= 0;
    const double own = is_counted && place == 0   ? (layers.first + layers.last) / 2
                       : is_counted || place == 1 ? layers.middle
                       : place == 0               ? layers.first
                                                  : layers.last;
    MemoryUse use;
    use.rank = place == 2 ? l.pp - 1 : place;
    const Groups groups = groups_of(asked, counts, first, last);
    const double all = own * held_stages(l);
    const bool adds_head = last && !(first && asked.shape.tied);
    const RankParameters here = parameters_on(asked, counts, all, first, adds_head);
    add_states(use, asked, here, groups, all);
    const double head = last ? layer.logits : 0;
    const double kept_head = asked.practice.chunked_logits ? 0 : head;
    Fullest fullest;
    for (const HeldPasses& pass : held[static_cast<size_t>(place)]) {
      double bytes = own * (pass.forward * layer.kept + pass.halves * layer.half) +
                     std::max(pass.heads - 1, 0.0) * kept_head;
      if (l.offloads_activations()) bytes = std::min(bytes, layer.kept * 3);
      const Fullest now{bytes, bucket_bytes(asked, here, groups, pass.waiting)};
      if (now.total() > fullest.total()) fullest = now;
    }
    use.activations = fullest.activations;
    use.gathered += fullest.buckets;
    if (l.offloads_optimizer()) use.optimizer *= std::min(1.0, 3 / std::max(own, 1.0));
    use.logits = head;
    use.activations += std::max(0.0, layer.whole - layer.kept - head) + kHidden * hidden;
    // Experts that every rank of tp has whole: their gradients are summed when all else is done.
    const bool sums = asked.shape.experts > 0 && l.ep * l.etp == 1 && l.tp > 1;
    const double summed =
        sums ? asked.numerics.grad_bytes * here.experts / (l.zero >= 1 ? l.shard : 1) : 0;
    use.gathered += std::max(0.0, summed - use.gathered - use.activations - use.logits);
    use.fragments = kArenaLoss * use.allocated() + kWorkspace;
    use.outside = asked.hardware.generation == GpuGeneration::Cpu ? 0 : constants.reserve * kGiB;
    if (use.total() > worst.total()) worst = use;
  }
  return worst;
}

}  // namespace sextant
