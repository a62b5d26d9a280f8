#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/plan_commands.h"
#include "cli/print.h"
#include "cli/values.h"
#include "config/load.h"
#include "plan/config_case.h"
#include "plan/explain.h"
#include "plan/intensity.h"
#include "plan/layout_terms.h"
#include "train/plan_dry_run.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kBetter = 3;

struct ExplainArguments {
  std::string config, cluster;
  double imbalance = 1;
};

// One line for each degree above 1: what it divides.
std::vector<std::string> meanings(const Case& asked) {
  const ModelShape& s = asked.shape;
  const Layout& l = asked.layout;
  std::vector<std::string> out;
  if (l.dp > 1)
    out.push_back(fmt::format("dp {}: as many copies of the state, different samples", l.dp));
  if (l.shard > 1)
    out.push_back(fmt::format("shard {}, zero {}: one copy of {} over {} ranks", l.shard, l.zero,
                              l.zero == 1   ? "the optimizer state"
                              : l.zero == 2 ? "optimizer state and gradients"
                                            : "the whole state",
                              l.shard));
  if (l.tp > 1)
    out.push_back(fmt::format("tp {}: {} of {} heads and {} of {} ffn columns on a rank", l.tp,
                              s.heads / l.tp, s.heads, s.ffn / l.tp, s.ffn));
  if (l.cp > 1)
    out.push_back(
        fmt::format("cp {}: {} of {} tokens of a sequence on a rank", l.cp, s.seq / l.cp, s.seq));
  if (l.ep > 1)
    out.push_back(
        fmt::format("ep {}: {} of {} experts of a layer on a rank, {} ranks have the same", l.ep,
                    s.experts / l.ep, s.experts, l.expert_copies()));
  if (l.pp > 1)
    out.push_back(fmt::format("pp {}: {:g} of {} layers on a middle stage, {}", l.pp,
                              stage_layers(asked).middle, s.layers, name_of(l.schedule)));
  out.push_back(fmt::format(
      "batch {} = {} micro-batches × {} sequences × {} data ranks{}", asked.global_batch,
      asked.micros(), l.micro, l.data_ranks(),
      l.pp > 1 ? fmt::format("; the pipeline is full from {} on", l.pp * l.micro * l.data_ranks())
               : std::string()));
  return out;
}

Json wires_json(const Case& asked, const Constants& constants) {
  Json levels = Json::array(), axes = Json::array();
  for (const NetworkLevel& level : network_levels(asked, constants))
    levels.push_back({{"name", level.name},
                      {"latency_s", level.latency},
                      {"bytes_per_s", level.rate},
                      {"equal_bytes", level.equal_bytes()}});
  for (const AxisLatency& axis : axis_latencies(asked, constants))
    axes.push_back({{"axis", axis.axis},
                    {"ranks", axis.ranks},
                    {"latency_s", axis.latency},
                    {"equal_bytes", axis.equal_bytes}});
  const StatesOrActivations sent = states_or_activations(asked);
  return {{"levels", levels},
          {"axes", axes},
          {"zero3",
           {{"parameter_bytes", sent.parameter_bytes},
            {"activation_bytes", sent.activation_bytes},
            {"tokens", sent.tokens},
            {"equal_tokens", sent.equal_tokens}}}};
}

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<int64_t>(bytes));
}

void print_wires(const Case& asked, const Constants& constants) {
  print("messages, latency α and rate 1/β:\n");
  for (const NetworkLevel& level : network_levels(asked, constants))
    print(fmt::format("  {:<14} α {:.1f} µs, 1/β {:.0f} GB/s, equal at {}\n", level.name,
                      level.latency * 1e6, level.rate / 1e9, bytes_text(level.equal_bytes())));
  for (const AxisLatency& axis : axis_latencies(asked, constants))
    print(fmt::format("  {} {}: {} below {} is latency ({:.1f} µs), above it bandwidth\n",
                      axis.axis, axis.ranks, axis.axis == "pp" ? "a message" : "an all-gather",
                      bytes_text(axis.equal_bytes), axis.latency * 1e6));
  const StatesOrActivations sent = states_or_activations(asked);
  print(fmt::format(
      "a layer and micro-batch: ZeRO-3 sends its parameters, {}, tensor parallel its activations, "
      "{}; ZeRO-3 loses below {:.0f} tokens, here are {:.0f}\n",
      bytes_text(sent.parameter_bytes), bytes_text(sent.activation_bytes), sent.equal_tokens,
      sent.tokens));
}

Json operations_json(const Case& asked) {
  Json rows = Json::array();
  for (const OpIntensity& op : op_intensities(asked))
    rows.push_back({{"name", op.name},
                    {"flops", op.flops},
                    {"bytes", op.bytes},
                    {"intensity", op.intensity()},
                    {"bound", bound_of(op, asked.hardware)}});
  return rows;
}

void print_operations(const Case& asked) {
  print(fmt::format("FLOPs per byte of a forward (ridge point {:.0f}):\n",
                    ridge_point(asked.hardware)));
  for (const OpIntensity& op : op_intensities(asked))
    print(fmt::format("  {:<24} {:>7.0f}  {}\n", op.name, op.intensity(),
                      bound_of(op, asked.hardware)));
}

