#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/collectives.h"
#include "bench/scaling.h"
#include "cli/bench_rows.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "cli/values.h"
#include "tensor/device.h"

namespace sextant::cli {
namespace {

struct ScalingBenchArguments {
  std::string preset = "gpt2-124m", ranks = "1,2,4,8,16", kind = "both";
  int64_t batch = 1, seq = 0, steps = 3, zero = 0, rounds = 1;
};

Config scaling_config(const ScalingBenchArguments& arguments, const Context& context, int ranks,
                      int64_t batch, int zero) {
  Context own = context;
  own.overrides = {"model.preset=" + arguments.preset,
                   "batch.global=" + std::to_string(batch),
                   "batch.micro=" + std::to_string(arguments.batch),
                   "data.kind=synthetic",
                   "run.threads=1",
                   (zero == 0 ? "parallel.dp=" : "parallel.shard=") + std::to_string(ranks)};
  if (zero > 0 && ranks > 1) own.overrides.push_back("parallel.zero=" + std::to_string(zero));
  if (arguments.seq > 0) own.overrides.push_back("model.seq=" + std::to_string(arguments.seq));
  // Settings of the command line have the last word.
  own.overrides.insert(own.overrides.end(), context.overrides.begin(), context.overrides.end());
  return load_settings(own, "").config;
}

Json scaling_json(const ScalingRow& row, const std::string& preset) {
  const StepBench& step = row.step;
  return bench_row(fmt::format("{} {} {} ranks", preset, name_of(row.scaling), row.ranks),
                   step.tflops * 1e3, "GFLOP/s", step.peak_flops / 1e9,
                   {{"scaling", name_of(row.scaling)},
                    {"ranks", row.ranks},
                    {"tokens_per_s", step.tokens_per_s},
                    {"efficiency", row.efficiency},
                    {"comm_exposed", row.exposed_share()},
                    {"comm_exposed_s", step.comm_exposed_s},
                    {"tflops", step.tflops},
                    {"mfu", step.mfu},
                    {"step_s", step.step_s},
                    {"mem_peak", step.mem_peak}});
}

std::string scaling_line(const ScalingRow& row) {
  const StepBench& step = row.step;
  return fmt::format("{:<7} {:>5} {:>10.0f} {:>10.1f} {:>9.1f}% {:>9.1f}% {:>6.1f}% {:>10}",
                     name_of(row.scaling), row.ranks, step.tokens_per_s, 1e3 * step.step_s,
                     100 * row.efficiency, 100 * row.exposed_share(), 100 * step.mfu,
                     format_bytes(step.mem_peak));
}

int run_scaling(const ScalingBenchArguments& arguments, Context& context) {
  SXT_CHECK(arguments.steps > 0, Usage, "--steps ", arguments.steps, ", must be at least 1");
  ScalingOptions options;
  options.ranks = parse_ranks(arguments.ranks);
  options.batch = arguments.batch;
  options.zero = static_cast<int>(arguments.zero);
  options.rounds = static_cast<int>(arguments.rounds);
  if (arguments.kind != "both")
    options.kinds = {arguments.kind == "weak" ? Scaling::Weak : Scaling::Strong};
  for (const int ranks : options.ranks)
    if (ranks > available_cores())
      context.log.warning(
          fmt::format("{} ranks of one thread share {} cores: their efficiency is "
                      "bounded by {:.0f}%",
                      ranks, available_cores(), 100.0 * available_cores() / ranks));
  const std::vector<ScalingRow> rows = bench_scaling(
      options,
      [&](int ranks, int64_t batch, int zero) {
        return scaling_config(arguments, context, ranks, batch, zero);
      },
      [&](const Config& config) {
        const int ranks = world_size(config.parallel);
        context.log.progress(fmt::format("{} ranks, batch {}", ranks, config.batch.global));
        return bench_step(config, static_cast<int>(arguments.steps), context.storage, context.clock,
                          context.log);
      });
  context.log.end_progress();
  Json json = Json::array();
  for (const ScalingRow& row : rows) json.push_back(scaling_json(row, arguments.preset));
  if (context.json) {
    print_json(Json{{"rows", json}});
    return 0;
  }
  print_line(fmt::format("{:<7} {:>5} {:>10} {:>10} {:>10} {:>10} {:>7} {:>10}", "scaling", "ranks",
                         "tokens/s", "step ms", "efficiency", "exposed", "mfu", "memory"));
  for (const ScalingRow& row : rows) print_line(scaling_line(row));
  return 0;
}

}  // namespace

Command bench_scaling_command() {
  const auto arguments = std::make_shared<ScalingBenchArguments>();
  return {"scaling",
          "Weak and strong scaling of steps over data parallel ranks, of one thread each",
          {{.names = "--preset",
            .help = "Model",
            .target = &arguments->preset,
            .values = preset_values()},
           {"--ranks", "Numbers of ranks; efficiency is relative to the first", &arguments->ranks},
           {"--kind",
            "weak: the same batch per rank; strong: the same global batch",
            &arguments->kind,
            Option::Need::Optional,
            {"weak", "strong", "both"}},
           {"--batch",
            "Sequences of a micro-batch; strong: the global batch is this times the most ranks",
            &arguments->batch},
           {"--seq", "Tokens of a sequence (0: the model's longest)", &arguments->seq},
           {"--steps", "Steps to measure", &arguments->steps},
           {"--rounds", "Number of rounds; the best of each counts", &arguments->rounds},
           {"--zero", "ZeRO stage; 0 is DDP", &arguments->zero, Option::Need::Optional, {}, 3}},
          [arguments](Context& context) { return run_scaling(*arguments, context); },
          Accepts::Overrides};
}

}  // namespace sextant::cli
