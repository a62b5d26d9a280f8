#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/step.h"
#include "cli/bench_rows.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "cli/values.h"
#include "config/keys.h"
#include "train/preflight.h"

namespace sextant::cli {
namespace {

struct StepArguments {
  std::string preset = "gpt2-s", peer, precision = "fp32", device = "cpu", hardware;
  int64_t batch = 8, seq = 0, steps = 10, rounds = 1;
  bool kernels = false;
};

Config step_config(const StepArguments& arguments, Context& context) {
  std::vector<std::string> overrides;
  overrides.push_back("model.preset=" + arguments.preset);
  if (arguments.seq > 0) overrides.push_back("model.seq=" + std::to_string(arguments.seq));
  overrides.push_back("batch.global=" + std::to_string(arguments.batch));
  overrides.push_back("batch.micro=" + std::to_string(arguments.batch));
  overrides.push_back("data.kind=synthetic");
  overrides.push_back("precision.compute=" + arguments.precision);
  overrides.push_back("run.device=" + arguments.device);
  // Settings of the command line have the last word.
  overrides.insert(overrides.end(), context.overrides.begin(), context.overrides.end());
  context.overrides = std::move(overrides);
  return load_settings(context, "").config;
}

Json step_operations_json(const OpTable& table) {
  Json operations = Json::array();
  for (const OpClass& c : table.classes)
    operations.push_back({{"name", c.name},
                          {"count", c.count},
                          {"seconds", c.seconds},
                          {"flops", c.flops},
                          {"bytes", c.bytes},
                          {"floor_s", c.floor_s},
                          {"predicted_s", c.predicted_s}});
  return {{"step_s", table.step_s},
          {"idle_s", table.idle_s},
          {"floor_s", table.floor_s()},
          {"classes", operations}};
}

Json rate_json(const SustainedRate& rate) {
  return {{"per_s", rate.per_s}, {"watts", rate.use.watts}, {"megahertz", rate.use.megahertz}};
}

std::string use_text(const GpuUse& use) {
  if (use.watts == 0 || use.megahertz == 0) return "clock and power not known";
  return fmt::format("{:.0f} MHz, {:.0f} W", use.megahertz, use.watts);
}

std::string ceilings_line(const StepBench& result) {
  return fmt::format("step {}; ceilings: products {:.1f} TFLOP/s ({}), copies {:.2f} TB/s ({})\n",
                     use_text(result.use), result.ceilings->product.per_s / 1e12,
                     use_text(result.ceilings->product.use), result.ceilings->copy.per_s / 1e12,
                     use_text(result.ceilings->copy.use));
}

Json step_row(const std::string& name, const StepBench& result, const PeerStep& peer) {
  Json more = {{"tokens_per_s", result.tokens_per_s},
               {"tflops", result.tflops},
               {"mfu", result.mfu},
               {"step_s", result.step_s},
               {"mem_peak", result.mem_peak},
               {"page_faults", result.page_faults}};
  if (result.heap_allocations) more["allocations"] = *result.heap_allocations;
  if (result.predicted_s > 0)
    more.update({{"predicted_s", result.predicted_s}, {"assumed", result.assumed}});
  if (result.use.watts > 0) more["watts"] = result.use.watts;
  if (result.use.megahertz > 0) more["megahertz"] = result.use.megahertz;
  if (result.operations) more["operations"] = step_operations_json(*result.operations);
  if (result.ceilings)
    more["ceilings"] = {{"product", rate_json(result.ceilings->product)},
                        {"copy", rate_json(result.ceilings->copy)}};
  if (peer.tokens_per_s > 0)
    more.update({{"peer", peer.name},
                 {"peer_tokens_per_s", peer.tokens_per_s},
                 {"peer_ratio", result.tokens_per_s / peer.tokens_per_s}});
  return bench_row(name, result.tflops * 1e3, "GFLOP/s", result.peak_flops / 1e9, more);
}

std::string step_line(const std::string& name, const StepBench& result, const PeerStep& peer) {
  const std::string beside =
      peer.tokens_per_s > 0
          ? fmt::format("; {} {:.0f} tok/s, ratio {:.2f}", peer.name, peer.tokens_per_s,
                        result.tokens_per_s / peer.tokens_per_s)
          : "";
  const std::string allocated =
      result.heap_allocations ? fmt::format(", {} allocations", *result.heap_allocations) : "";
  return fmt::format(
      "{}: {:.0f} tok/s, {:.1f} ms a step, {:.1f} of {:.1f} GFLOP/s (mfu {:.1f}%), memory {}, {} "
      "page faults{} in {} steps{}",
      name, result.tokens_per_s, 1e3 * result.step_s, 1e3 * result.tflops, result.peak_flops / 1e9,
      100 * result.mfu, format_bytes(result.mem_peak), result.page_faults, allocated, result.steps,
      beside);
}

std::string predicted_line(const StepBench& result, const std::string& file) {
  std::string out =
      fmt::format("{:.1f} ms a step predicted from {} ({:+.1f} %)", 1e3 * result.predicted_s, file,
                  100 * (result.predicted_s / result.step_s - 1));
  for (const std::string& one : result.assumed) out += "\nassumed: " + one;
  return out;
}

// Ours and the peer in turn. After several rounds a last row holds the best of each: on a shared
// machine that is what a round would have given undisturbed.
int run_step(const StepArguments& arguments, Context& context) {
  SXT_CHECK(arguments.steps > 0 && arguments.rounds > 0, Usage, "--steps ", arguments.steps,
            " --rounds ", arguments.rounds, ", both must be at least 1");
  const Config config = step_config(arguments, context);
  const int steps = static_cast<int>(arguments.steps);
  std::optional<Machine> machine;
  if (!arguments.hardware.empty())
    machine = parse_machine(read_text(context.storage, arguments.hardware), arguments.hardware);
  Json rows = Json::array();
  const auto report = [&](const std::string& name, const StepBench& result, const PeerStep& peer) {
    rows.push_back(step_row(name, result, peer));
    if (!context.json)
      print_line(step_line(fmt::format("{} {}x{}", name, config.batch.global, config.model.seq),
                           result, peer));
    if (!context.json && result.operations)
      print_line(to_text(*result.operations) + ceilings_line(result));
    if (!context.json && result.predicted_s > 0)
      print_line(predicted_line(result, arguments.hardware));
  };
  StepBench best;
  PeerStep best_peer;
  for (int64_t round = 0; round < arguments.rounds; ++round) {
    const StepBench result = bench_step(
        config, steps, context.storage, context.clock, context.log, context.heap_allocations,
        arguments.kernels ? TimeOperations::Yes : TimeOperations::No,
        machine ? &*machine : nullptr);
    PeerStep peer;
    if (!arguments.peer.empty())
      peer = run_peer(arguments.peer, config, steps, thread_count(config));
    report(arguments.preset, result, peer);
    if (result.tokens_per_s > best.tokens_per_s) best = result;
    if (peer.tokens_per_s > best_peer.tokens_per_s) best_peer = peer;
  }
  if (arguments.rounds > 1)
    report(fmt::format("{} best of {}", arguments.preset, arguments.rounds), best, best_peer);
  if (context.json) print_json(Json{{"rows", rows}});
  return 0;
}

}  // namespace

Command bench_step_command() {
  const auto arguments = std::make_shared<StepArguments>();
  return {"step",
          "Whole training steps on random tokens",
          {{.names = "--preset",
            .help = "Model",
            .target = &arguments->preset,
            .values = preset_values()},
           {"--batch", "Sequences of a step", &arguments->batch},
           {"--seq", "Tokens of a sequence (0: the model's longest)", &arguments->seq},
           {"--steps", "Steps to measure", &arguments->steps},
           {.names = "--precision",
            .help = "Compute type",
            .target = &arguments->precision,
            .values = any_of_these(find_key("precision.compute")->choices)},
           {.names = "--device",
            .help = "Where to run",
            .target = &arguments->device,
            .values = any_of_these(find_key("run.device")->choices)},
           {"--kernels",
            "Also time the operations of a step on the GPU: a table of their kinds with count, ms, "
            "percent of the step, TFLOP/s, TB/s, the least time at rates that a product and a copy "
            "keep up for half a second, and what is left to it",
            &arguments->kernels},
           {"--hardware",
            "Also predict the step from this file (sextant bench calibrate), with --kernels each "
            "kind of operation",
            &arguments->hardware},
           {"--peer", "A program to compare with, such as bench/torch_step.sh", &arguments->peer},
           {"--rounds", "Number of rounds, alternating with the peer; the best of each counts",
            &arguments->rounds}},
          [arguments](Context& context) { return run_step(*arguments, context); },
          Accepts::Overrides};
}

}  // namespace sextant::cli
