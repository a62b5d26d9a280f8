#include "cli/simulate_cluster.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "cli/simulate_flow.h"
#include "plan/config_case.h"
#include "sim/interruptions.h"
#include "sim/whole_run.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSeeds = 50;
constexpr int64_t kMostActions = 400'000;
constexpr double kStorageRate = 1e9;  // bytes per second and node
constexpr double kStateBytes = 14;    // of a parameter in a checkpoint: weights, master, moments
constexpr double kRestart = 600;
constexpr double kDay = 24 * 3600, kHour = 3600;

struct ClusterRun {
  Cluster cluster;
  Case asked;
  Layout layout;
  double step = 0, mfu = 0, tokens = 0, steps = 0;
  ErrorInterval interval;
  MemoryUse memory;
  bool fits = false;
  WholeRun run;
  RunOutlook outlook;
  double best = 0, young = 0, daly = 0;
  std::optional<double> price;
  std::optional<FlowReport> flow;
  std::vector<std::string> not_priced;
};

// "15.6T": a count with K, M, B or T.
double parse_tokens(const std::string& text) {
  constexpr std::string_view kUnits = "KMBT";
  const size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  const bool has_unit = unit != std::string_view::npos;
  const std::optional<double> value =
      parse_double(has_unit ? text.substr(0, text.size() - 1) : text);
  const double tokens = value.value_or(0) * (has_unit ? std::pow(1000.0, unit + 1.0) : 1);
  SXT_CHECK(tokens >= 1 && tokens <= 1e18, Usage, "--tokens ", text,
            ": takes a number of tokens from 1 to 1e18, such as 300B or 15.6T");
  return tokens;
}

double time_or(const char* option, const std::string& text, double otherwise) {
  return text.empty() ? otherwise : parse_time(option, text);
}

// "0.1%x1.2"
void set_stragglers(WholeRun& run, const std::string& text) {
  if (text.empty()) return;
  const std::vector<std::string> parts = split(text, 'x');
  const std::optional<double> factor = parts.size() == 2 ? parse_double(parts[1]) : std::nullopt;
  SXT_CHECK(factor && *factor >= 1 && *factor <= 1000, Usage, "--stragglers ", text,
            ": takes the share of slow nodes and the factor by which they are slower, from 1 to "
            "1000, such as 0.1%x1.2");
  run.slow_share = parse_share("--stragglers", parts[0]);
  run.slow_factor = *factor;
}

void set_checkpoints(ClusterRun& made, const SimulateArguments& arguments, const Config& config) {
  WholeRun& run = made.run;
  const double bytes = count_parameters(made.asked.shape).total * kStateBytes;
  run.checkpoint =
      time_or("--checkpoint-cost", arguments.checkpoint_cost, bytes / (kStorageRate * run.nodes));
  made.young = young_interval(run.checkpoint, run.between);
  made.daly = daly_interval(run.checkpoint, run.between);
  run.interval = made.step;
  made.best = std::max(made.step, best_interval(run, config.train.seed, kSeeds));
  run.interval = made.best;
  if (config.checkpoint.every > 0)
    run.interval = static_cast<double>(config.checkpoint.every) * made.step;
  if (!arguments.checkpoint_interval.empty()) {
    run.interval = parse_time("--checkpoint-interval", arguments.checkpoint_interval);
    SXT_CHECK(run.interval > 0, Usage, "--checkpoint-interval ", arguments.checkpoint_interval,
              ": takes seconds above 0");
  }
}

