#include "train/fit_moves.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "blueprint/blueprint.h"

namespace sextant {
namespace {

using Overrides = std::vector<std::string>;

int64_t divide_up(int64_t total, int64_t part) {
  return (total + part - 1) / part;
}

void add_micro(std::vector<FitMove>& moves, const Config& config) {
  double slowdown = 0;
  for (int64_t micro = config.batch.micro / 2; micro >= 1; micro /= 2)
    moves.push_back({FitPart::Micro, {}, slowdown += 0.01, micro});
}

// Full recomputation of a quarter, half or all of the layers of each stage.
void add_full(std::vector<FitMove>& moves, const Config& config) {
  constexpr double kForward = 1.0 / 3;  // of the FLOPs of forward and backward
  const bool is_full = config.memory.recompute == Recompute::Full;
  const bool has_limit = config.memory.recompute_layers > 0;
  if (is_full && !has_limit) return;
  const int64_t layers =
      config.model.layers / (int64_t{config.parallel.pp} * config.parallel.chunks);
  for (const int64_t parts : {4, 2, 1}) {
    const int64_t count = parts == 1 ? 0 : layers / parts;
    if (parts > 1 && (count == 0 || (is_full && count <= config.memory.recompute_layers))) continue;
    Overrides overrides;
    if (!is_full) overrides.emplace_back("memory.recompute=full");
    if (count > 0 || has_limit) overrides.push_back(concat("memory.recompute_layers=", count));
    moves.push_back({FitPart::Recompute, overrides, kForward / static_cast<double>(parts)});
  }
}

void add_memory(std::vector<FitMove>& moves, const Config& config) {
  const ModelConfig& model = config.model;
  const double flops = make_blueprint(model).flops_per_token(model.seq);
  const double head = 2 * static_cast<double>(model.hidden) * static_cast<double>(model.vocab);
  const double core = 2 * static_cast<double>(model.seq * model.layers) *
                      static_cast<double>(model.heads * model.head_dim);
  if (config.memory.logits == LogitsPolicy::Keep)
    moves.push_back({FitPart::Logits, {"memory.logits=chunked"}, head / flops});
  const Recompute now = config.memory.recompute;
  if (now == Recompute::None)
    moves.push_back({FitPart::Recompute, {"memory.recompute=cheap"}, 0.5 * core / flops});
  if (now == Recompute::None || now == Recompute::Cheap)
    moves.push_back({FitPart::Recompute, {"memory.recompute=selective"}, core / flops});
  add_full(moves, config);
}

// The degrees that differ, as overrides.
Overrides degrees(const ResolvedConfig& resolved, const ParallelConfig& to) {
  const ParallelConfig& from = resolved.config.parallel;
  Overrides out;
  const auto add = [&](const char* key, int before, int after) {
    if (before != after) out.push_back(concat("parallel.", key, "=", after));
  };
  add("dp", from.dp, to.dp);
  add("shard", from.shard, to.shard);
  if (to.shard > 1) add("zero", from.zero, to.zero);
  add("tp", from.tp, to.tp);
  add("cp", from.cp, to.cp);
  add("pp", from.pp, to.pp);
  add("ep", from.ep, to.ep);
  if (to.tp > 1 && !from.sequence && resolved.chosen.contains("parallel.sequence"))
    out.emplace_back("parallel.sequence=true");
  return out;
}

void add_layout(std::vector<FitMove>& moves, const ResolvedConfig& resolved,
                const ParallelConfig& to, double slowdown) {
  const Overrides overrides = degrees(resolved, to);
  if (overrides.empty()) return;
  const bool is_known = std::ranges::any_of(moves, [&](const FitMove& move) {
    return move.part == FitPart::Layout && move.overrides == overrides;
  });
  if (!is_known) moves.push_back({FitPart::Layout, overrides, slowdown, 0, data_ranks(to), to.pp});
}

// Divides state over the data ranks that replicate it now.
std::vector<std::pair<ParallelConfig, double>> sharded(const ParallelConfig& from) {
  constexpr double kSlowdown[] = {0, 0.01, 0.03, 0.06};  // by ZeRO stage
  std::vector<std::pair<ParallelConfig, double>> out = {{from, 0}};
  for (const bool whole : {false, true}) {
    ParallelConfig to = from;
    if (whole) {
      if (from.dp == 1) break;
      to.shard *= std::exchange(to.dp, 1);
    }
    if (to.shard == 1) continue;
    for (int zero = std::max(1, whole ? from.zero : from.zero + 1); zero <= 3; ++zero) {
      to.zero = zero;
      out.emplace_back(to, kSlowdown[zero]);
    }
  }
  return out;
}

// Takes `factor` ranks from dp, or from shard. Nothing if neither divides.
bool take_data_ranks(ParallelConfig& parallel, int factor) {
  for (int* degree : {&parallel.dp, &parallel.shard})
    if (*degree % factor == 0) {
      *degree /= factor;
      if (parallel.shard == 1) parallel.zero = 0;
      return true;
    }
  return false;
}

// Ranks of dp or shard become ranks of tp, cp or pp.
void add_model_parallel(std::vector<FitMove>& moves, const ResolvedConfig& resolved,
                        const ParallelConfig& from, double slowdown) {
  struct Axis {
    int ParallelConfig::*degree;
    double slowdown;  // of a doubling
    int most;
  };
  constexpr Axis kAxes[] = {{&ParallelConfig::tp, 0.08, 8},
                            {&ParallelConfig::cp, 0.06, 64},
                            {&ParallelConfig::pp, 0.05, 64}};
  for (const Axis& axis : kAxes)
    for (int factor = 2; from.*axis.degree * factor <= axis.most; factor *= 2) {
      ParallelConfig to = from;
      if (!take_data_ranks(to, factor)) break;
      to.*axis.degree *= factor;
      add_layout(moves, resolved, to, slowdown + axis.slowdown * std::log2(factor));
    }
}

void add_layouts(std::vector<FitMove>& moves, const ResolvedConfig& resolved) {
  const Config& config = resolved.config;
  const ParallelConfig& from = config.parallel;
  if (from.tp > 1 && !from.sequence) add_layout(moves, resolved, from, 0.005);
  for (const auto& [layout, slowdown] : sharded(from)) {
    add_layout(moves, resolved, layout, slowdown);
    add_model_parallel(moves, resolved, layout, slowdown);
  }
  if (config.model.experts == 0) return;
  const int stage = world_size(from) / from.pp;
  for (ParallelConfig to = from;
       stage % (2 * to.ep * to.etp) == 0 && to.ep < config.model.experts;) {
    to.ep *= 2;
    add_layout(moves, resolved, to, 0.05);
  }
}

// Schedules with fewer micro-batches in flight.
void add_schedules(std::vector<FitMove>& moves, const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.pp == 1) return;
  double slowdown = 0.02;
  for (const char* schedule : {"1f1b", "v-half", "v-min"}) {
    Overrides overrides = {concat("parallel.schedule=", schedule)};
    if (parallel.chunks > 1) overrides.emplace_back("parallel.chunks=1");
    if (parallel.schedule != schedule)
      moves.push_back({FitPart::Schedule, overrides, slowdown += 0.02});
  }
}

// Each recipe of docs/precision.md needs fewer bytes than the one before it.
void add_precision(std::vector<FitMove>& moves, const Config& config) {
  const PrecisionConfig& now = config.precision;
  const bool is_adamw = config.optim.name == OptimizerKind::AdamW;
  const std::string narrow = now.compute == ComputeType::Fp16 ? "fp16" : "bf16";
  Overrides overrides;
  double slowdown = 0.5;
  const auto add = [&](bool applies, const std::string& text) {
    if (!applies) return;
    overrides.push_back(text);
    moves.push_back({FitPart::Precision, overrides, slowdown += 0.05});
  };
  add(now.compute == ComputeType::Fp32, "precision.compute=bf16");
  add(now.grads == ComputeType::Fp32, "precision.grads=" + narrow);
  add(is_adamw && now.moments == ComputeType::Fp32, "precision.moments=bf16");
  const bool takes_no_master = narrow == "bf16" && now.compute != ComputeType::Fp8;
  add(is_adamw && now.master == MasterWeights::Fp32 && takes_no_master, "precision.master=none");
}

}  // namespace

