#include "plan/config_case.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "blueprint/blueprint.h"
#include "program/stages.h"

namespace sextant {
namespace {

NumberFormat format_of(const PrecisionConfig& precision) {
  switch (precision.compute) {
    case ComputeType::Fp32:
    case ComputeType::Fp64:  // not a setting
      return NumberFormat::Fp32;
    case ComputeType::Fp16:
      return NumberFormat::Fp16;
    case ComputeType::Bf16:
      return NumberFormat::Bf16;
    case ComputeType::Fp8:
      break;
  }
  // Small tiles are scaled within the product, as rows are.
  return precision.fp8_recipe == Fp8Recipe::Block ? NumberFormat::Fp8Row : NumberFormat::Fp8Tensor;
}

double bytes_of(ComputeType type) {
  return type == ComputeType::Fp32 ? 4 : 2;
}

Numerics numerics_of(const Config& config) {
  const PrecisionConfig& precision = config.precision;
  Numerics out;
  out.format = format_of(precision);
  out.master = precision.master == MasterWeights::Fp32 && out.format != NumberFormat::Fp32;
  out.grad_bytes = out.reduce_bytes = bytes_of(precision.grads);
  const double moments = config.optim.name == OptimizerKind::AdamW ? 2
                         : config.optim.momentum > 0               ? 1
                                                                   : 0;
  out.moment_bytes = moments * bytes_of(precision.moments);
  return out;
}

Practice practice_of(const Config& config, const Layout& layout, GpuGeneration generation) {
  Practice out;
  out.own = true;
  out.each_micro = true;
  out.tp_overlap = config.parallel.tp_overlap;
  out.chunked_logits = config.memory.logits == LogitsPolicy::Chunked;
  if (config.memory.experts > 0) out.expert_room = config.memory.experts;
  if (config.memory.recompute_layers > 0)
    out.recomputed =
        std::min(1.0, static_cast<double>(config.memory.recompute_layers * layout.stages()) /
                          static_cast<double>(config.model.layers));
  if (generation >= GpuGeneration::Hopper) out.attention = AttentionKernel::Library;
  return out;
}

}  // namespace

StageLayers split_of(const ModelConfig& model, const Layout& layout, const std::string& split) {
  if (layout.pp == 1 || split == "even") return {};
  const Blueprint blueprint = make_blueprint(model);
  const int p = layout.pp, stages = static_cast<int>(layout.stages());
  const std::vector<Range> ranges = split_stages(blueprint, stages, split);
  const auto blocks = [&](int stage) {
    const Range& range = ranges[static_cast<size_t>(stage)];
    double count = 0;
    for (int64_t layer = range.begin; layer < range.end; ++layer)
      count += blueprint.layers[static_cast<size_t>(layer)].kind == LayerKind::Attention;
    return count;
  };
  std::vector<double> ranks(static_cast<size_t>(p), 0);
  for (int stage = 0; stage < stages; ++stage) {
    const int rank = !is_v_shaped(layout.schedule) ? stage % p
                     : stage < p                   ? stage
                                                   : 2 * p - 1 - stage;
    ranks[static_cast<size_t>(rank)] += blocks(stage);
  }
  const auto middle = p > 2 ? std::span(ranks).subspan(1, ranks.size() - 2) : std::span(ranks);
  const double most = *std::ranges::max_element(middle);
  return {ranks.front(), most, ranks.back()};
}

Layout layout_of(const Config& config) {
  const ParallelConfig& p = config.parallel;
  Layout out;
  out.dp = p.dp;
  out.shard = p.shard;
  out.zero = p.shard > 1 ? p.zero : 0;
  out.tp = p.tp;
  out.sequence = p.sequence && p.tp > 1;
  out.cp = p.cp;
  out.cp_kind = p.cp_kind;
  out.pp = p.pp;
  out.ep = p.ep;
  out.etp = p.etp;
  out.chunks = p.pp > 1 ? p.chunks : 1;
  out.micro = config.batch.micro;
  out.recompute = config.memory.recompute;
  out.offload = config.memory.offload;
  const int64_t some = config.memory.recompute_layers;
  SXT_CHECK(
      some == 0 || out.recompute == Recompute::Full || out.recompute == Recompute::None, Config,
      "memory.recompute_layers = ", some, " with memory.recompute = ", name_of(out.recompute),
      ", which the planner cannot price; it takes 0, all layers, or ", "memory.recompute = full");
  if (p.pp > 1) {
    const auto* found = std::ranges::find(kSchedules, p.schedule);
    SXT_CHECK(found != std::end(kSchedules), Config, "parallel.schedule is ", p.schedule,
              ", which the planner cannot price; it takes one by name");
    out.schedule = static_cast<ScheduleKind>(found - std::begin(kSchedules));
  }
  return out;
}

PlanRequest request_of(const Config& config, const Cluster& cluster) {
  PlanRequest request;
  request.preset = config.model.preset;
  request.shape = shape_of(config.model, config.model.seq);
  request.hardware = cluster.hardware;
  request.gpus = cluster.gpus;
  request.batch = config.batch.global;
  request.numerics = numerics_of(config);
  request.practice = practice_of(config, layout_of(config), cluster.hardware.generation);
  return request;
}

Case case_of(const Config& config, const Cluster& cluster) {
  const Layout layout = layout_of(config);
  Case out = case_of(request_of(config, cluster), layout);
  out.split = split_of(config.model, layout, config.parallel.split);
  return out;
}

std::vector<std::string> not_priced(const Config& config) {
  std::vector<std::string> out;
  const ParallelConfig& p = config.parallel;
  if (p.ep_node > 1)
    out.push_back(concat("parallel.ep_node = ", p.ep_node,
                         ": a token is priced as sent once to each NVLink domain"));
  if (p.cp > 1 && p.cp_kind == ContextKind::RingUlysses)
    out.push_back("parallel.cp_kind = ring+ulysses: priced as allgather");
  if (config.precision.compute == ComputeType::Fp8) {
    if (config.precision.fp8_recipe == Fp8Recipe::Delayed)
      out.push_back("precision.fp8_recipe = delayed: priced as tensor");
    if (config.precision.fp8_recipe == Fp8Recipe::Block)
      out.push_back("precision.fp8_recipe = block: priced as one scale per row");
  }
  if (config.train.capacity_factor > 0)
    out.push_back(concat("train.capacity_factor = ", config.train.capacity_factor,
                         ": routing is priced as --imbalance says, nothing is dropped"));
  if (config.optim.post_validation)
    out.push_back("optim.post_validation = true: priced without discarded forwards and backups");
  return out;
}

}  // namespace sextant
