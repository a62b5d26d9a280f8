#include "plan/step_time.h"

#include <algorithm>
#include <cmath>

#include "plan/collective.h"
#include "plan/memory.h"

namespace sextant {
namespace {

// Time of two activities side by side: the shorter one still costs a share of itself, for memory,
// SMs and power that both want.
double beside(const Constants& constants, double a, double b) {
  return std::max(a, b) + constants.overlap * std::min(a, b);
}

RankTimes combine(const Case& asked, const LayerTime& dense, const LayerTime& sparse,
                  const LayerTime& embedding, const LayerTime& head) {
  const StageLayers layers = stage_layers(asked);
  const ModelShape& s = asked.shape;
  const bool alone = asked.layout.pp == 1;
  const double ahead = static_cast<double>(s.predicted_ahead);
  RankTimes out;
  const auto fill = [&](RankTime& rank, double count, double dense_count) {
    rank.add(dense, dense_count);
    if (count > dense_count) rank.add(sparse, count - dense_count);
  };
  const double dense_layers =
      s.experts > 0 ? static_cast<double>(s.dense_layers) : static_cast<double>(s.layers);
  fill(out.first, layers.first, std::min(dense_layers, layers.first));
  fill(out.middle, layers.middle, s.experts > 0 ? 0 : layers.middle);
  // A prediction layer and its head take the place of two layers on their rank.
  const double last = alone ? layers.last : std::max(0.0, layers.last - 2 * ahead);
  fill(out.last, last, s.experts > 0 ? 0 : last);
  if (alone) out.last = out.first;
  if (!asked.practice.only_layers) {
    (alone ? out.last : out.first).add(embedding, 1);
    out.last.add(head, 1 + ahead);
  }
  if (ahead > 0) out.last.add(sparse, ahead);
  return out;
}

// Time that v-half takes for each micro-batch where it is longer than the work: it waits where
// passes are uneven.
double half_period(const RankTime& rank) {
  return 2 * std::max(rank.forward, rank.input) + rank.weight / 2;
}

// Time from the first forward to the last gradient where so few micro-batches leave ranks waiting
// for one another: the way of one through all stages and back, and what each further one adds.
double fill_time(const Layout& l, double micros, const RankTimes& ranks) {
  const RankTime& mid = l.pp > 2 ? ranks.middle : ranks.first;
  const auto way = [](const RankTime& rank) { return rank.forward + rank.input; };
  const double there_and_back = way(ranks.first) + way(ranks.last) + (l.pp - 2) * way(mid);
  const double f = mid.forward, i = mid.input, w = mid.weight, longest = std::max({f, i, w});
  const double v = static_cast<double>(l.stages()) / l.pp;
  const double more = micros - 1;
  switch (l.schedule) {
    case ScheduleKind::LoopedBfs:
      return there_and_back + (l.pp - 1) * w + w + more * (f + i + w) / v;
    case ScheduleKind::ZbH1:
    case ScheduleKind::ZbAuto:
      return there_and_back + w + more * (f + i);
    case ScheduleKind::ZbH2:
      return there_and_back + w + more * (f + i + 0.4 * w);
    case ScheduleKind::ZbV:
      return there_and_back + w / 2 + more * longest;
    case ScheduleKind::VHalf:
      return there_and_back + w + more * std::max(0.9 * mid.total(), half_period(mid));
    case ScheduleKind::VMin:  // its slots are as long as the longest pass
      return there_and_back + w / 2 + more * 3 * longest;
    default:
      return 0;
  }
}

// What a schedule takes beyond the work of its slowest rank once there are micro-batches enough.
double steady_bubble(const Layout& l, double micros, const RankTimes& ranks) {
  const double p = l.pp;
  const RankTime& mid = l.pp > 2 ? ranks.middle : ranks.first;
  const double all = ranks.first.total() + ranks.last.total() + (p - 2) * mid.total();
  const double most = std::max({ranks.first.total(), mid.total(), ranks.last.total()});
  const double others = all - most;
  const double f = mid.forward, i = mid.input, w = mid.weight, longest = std::max({f, i, w});
  const double v = static_cast<double>(l.stages()) / l.pp;
  const double gap = std::max(0.0, f + i - w);
  switch (l.schedule) {
    case ScheduleKind::Gpipe:
    case ScheduleKind::OneFOneB:
      return others;
    case ScheduleKind::Interleaved:
    case ScheduleKind::LoopedBfs:
      return others / v;
    case ScheduleKind::ZbH1:
      return others * gap / (f + i + w);
    case ScheduleKind::InterleavedZb:
      return others * gap / (f + i + w) / v;
    case ScheduleKind::ZbH2:
    case ScheduleKind::ZbAuto:
      return (p - 1) * std::max(f, i - w);
    case ScheduleKind::ZbV:
      return (p - 1) * longest / 2;
    case ScheduleKind::VHalf: {
      const double slots = std::max(1.0, 3 * p - (l.pp % 2 == 0 ? 7 : 4));
      return slots * longest / 2 + micros * std::max(0.0, half_period(mid) - mid.total());
    }
    case ScheduleKind::VMin:
      return 0;
    case ScheduleKind::DualPipe:
      return (p / 2 - 1) * gap;
    case ScheduleKind::DualPipeV:
      return (p - 1) * gap / 2;
  }
  return others;
}

double message_seconds(const Case& asked, const Constants& constants) {
  const Layout& l = asked.layout;
  if (l.pp == 1) return 0;
  const LinkGroup group = group_of(2, l.world() / l.pp, asked.hardware);
  const double tokens = static_cast<double>(l.micro * asked.shape.seq) / l.cp;
  const double bytes =
      tokens * static_cast<double>(asked.shape.hidden) * 2 / (l.sequence ? l.tp : 1);
  return collective_seconds(asked.hardware, constants, CollectiveKind::Send, bytes, group);
}

// Exposed seconds of messages between pipeline ranks. A round trip between neighbours is on the
// critical path of 1F1B once per micro-batch; chunks leave slack for it. In the queue of the
// compute a middle rank has two to receive and two to send for every micro-batch.
double message_time(const Case& asked, const Constants& constants, double micros, double message) {
  const Layout& l = asked.layout;
  if (l.pp == 1) return 0;
  const double v = static_cast<double>(l.stages()) / l.pp;
  if (asked.practice.sends_wait) return (l.pp > 2 ? 4 : 2) * (micros + l.pp - 1) * v * message;
  return (v > 1 ? constants.overlap : 1) * micros * v * message + 2 * (l.pp - 1) * message;
}

// Parameters of the fullest pipeline rank, split as their collectives are.
struct LocalCounts {
  double dense = 0, experts = 0;
};

LocalCounts local_counts(const Case& asked, const Parameters& counts) {
  const Layout& l = asked.layout;
  const StageLayers layers = stage_layers(asked);
  LocalCounts out;
  const double n = layers.middle;
  if (asked.shape.experts > 0) {
    out.experts = n * counts.experts / (static_cast<double>(l.ep) * l.etp);
    out.dense = n * (counts.expert_layer - counts.experts) / l.tp;
  } else {
    out.dense = n * counts.layer / l.tp;
  }
  if (!asked.practice.only_layers)
    out.dense += (l.pp == 1 ? counts.embedding + counts.head : counts.embedding) / l.tp;
  const double held = held_stages(l);
  return {out.dense * held, out.experts * held};
}

// Collectives that the parameters of a stage take. Those beside compute, and those of gradients or
// weights that are divided, leave layer by layer; DeepSpeed's ZeRO-3 sends tensor by tensor.
double pieces_of(const Case& asked) {
  const Layout& l = asked.layout;
  const double groups = static_cast<double>(asked.shape.layers) / l.pp + 1;
  if (l.zero == 3 && !asked.practice.coalesced) return 12 * groups;
  return asked.practice.grads_overlap || l.zero >= 2 ? groups : 1;
}

// Without ZeRO all ranks with the same parameters sum their gradients.
StateTraffic::Group group_traffic(const Case& asked, const Constants& constants, double count,
                                  StateTraffic::Group group) {
  const Hardware& hw = asked.hardware;
  const Numerics& n = asked.numerics;
  const double pieces = pieces_of(asked);
  const auto seconds = [&](CollectiveKind kind, double bytes, int64_t ranks, int64_t stride) {
    return pieces * collective_seconds(hw, constants, kind, bytes / pieces,
                                       group_of(ranks, stride, hw, asked.layout.world()));
  };
  if (asked.layout.zero == 0) {
    group.copies *= group.sharded;
    group.sharded = 1;
    group.across =
        seconds(CollectiveKind::AllReduce, count * n.reduce_bytes, group.copies, group.stride);
    return group;
  }
  if (asked.practice.sums_whole && asked.layout.zero == 1)
    group.reduce =
        seconds(CollectiveKind::AllReduce, count * n.reduce_bytes, group.sharded, group.stride);
  else
    group.reduce =
        seconds(CollectiveKind::ReduceScatter, count * n.reduce_bytes, group.sharded, group.stride);
  group.gather = seconds(CollectiveKind::AllGather, count * (n.fp8_gather ? 1 : 2), group.sharded,
                         group.stride);
  group.across = seconds(CollectiveKind::AllReduce,
                         count * n.reduce_bytes / static_cast<double>(group.sharded), group.copies,
                         group.stride * group.sharded);
  return group;
}

StateTraffic state_traffic(const Case& asked, const Constants& constants, double dense,
                           double experts) {
  const Layout& l = asked.layout;
  StateTraffic out;
  out.dense =
      group_traffic(asked, constants, dense,
                    {.sharded = int64_t{1} * l.shard * l.cp, .copies = l.dp, .stride = l.tp});
  if (experts == 0) return out;
  // Experts that are not divided are sharded with the rest of their layer.
  const int64_t inside = int64_t{1} * l.ep * l.etp, copies = inside == 1 ? l.dp : 1;
  out.experts =
      group_traffic(asked, constants, experts,
                    {.sharded = l.expert_copies() / copies, .copies = copies, .stride = inside});
  return out;
}

// Exposed time per step of what data parallel ranks exchange, given the time of one micro-batch.
double data_time(const Case& asked, const Constants& constants, const LocalCounts& local,
                 const RankTime& rank, double micros) {
  const Layout& l = asked.layout;
  if (l.data_ranks() * l.cp == 1) return 0;
  const double forward = rank.forward, backward = rank.input + rank.weight;
  const bool each_micro = l.pp == 1 || asked.practice.each_micro;
  if (l.zero == 3 && each_micro) {
    const StateTraffic all = state_traffic(asked, constants, local.dense, local.experts);
    const double gather = all.gather(), reduce = all.reduce();
    if (!asked.practice.gathers_overlap) return micros * (2 * gather + reduce);
    return micros * (beside(constants, forward, gather) - forward +
                     beside(constants, backward, gather + reduce) - backward);
  }
  const StateTraffic all = state_traffic(asked, constants, local.dense, local.experts);
  const double reductions = l.zero == 2 && each_micro ? micros : 1;
  if (!asked.practice.grads_overlap) return reductions * all.reduce() + all.gather();
  return reductions * (beside(constants, backward, all.reduce()) - backward) +
         beside(constants, forward, all.gather()) - forward;
}

double optimizer_time(const Case& asked, const Constants& constants, const LocalCounts& local) {
  const Layout& l = asked.layout;
  const double shard = l.zero >= 1 ? static_cast<double>(l.shard) * l.cp : 1;
  const double expert_shard = l.zero >= 1 ? expert_shards(l) : 1;
  const double updated = local.dense / shard + local.experts / expert_shard;
  // Gradients, weights, and master and moments there and back.
  const double bytes = (asked.numerics.master ? 14 : 8) + 2 * asked.numerics.moment_bytes;
  // The norm reads all gradients once more, and they are set to zero.
  const double grads =
      (local.dense + local.experts) * asked.numerics.grad_bytes * 2 / (l.zero >= 2 ? shard : 1);
  return (updated * bytes + grads) / (asked.hardware.memory_rate * constants.memory_rate);
}

// Exposed copies over the link to the host: of activations beside the passes of each micro-batch,
// of the optimizer's state, there and back, around its update.
double offload_time(const Case& asked, const Constants& constants, const LocalCounts& local,
                    const RankTime& rank, double micros, double update) {
  const Layout& l = asked.layout;
  double out = 0;
  if (l.offloads_activations()) {
    const double layers = stage_layers(asked).middle;
    const double copy = kept_bytes(asked, asked.shape.experts > 0) * layers / asked.hardware.host;
    const double backward = rank.input + rank.weight;
    out += micros * (beside(constants, rank.forward, copy) - rank.forward +
                     beside(constants, backward, copy) - backward);
  }
  if (l.offloads_optimizer()) {
    const double shard = l.zero >= 1 ? static_cast<double>(l.shard) * l.cp : 1;
    const double states =
        local.dense / shard + local.experts / (l.zero >= 1 ? expert_shards(l) : 1);
    const double copy = states * ((asked.numerics.master ? 4 : 0) + asked.numerics.moment_bytes) /
                        asked.hardware.host;
    out += beside(constants, update, 2 * copy) - update;
  }
  return out;
}

void add_terms(StepTerms& out, const LayerTime& t, double times) {
  out.gemm += times * t.gemm;
  out.attention += times * t.attention;
  out.elements += times * t.elements;
  out.launches += times * t.launches;
  out.recompute += times * t.again;
  out.tp += times * (t.tp_forward + t.tp_backward);
  out.cp += times * (t.cp_forward + t.cp_backward);
  out.ep += times * (t.ep_forward + t.ep_backward);
}

RankTimes rank_times(const Case& asked, const Constants& constants, const LayerTimes& t) {
  RankTimes out = combine(asked, t.dense, t.sparse, t.embedding, t.head);
  out.message = message_seconds(asked, constants);
  return out;
}

}  // namespace

double bubble_time(const Layout& layout, double micros, const RankTimes& ranks) {
  if (layout.pp == 1) return 0;
  const double mid = layout.pp > 2 ? ranks.middle.total() : 0;
  const double most = std::max({ranks.first.total(), mid, ranks.last.total()});
  return std::max(steady_bubble(layout, micros, ranks),
                  fill_time(layout, micros, ranks) - micros * most);
}

void RankTime::add(const LayerTime& t, double times) {
  forward += times * (t.forward + t.tp_forward + t.cp_forward + t.ep_forward);
  input += times * (t.input + t.again + t.tp_backward + t.cp_backward + t.ep_backward);
  weight += times * t.weight;
  tp.forward += times * t.tp_forward;
  tp.backward += times * t.tp_backward;
  cp.forward += times * t.cp_forward;
  cp.backward += times * t.cp_backward;
  ep.forward += times * t.ep_forward;
  ep.backward += times * t.ep_backward;
}

StateTraffic state_traffic(const Case& asked, const Constants& constants) {
  const LocalCounts local = local_counts(asked, count_parameters(asked.shape));
  return state_traffic(asked, constants, local.dense, local.experts);
}

RankTimes rank_times(const Case& asked, const Constants& constants) {
  return rank_times(asked, constants, layer_times(asked, constants));
}

StepTerms step_time(const Case& asked, const Constants& constants) {
  return step_time(asked, constants, layer_times(asked, constants), count_parameters(asked.shape));
}

StepTerms step_time(const Case& asked, const Constants& constants, const LayerTimes& layers,
                    const Parameters& counts) {
  const ModelShape& s = asked.shape;
  const Layout& l = asked.layout;
  const double micros = static_cast<double>(std::max<int64_t>(asked.micros(), 1));
  const RankTimes ranks = rank_times(asked, constants, layers);
  const RankTime& mid = l.pp > 2 ? ranks.middle : ranks.last;
  const double most = std::max({l.pp > 1 ? ranks.first.total() : 0.0,
                                l.pp > 2 ? ranks.middle.total() : 0.0, ranks.last.total()});

  // Work of the mean rank; what the slowest rank has beyond it counts as pipeline.
  StepTerms out;
  const double p = l.pp, ahead = static_cast<double>(s.predicted_ahead);
  const double dense =
      s.experts > 0 ? static_cast<double>(s.dense_layers) : static_cast<double>(s.layers);
  add_terms(out, layers.dense, micros * dense / p);
  add_terms(out, layers.sparse, micros * (static_cast<double>(s.layers) + ahead - dense) / p);
  if (!asked.practice.only_layers) {
    add_terms(out, layers.embedding, micros / p);
    add_terms(out, layers.head, micros * (1 + ahead) / p);
  }
  out.pipeline = micros * most - out.total() + bubble_time(l, micros, ranks);
  out.messages = message_time(asked, constants, micros, ranks.message);
  const LocalCounts local = local_counts(asked, counts);
  out.data = data_time(asked, constants, local, l.pp == 1 ? ranks.last : mid, micros);
  if (!asked.practice.only_layers) out.optimizer = optimizer_time(asked, constants, local);
  if (l.offload != Offload::None)
    out.offload =
        offload_time(asked, constants, local, l.pp == 1 ? ranks.last : mid, micros, out.optimizer);
  return out;
}

}  // namespace sextant