ClusterRun make_run(const SimulateArguments& arguments, Context& context) {
  ClusterRun made;
  const Config config = load_settings(context, arguments.config).config;
  made.cluster = parse_cluster(context.storage, arguments.cluster);
  made.layout = layout_of(config);
  SXT_CHECK(made.layout.world() == made.cluster.gpus, Config, "the run has ",
            counted(made.layout.world(), "rank", "ranks"), " and ", arguments.cluster, " has ",
            counted(made.cluster.gpus, "GPU", "GPUs"), "; they must be equal");
  const Constants constants;
  made.not_priced = not_priced(config);
  made.asked = case_of(config, made.cluster);
  const double gpus = static_cast<double>(made.cluster.gpus);
  const Hardware& hardware = made.cluster.hardware;
  made.step = simulated_step_time(made.asked, constants, kMostActions).total();
  if (!arguments.flow) refuse_flow_options(arguments);
  if (arguments.flow) {
    made.flow = simulate_flow_step(made.asked, made.step, arguments, context.clock);
    made.step = made.flow->step.flow.seconds;
  }
  made.interval = error_interval(made.asked, !hardware.validated || !hardware.assumed.empty());
  made.memory = memory_use(made.asked, constants);
  made.fits = fits(made.asked, made.memory);
  const double per_step = static_cast<double>(made.asked.global_batch * made.asked.shape.seq);
  made.mfu = model_flops(made.asked.shape, per_step) / (made.step * gpus * half_peak(hardware));
  made.tokens = arguments.tokens.empty() ? static_cast<double>(config.train.steps) * per_step
                                         : parse_tokens(arguments.tokens);
  made.steps = std::ceil(made.tokens / per_step);
  WholeRun& run = made.run;
  run.work = made.steps * made.step;
  run.nodes = std::ceil(gpus / static_cast<double>(hardware.node_gpus));
  const double factor = time_or("--interruptions", arguments.interruptions, 1);
  run.between = mean_time_between(gpus, factor);
  run.restart = time_or("--restart", arguments.restart, kRestart);
  set_stragglers(run, arguments.stragglers);
  set_checkpoints(made, arguments, config);
  made.outlook = simulate_whole_run(run, config.train.seed, kSeeds);
  if (!arguments.price.empty()) made.price = parse_time("--price", arguments.price);
  return made;
}

double gpu_hours(const ClusterRun& made) {
  return made.outlook.seconds / kHour * static_cast<double>(made.cluster.gpus);
}

Json to_json(const ClusterRun& made) {
  const RunOutlook& o = made.outlook;
  const auto finite = [](double value) { return std::isinf(value) ? Json() : Json(value); };
  Json components = Json::array();
  for (const Interruption& one : interruption_table())
    components.push_back({{"component", one.component},
                          {"category", one.category},
                          {"expected", o.interruptions * one.count / table_interruptions()}});
  Json out = {
      {"layout", to_text(made.layout)},
      {"gpus", made.cluster.gpus},
      {"gpu", made.cluster.hardware.name},
      {"step_s", made.step},
      {"interval", {made.interval.low * made.step, made.interval.high * made.step}},
      {"mfu", made.mfu},
      {"goodput", o.goodput},
      {"goodput_range", {o.goodput_low, o.goodput_high}},
      {"tokens", made.tokens},
      {"steps", made.steps},
      {"seconds", o.seconds},
      {"terms",
       {{"work", o.work},
        {"slow_nodes", o.slow},
        {"checkpoints", o.checkpoints},
        {"lost", o.lost},
        {"restarts", o.restarts}}},
      {"interruptions", o.interruptions},
      {"between_s", finite(made.run.between)},
      {"components", components},
      {"checkpoint",
       {{"cost_s", made.run.checkpoint},
        {"interval_s", made.run.interval},
        {"best_s", made.best},
        {"young_s", finite(made.young)},
        {"daly_s", finite(made.daly)}}},
      {"restart_s", made.run.restart},
      {"gpu_hours", gpu_hours(made)},
      {"fits", made.fits},
      {"memory", Json::array({{{"stage", made.memory.rank}, {"total", made.memory.total()}}})},
      {"assumed", made.cluster.hardware.assumed},
      {"not_priced", made.not_priced},
      {"warnings", table_warnings(made.asked)}};
  if (made.price) out["cost"] = *made.price * gpu_hours(made);
  if (made.flow) out["flow"] = to_json(*made.flow);
  return out;
}

