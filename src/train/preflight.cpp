#include "train/preflight.h"
#include "train/injection_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/parse.h"
#include "program/groups.h"
#include "program/pipeline.h"
#include "tensor/device.h"
#include "train/layout_text.h"
#include "train/mistaken_part.h"
#include "train/on_all_cores.h"
#include "train/phantom.h"
#include "train/preflight_pipeline.h"
#include "train/rehearsal.h"
#include "train/run_device.h"
#include "train/world.h"

namespace sextant {
namespace {

constexpr size_t kIndent = 11;  // of text after a section's name
// Rows that experts get memory for where the worst case does not fit, x balanced.
constexpr double kDefaultCapacity = 2;

std::string ffn_text(const ModelConfig& model) {
  if (model.experts == 0) return fmt::format("ffn {}", model.ffn);
  return fmt::format("{} of {} experts of ffn {}", model.experts_per_token, model.experts,
                     model.expert_ffn);
}

std::string model_lines(const Blueprint& blueprint, const Config& config) {
  const ModelConfig& model = blueprint.model;
  const double flops = blueprint.flops_per_token(model.seq);
  const auto tokens = static_cast<double>(config.batch.global * model.seq);
  return fmt::format(
      "model      {}{}: {} layer{}, hidden {}, {}/{} heads of {}, {}, vocab {} (stored {}), "
      "seq "
      "{}\n"
      "parameters {} ({}{})\n"
      "FLOPs      {} per token = {}; {} per step of {} tokens\n",
      name_of(model.family), model.preset.empty() ? "" : " " + model.preset, model.layers,
      model.layers == 1 ? "" : "s", model.hidden, model.heads, model.kv_heads, model.head_dim,
      ffn_text(model), model.vocab, blueprint.padded_vocab, model.seq, blueprint.parameters(),
      format_count(static_cast<double>(blueprint.parameters())),
      blueprint.features.experts
          ? concat(", ", format_count(static_cast<double>(blueprint.active_parameters())),
                   " active")
          : "",
      format_count(flops), flops_formula(model), format_count(flops * tokens),
      config.batch.global * model.seq);
}

// "0", "0-3", "0 2 4": consecutive ranks are joined.
std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += (text.empty() ? "" : " ") + std::to_string(ranks[i]);
    if (end - i > 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

// Such a list, or its first rank and the number of ranks where that is shorter.
std::string short_list(const std::vector<int>& ranks, size_t longest) {
  const std::string list = rank_list(ranks);
  return list.size() <= longest ? list : fmt::format("{} ({} ranks)", ranks.front(), ranks.size());
}

std::string sends_of(const TrafficTable& table) {
  std::string sends;
  for_each_sent(table, [&](const AxisTraffic& axis, Operation operation, const Traffic& sent) {
    sends += fmt::format("{}{} {} {} ({} call{})", sends.empty() ? "" : ", ", axis.axis(),
                         name_of(operation), format_bytes(sent.bytes), sent.calls,
                         sent.calls == 1 ? "" : "s");
  });
  return sends;
}

// Ranks whose kinds have the same value, in the order of their first ranks. `values`: by kind.
template <class T>
std::vector<std::pair<T, std::vector<int>>> ranks_by(const Preflight& preflight,
                                                     const std::vector<T>& values) {
  std::vector<std::pair<T, std::vector<int>>> out;
  std::vector<size_t> place;  // in `out`, by kind
  for (const T& value : values) {
    const auto found = std::ranges::find(out, value, &std::pair<T, std::vector<int>>::first);
    place.push_back(static_cast<size_t>(found - out.begin()));
    if (found == out.end()) out.emplace_back(value, std::vector<int>());
  }
  for (int rank = 0; rank < static_cast<int>(preflight.memory.size()); ++rank)
    out[place[static_cast<size_t>(preflight.kinds.kind_of(rank))]].second.push_back(rank);
  std::ranges::sort(out, {}, [](const auto& one) { return one.second.front(); });
  return out;
}

// Offloaded tensors: one line per set of ranks with equal needs; none without any.
std::string host_lines(const Preflight& preflight) {
  constexpr size_t kLongest = 18;
  std::vector<std::pair<std::string, std::vector<int>>> lines;
  for (size_t rank = 0; rank < preflight.memory.size(); ++rank) {
    const MemoryEstimate& memory = preflight.memory[rank];
    if (memory.host == 0) continue;
    const std::string needs =
        fmt::format("offloaded: optimizer {}, activations {}; reserved {} beside the above",
                    format_bytes(memory.host_optimizer), format_bytes(memory.host_activations),
                    format_bytes(memory.host));
    auto line = std::ranges::find(lines, needs, [](const auto& one) { return one.first; });
    if (line == lines.end()) line = lines.insert(lines.end(), {needs, {}});
    line->second.push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const auto& [needs, ranks] : lines)
    text += fmt::format("{:<11}{:<{}} {}\n", text.empty() ? "host" : "",
                        short_list(ranks, kLongest), kLongest, needs);
  return text;
}

// Bytes sent per step: one line per set of ranks that send the same; none if nothing is sent.
std::string traffic_lines(const Preflight& preflight) {
  constexpr size_t kLongest = 18;
  std::vector<std::string> sends_by_kind;
  for (const TrafficTable& table : preflight.traffic) sends_by_kind.push_back(sends_of(table));
  std::string text;
  for (const auto& [sends, ranks] : ranks_by(preflight, sends_by_kind))
    if (!sends.empty())
      text += fmt::format("{:<11}{:<{}} {}\n", text.empty() ? "sends" : "",
                          short_list(ranks, kLongest), kLongest, sends);
  return text;
}

std::string rank_lines(const Preflight& preflight, const Config& config) {
  const int ranks = world_size(config.parallel);
  std::string text =
      config.run.device == RunDevice::Cuda
          ? fmt::format("ranks      {} on {}", ranks,
                        config.run.transport == Transport::Nccl && ranks > 1 ? "NVIDIA GPUs"
                                                                             : "one NVIDIA GPU")
          : fmt::format("ranks      {} on the CPU, {} thread{} each", ranks, preflight.threads,
                        preflight.threads == 1 ? "" : "s");
  if (ranks > 1)
    text += fmt::format(": {} over {}", layout_text(config.parallel),
                        config.run.transport == Transport::Mpi    ? "MPI"
                        : config.run.transport == Transport::Nccl ? "NCCL"
                                                                  : "threads");
  if (preflight.peak_flops > 0)
    text += fmt::format("; MFU is model FLOPs / ({:.0f} GFLOP/s {} peak x seconds)",
                        preflight.peak_flops / 1e9,
                        config.run.device == RunDevice::Cuda ? "dense" : "measured");
  return text + "\n";
}

std::vector<PhantomRank> run_kinds(const Config& config, const Preflight& flight, Budget& budget) {
  std::vector<PhantomRank> kinds(static_cast<size_t>(flight.kinds.size()));
  PhantomOptions options;
  options.budget = &budget;
  on_all_cores(flight.kinds.size(), [&](int kind) {
    kinds[static_cast<size_t>(kind)] =
        run_phantom(config, flight, flight.kinds.representative(kind), options);
  });
  return kinds;
}

int64_t largest_need(const std::vector<PhantomRank>& kinds) {
  int64_t most = 0;
  for (const PhantomRank& kind : kinds) most = std::max(most, kind.memory.reserved);
  return most;
}

// With ep or etp the need depends on where the routers send tokens: found for balanced
// routing, for the worst case, and for what the run will reserve.
std::vector<PhantomRank> run_with_experts(const Config& config, Preflight& flight, Budget& budget) {
  if (mesh_shape(config.parallel).expert_size() == 1) return run_kinds(config, flight, budget);
  constexpr double kBalanced = 1;
  std::map<double, std::vector<PhantomRank>> by_capacity;
  const auto run = [&](double capacity) -> const std::vector<PhantomRank>& {
    if (by_capacity.contains(capacity)) return by_capacity.at(capacity);
    flight.expert_capacity = capacity;
    return by_capacity[capacity] = run_kinds(config, flight, budget);
  };
  ExpertMemory memory;
  memory.balanced = largest_need(run(kBalanced));
  memory.worst = largest_need(run(0));
  double capacity = config.memory.experts;
  if (capacity == 0 && flight.memory_limit > 0 && memory.worst > flight.memory_limit)
    capacity = kDefaultCapacity;
  std::vector<PhantomRank> kinds = run(capacity);
  flight.expert_capacity = capacity;
  flight.expert_memory = memory;
  return kinds;
}

std::string expert_lines(const Preflight& preflight, const Config& config) {
  if (!preflight.expert_memory) return "";
  const ParallelConfig& parallel = config.parallel;
  const std::string reserved =
      preflight.expert_capacity == 0
          ? std::string("for the worst case")
          : fmt::format("for {:g} x balanced routing", preflight.expert_capacity);
  return fmt::format(
      "experts    {} of {} on each of {} ranks of ep{}, {} replicas; reserved {}: balanced {}, "
      "worst case {}\n",
      config.model.experts / config.parallel.ep, config.model.experts, config.parallel.ep,
      parallel.etp > 1 ? fmt::format(", in parts on {} ranks of etp", parallel.etp) : "",
      mesh_shape(parallel).edp(), reserved, format_bytes(preflight.expert_memory->balanced),
      format_bytes(preflight.expert_memory->worst));
}

}  // namespace

TensorPart tensor_part(const ParallelConfig& parallel, int rank) {
  const bool is_shared = parallel.tp > 1;
  return {parallel.tp, rank, is_shared && parallel.sequence, is_shared && parallel.tp_overlap};
}

ExpertPart expert_part(const ParallelConfig& parallel, int rank) {
  return {parallel.ep, rank / parallel.etp % parallel.ep, parallel.etp, rank % parallel.etp};
}

MeshShape mesh_shape(const ParallelConfig& parallel) {
  return {{parallel.tp, parallel.cp, parallel.shard, parallel.dp, parallel.pp},
          parallel.ep,
          parallel.etp};
}

int thread_count(const Config& config) {
  if (config.run.device == RunDevice::Cuda) return 1;
  return config.run.threads > 0 ? config.run.threads
                                : std::max(1, available_cores() / local_ranks(config));
}

namespace {

// All that a phantom rank needs to know.
Preflight prepare(const Config& config, double peak_flops) {
  Preflight out;
  out.blueprint = make_blueprint(config.model, tensor_part(config.parallel, 0),
                                 expert_part(config.parallel, 0));
  check_injection(config, out.blueprint);
  out.threads = thread_count(config);
  out.pipeline =
      make_pipeline(out.blueprint, config.parallel, static_cast<int>(config.batch.accumulation));
  out.pipeline.keeps = keeps_of(out.blueprint, out.pipeline.stages, config.memory);
  out.peak_flops = peak_flops;
  out.memory_limit = memory_limit(config);
  out.kinds = RankKinds(config, out.blueprint, out.pipeline);
  return out;
}

// The kinds of the first rank of each pipeline rank.
std::vector<int> kinds_of_stages(const Config& config, const RankKinds& kinds) {
  std::vector<int> out;
  const int inner = world_size(config.parallel) / config.parallel.pp;
  for (int stage = 0; stage < config.parallel.pp; ++stage) {
    const int kind = kinds.kind_of(stage * inner);
    if (std::ranges::find(out, kind) == out.end()) out.push_back(kind);
  }
  return out;
}

}  // namespace

LargestNeed largest_need(const Config& config) {
  Preflight flight = prepare(config, 0);
  const std::vector<int> stages = kinds_of_stages(config, flight.kinds);
  const int count = static_cast<int>(stages.size());
  Budget usual = rehearsal_budget(config, flight.kinds.size());
  const int64_t before = usual.left() * count / flight.kinds.size();
  Budget budget(before, concat("its dry run takes more than ", usual.left(), " operations"));
  PhantomOptions options;
  options.budget = &budget;
  const auto run = [&](double capacity) {
    flight.expert_capacity = capacity;
    std::vector<int64_t> reserved(stages.size());
    on_all_cores(count, [&](int i) {
      const int rank = flight.kinds.representative(stages[static_cast<size_t>(i)]);
      reserved[static_cast<size_t>(i)] = run_phantom(config, flight, rank, options).memory.reserved;
    });
    return std::ranges::max(reserved);
  };
  LargestNeed out;
  out.reserved = run(config.memory.experts);
  const bool is_worst_case = mesh_shape(config.parallel).expert_size() > 1 &&
                             config.memory.experts == 0 && flight.memory_limit > 0;
  if (is_worst_case && out.reserved > flight.memory_limit) out.reserved = run(kDefaultCapacity);
  out.operations = before - budget.left();
  return out;
}

Preflight forecast(const Config& config, double peak_flops, Budget* budget) {
  Preflight out = prepare(config, peak_flops);
  Budget usual = rehearsal_budget(config, out.kinds.size());
  Budget& taken = budget != nullptr ? *budget : usual;
  const int64_t before = taken.left();
  const std::vector<PhantomRank> kinds = run_with_experts(config, out, taken);
  out.operations = before - taken.left();
  out.groups = kinds[static_cast<size_t>(out.kinds.kind_of(0))].groups;
  for (const PhantomRank& kind : kinds) out.traffic.push_back(kind.traffic);
  for (int rank = 0; rank < world_size(config.parallel); ++rank) {
    const PhantomRank& kind = kinds[static_cast<size_t>(out.kinds.kind_of(rank))];
    out.memory.push_back(kind.memory);
    out.resident.push_back(kind.resident);
    out.plans.push_back(kind.plan);
    out.host_plans.push_back(kind.host_plan);
  }
  return out;
}

std::string why_too_large(const Preflight& preflight, const Config& config) {
  if (preflight.memory_limit == 0) return "";
  const int ranks = local_ranks(config);
  for (size_t rank = 0; rank < preflight.memory.size(); ++rank)
    if (preflight.memory[rank].reserved > preflight.memory_limit)
      return concat(preflight.memory.size() == 1 ? "the run" : concat("rank ", rank), " needs ",
                    format_bytes(preflight.memory[rank].reserved), " and may use ",
                    format_bytes(preflight.memory_limit),
                    ranks > 1 && config.run.memory_limit == 0
                        ? concat(", its share of this ",
                                 config.run.device == RunDevice::Cuda ? "GPU" : "machine",
                                 " among ", ranks, " ranks")
                        : "",
                    "; a smaller batch.micro, model.seq or model, more parallel.shard, tp or ",
                    "cp, or memory.logits=chunked needs less");
  return "";
}

void check_fits(const Preflight& preflight, const Config& config) {
  const std::string problem = why_too_large(preflight, config);
  SXT_CHECK(problem.empty(), Memory, problem);
}

Preflight preflight(const Config& config, double peak_flops) {
  Preflight out = forecast(config, peak_flops);
  check_fits(out, config);
  return out;
}

std::string memory_text(const Preflight& preflight) {
  constexpr size_t kLongest = 18;
  std::vector<MemoryEstimate> by_kind;
  for (int kind = 0; kind < preflight.kinds.size(); ++kind)
    by_kind.push_back(preflight.memory[static_cast<size_t>(preflight.kinds.representative(kind))]);
  std::string text = fmt::format(
      "memory     {:<{}} {:>10} {:>10} {:>10} {:>11} {:>10} {:>13} {:>10} {:>10}   of {}\n", "rank",
      kLongest, "weights", "gradients", "optimizer", "activations", "workspace", "communication",
      "peak", "reserved",
      preflight.memory_limit > 0 ? format_bytes(preflight.memory_limit) : "a GPU elsewhere");
  for (const auto& [memory, ranks] : ranks_by(preflight, by_kind)) {
    text +=
        fmt::format("           {:<{}} {:>10} {:>10} {:>10} {:>11} {:>10} {:>13} {:>10} {:>10}\n",
                    short_list(ranks, kLongest), kLongest, format_bytes(memory.weights),
                    format_bytes(memory.gradients), format_bytes(memory.optimizer),
                    format_bytes(memory.activations), format_bytes(memory.workspace),
                    format_bytes(memory.communication), format_bytes(memory.peak),
                    format_bytes(memory.reserved));
  }
  return text + host_lines(preflight);
}

std::string preflight_text(const Preflight& preflight, const ResolvedConfig& resolved) {
  std::string text = model_lines(preflight.blueprint, resolved.config);
  if (resolved.config.parallel.pp > 1)
    text += pipeline_text(
        pipeline_outlook(preflight.blueprint, preflight.pipeline, resolved.config.parallel),
        "pipeline", kIndent);
  text += memory_text(preflight);
  text += expert_lines(preflight, resolved.config);
  text += traffic_lines(preflight);
  text += rank_lines(preflight, resolved.config);
  for (const std::string& note : resolved.notes) text += note + "\n";
  return text;
}

}  // namespace sextant