std::vector<FitMove> fit_moves(const ResolvedConfig& resolved) {
  const Config& config = resolved.config;
  std::vector<FitMove> moves;
  add_micro(moves, config);
  add_memory(moves, config);
  add_layouts(moves, resolved);
  add_schedules(moves, config);
  if (config.optim.post_validation)
    moves.push_back({FitPart::Validation, {"optim.post_validation=false"}, 0.02});
  if (config.memory.offload == Offload::None)
    moves.push_back({FitPart::Offload, {"memory.offload=optimizer"}, 0.1});
  // With offloaded activations the dry run shortens no step.
  if (config.memory.offload != Offload::Both && is_short_step(config))
    moves.push_back({FitPart::Offload, {"memory.offload=both"}, 0.4});
  add_precision(moves, config);
  std::ranges::stable_sort(moves, {}, &FitMove::slowdown);
  return moves;
}

bool is_short_step(const Config& config) {
  constexpr int64_t kMostPasses = 65536;  // of layers, over the micro-batches of a step
  return config.batch.accumulation * config.model.layers <= kMostPasses;
}

bool is_at_least(const FitMove& move, const FitMove& other) {
  if (move.part != other.part) return false;
  if (move.part == FitPart::Layout) return move.overrides == other.overrides;
  return move.slowdown >= other.slowdown;
}

std::vector<std::string> overrides_of(const std::vector<const FitMove*>& moves,
                                      const ResolvedConfig& resolved) {
  const Config& config = resolved.config;
  const BatchConfig& batch = config.batch;
  std::vector<std::string> out;
  int ranks = data_ranks(config.parallel), pp = config.parallel.pp;
  int64_t micro = batch.micro;
  for (const FitMove* move : moves) {
    out.insert(out.end(), move->overrides.begin(), move->overrides.end());
    if (move->part == FitPart::Micro) micro = move->micro;
    if (move->part != FitPart::Layout) continue;
    ranks = move->data_ranks;
    pp = move->pp;
  }
  const int64_t share = divide_up(batch.global, ranks);
  // A longer pipeline needs more micro-batches to fill it.
  if (pp > config.parallel.pp) micro = std::min(micro, std::max<int64_t>(share / (2 * pp), 1));
  const int64_t accumulation = divide_up(share, std::min(micro, share));
  micro = divide_up(share, accumulation);
  if (micro == batch.micro && accumulation == batch.accumulation) return out;
  out.push_back(concat("batch.micro=", micro));
  out.push_back(concat("batch.accumulation=", accumulation));
  if (!resolved.chosen.contains("batch.global") && micro * accumulation * ranks != batch.global)
    out.push_back(concat("batch.global=", batch.global));
  return out;
}

}  // namespace sextant