std::string to_text(const ClusterRun& made) {
  const RunOutlook& o = made.outlook;
  std::string out = fmt::format("{} on {} × {}\n", to_text(made.layout), made.cluster.gpus,
                                made.cluster.hardware.name);
  for (const std::string& text : made.cluster.hardware.assumed) out += "assumed: " + text + "\n";
  for (const std::string& text : made.not_priced) out += "not priced: " + text + "\n";
  for (const std::string& text : table_warnings(made.asked)) out += "warning: " + text + "\n";
  out += fmt::format("step         {:.4g} s (90 %: {:.4g} to {:.4g}), MFU {:.1f} %, {:.1f} GiB{}\n",
                     made.step, made.interval.low * made.step, made.interval.high * made.step,
                     100 * made.mfu, made.memory.total() / kGiB, made.fits ? "" : ": does not fit");
  if (made.flow) out += to_text(*made.flow);
  out += fmt::format("run          {} tokens, {:.0f} steps, {:.2f} days, {} GPU-hours{}\n",
                     format_count(made.tokens), made.steps, o.seconds / kDay,
                     format_count(gpu_hours(made)),
                     made.price ? ", cost " + format_count(*made.price * gpu_hours(made)) : "");
  out += fmt::format("goodput      {:.1f} % ({:.1f} to {:.1f} over {} seeds)\n", 100 * o.goodput,
                     100 * o.goodput_low, 100 * o.goodput_high, kSeeds);
  const std::pair<const char*, double> terms[] = {{"slow nodes", o.slow},
                                                  {"checkpoints", o.checkpoints},
                                                  {"lost since a checkpoint", o.lost},
                                                  {"restarts", o.restarts}};
  for (const auto& [name, seconds] : terms)
    out += fmt::format("  {:<24} {:>6.2f} %\n", name, 100 * seconds / o.seconds);
  if (std::isinf(made.run.between)) return out + "no interruptions\n";
  out += fmt::format("interrupted  {:.1f} times, every {:.2f} h:\n", o.interruptions,
                     made.run.between / kHour);
  for (const Interruption& one : interruption_table())
    out += fmt::format("  {:<34} {:<22} {:>8.1f}\n", one.component, one.category,
                       o.interruptions * one.count / table_interruptions());
  out += fmt::format(
      "checkpoint   every {:.0f} s for {:.3g} s; best simulated {:.0f} s, Young "
      "{:.0f} s, Daly {:.0f} s\n",
      made.run.interval, made.run.checkpoint, made.best, made.young, made.daly);
  return out;
}

}  // namespace

int simulate_on_cluster(const SimulateArguments& arguments, Context& context) {
  SXT_CHECK(!arguments.config.empty() || !context.overrides.empty(), Usage, "--cluster ",
            arguments.cluster,
            " needs the configuration of a run: sextant simulate run.toml "
            "--cluster ...");
  refuse_options({{"--compare", arguments.compare},
                  {"--schedule", arguments.schedule},
                  {"--stages", arguments.stages},
                  {"--micros", arguments.micros},
                  {"--chunks", arguments.chunks},
                  {"--times", arguments.times},
                  {"--comm", arguments.comm},
                  {"--wire", arguments.wire},
                  {"--overlap", arguments.overlap},
                  {"--memory", arguments.memory},
                  {"--memory-limit", arguments.memory_limit},
                  {"--target-bubble", arguments.target},
                  {"--from", arguments.from},
                  {"--flops", arguments.flops},
                  {"--bandwidth", arguments.bandwidth},
                  {"--link", arguments.link},
                  {"--host", arguments.host},
                  {"--latency", arguments.latency},
                  {"--launch", arguments.launch},
                  {"--hardware", arguments.hardware},
                  {"--svg", arguments.svg},
                  {"--trace", arguments.trace},
                  {"--csv", arguments.csv}},
                 concat("--cluster ", arguments.cluster, " takes times from the planner"));
  const ClusterRun made = make_run(arguments, context);
  if (context.json)
    print_json(to_json(made));
  else
    print(to_text(made));
  return 0;
}

void refuse_cluster_options(const SimulateArguments& arguments) {
  refuse_options({{"--tokens", arguments.tokens},
                  {"--interruptions", arguments.interruptions},
                  {"--checkpoint-cost", arguments.checkpoint_cost},
                  {"--checkpoint-interval", arguments.checkpoint_interval},
                  {"--restart", arguments.restart},
                  {"--stragglers", arguments.stragglers},
                  {"--price", arguments.price}},
                 "without --cluster there is no whole run");
  SXT_CHECK(!arguments.flow, Usage, "--flow needs a cluster, such as --cluster 1024xH100");
  refuse_flow_options(arguments);
}

}  // namespace sextant::cli