// Layouts that fit, and that take less time than `own` where it fits too.
std::vector<const Plan*> better_than(const Plan& own, const PlanResult& found) {
  std::vector<const Plan*> out;
  for (const Plan& plan : found.plans)
    if (out.size() < kBetter && plan.fits && plan.layout != own.layout &&
        (!own.fits || plan.time.total() < own.time.total()))
      out.push_back(&plan);
  return out;
}

std::string why_better(const Plan& plan, const Plan& own) {
  return own.fits ? "against it " + why_slower(plan, own) : why_fits(plan.memory, own.memory);
}

int run_explain(const ExplainArguments& arguments, Context& context) {
  const Config config =
      load_config(context.storage, arguments.config, context.overrides, {}).config;
  const Cluster cluster = parse_cluster(context.storage, arguments.cluster);
  const Layout layout = layout_of(config);
  SXT_CHECK(layout.world() == cluster.gpus, Config, arguments.config, " has ",
            counted(layout.world(), "rank", "ranks"), " and ", arguments.cluster, " has ",
            counted(cluster.gpus, "GPU", "GPUs"), "; they must be equal");
  SXT_CHECK(arguments.imbalance >= 1, Usage, "--imbalance ", arguments.imbalance,
            ": takes rows of the fullest rank against the mean, at least 1");
  PlanRequest request = request_of(config, cluster);
  request.practice.imbalance = arguments.imbalance;
  request.plans = static_cast<int>(kBetter) + 1;
  if (!request.preset.empty()) request.dry_run = dry_runner();
  const Constants constants;
  Case asked = case_of(config, cluster);
  asked.practice.imbalance = arguments.imbalance;
  Plan own;
  own.layout = layout;
  own.time = simulated_step_time(asked, constants, 200'000);
  own.memory = memory_use(asked, constants);
  own.fits = fits(asked, own.memory);
  const std::vector<LayoutTerm> terms = layout_terms(asked, constants);
  const PlanResult found = search_plans(request, constants);
  const std::vector<const Plan*> better = better_than(own, found);
  const double seconds = own.time.total();
  const std::vector<std::string> words = meanings(asked), left_out = not_priced(config),
                                 warnings = table_warnings(asked);
  if (context.json) {
    Json all = Json::array(), faster = Json::array();
    for (const LayoutTerm& term : terms)
      all.push_back({{"name", term.name},
                     {"seconds", term.seconds},
                     {"bytes", term.bytes},
                     {"bound", term.bound}});
    for (const Plan* plan : better)
      faster.push_back(
          {{"layout", to_text(plan->layout)},
           {"step_s", plan->time.total()},
           {"why", own.fits ? why_slower(*plan, own) : why_fits(plan->memory, own.memory)}});
    print_json({{"layout", to_text(layout)},
                {"meaning", words},
                {"step_s", seconds},
                {"fits", own.fits},
                {"memory_gib", own.memory.total() / kGiB},
                {"terms", all},
                {"ridge", ridge_point(request.hardware)},
                {"operations", operations_json(asked)},
                {"wires", wires_json(asked, constants)},
                {"not_priced", left_out},
                {"warnings", warnings},
                {"better", faster}});
    return 0;
  }
  print(to_text(layout) + "\n");
  for (const std::string& text : words) print("  " + text + "\n");
  for (const std::string& text : left_out) print("  not priced: " + text + "\n");
  for (const std::string& text : warnings) print("  warning: " + text + "\n");
  print(fmt::format("step {:.4g} s; memory {:.1f} of {:.1f} GiB{}\n", seconds,
                    own.memory.total() / kGiB, usable_memory(request.hardware) / kGiB,
                    own.fits ? "" : ": does not fit"));
  for (const LayoutTerm& term : terms)
    print(fmt::format(
        "  {:<44} {:>9.4g} s {:>5.1f} %  {:<8} {}\n", term.name, term.seconds,
        100 * term.seconds / seconds, term.bound,
        term.bytes > 0 ? format_bytes(static_cast<int64_t>(term.bytes)) + " sent by a rank" : ""));
  print_operations(asked);
  print_wires(asked, constants);
  print(better.empty() ? own.fits ? "nothing better was found\n" : "nothing that fits was found\n"
                       : "better:\n");
  for (const Plan* plan : better)
    print(fmt::format("  {:.4g} s  {}: {}\n", plan->time.total(), to_text(plan->layout),
                      why_better(*plan, own)));
  return 0;
}

}  // namespace

Command plan_explain_command() {
  auto a = std::make_shared<ExplainArguments>();
  return {.name = "explain",
          .help = "Say what a layout that somebody chose means and costs, and what would be better",
          .options = {{.names = "run.toml",
                       .help = "A configuration",
                       .target = &a->config,
                       .need = Option::Need::Required},
                      {.names = "--cluster",
                       .help = "COUNTxGPU, such as 64xH100",
                       .target = &a->cluster,
                       .need = Option::Need::Required,
                       .values = cluster_values()},
                      {.names = "--imbalance",
                       .help = "Rows of the fullest rank of experts against the mean (1)",
                       .target = &a->imbalance}},
          .run = [a](Context& context) { return run_explain(*a, context); },
          .accepts = Accepts::Overrides};
}

}  // namespace sextant::cli
