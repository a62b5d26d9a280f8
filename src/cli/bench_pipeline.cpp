#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/pipeline.h"
#include "cli/bench_rows.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "cli/values.h"
#include "schedule/make_schedule.h"
#include "tensor/device.h"

namespace sextant::cli {
namespace {

// Stages of equal work: whole blocks, and a vocabulary so small that embedding and head are a few
// percent of one.
struct PipelineBenchArguments {
  std::string schedules = "gpipe,1f1b,interleaved,zb-h1,zb-h2,zb-v";
  int64_t ranks = 4, micros = 0, steps = 5, rounds = 3, layers = 4, hidden = 256, seq = 256,
          batch = 1;
};

Config pipeline_config(const PipelineBenchArguments& arguments, const Context& context,
                       const std::string& schedule) {
  const int64_t micros = arguments.micros > 0 ? arguments.micros : 2 * arguments.ranks;
  Context own = context;
  own.overrides = {fmt::format("model.layers={}", arguments.layers * arguments.ranks),
                   fmt::format("model.hidden={}", arguments.hidden),
                   fmt::format("model.heads={}", std::max<int64_t>(1, arguments.hidden / 64)),
                   "model.vocab=128",
                   fmt::format("model.seq={}", arguments.seq),
                   fmt::format("batch.global={}", arguments.batch * micros),
                   fmt::format("batch.micro={}", arguments.batch),
                   "data.kind=synthetic",
                   "run.threads=1",
                   fmt::format("parallel.pp={}", arguments.ranks),
                   "parallel.schedule=" + schedule};
  if (schedule.starts_with("interleaved") || schedule == "looped-bfs")
    own.overrides.push_back("parallel.chunks=2");
  // Settings of the command line have the last word.
  own.overrides.insert(own.overrides.end(), context.overrides.begin(), context.overrides.end());
  return load_settings(own, "").config;
}

Json row_json(const PipelineRow& row) {
  const auto [least, most] = row.stage_work();
  return bench_row(row.schedule, 1e3 * row.measured_s(), "ms", 1e3 * row.simulated_s(),
                   {{"bubble_measured", row.measured_bubble()},
                    {"bubble_simulated", row.simulated_bubble()},
                    {"bubble_points", row.bubble_points()},
                    {"stage_work", {least, most}},
                    {"order_equal", !row.has_other_order()},
                    {"message_ms", 1e3 * row.latency_s()},
                    {"step_ratio", row.ratio()},
                    {"steps", row.steps.size()}});
}

std::string row_line(const PipelineRow& row) {
  const auto [least, most] = row.stage_work();
  return fmt::format("{:<14} {:>10.2f} {:>10.2f} {:>7.3f} {:>9.2f}% {:>9.2f}% {:>+7.2f} {:>10} {}",
                     row.schedule, 1e3 * row.measured_s(), 1e3 * row.simulated_s(), row.ratio(),
                     100 * row.measured_bubble(), 100 * row.simulated_bubble(), row.bubble_points(),
                     fmt::format("{:.2f}-{:.2f}", least, most),
                     row.has_other_order() ? "differs" : "equal");
}

std::vector<std::string> schedules_of(const PipelineBenchArguments& arguments) {
  std::vector<std::string> chosen = split(arguments.schedules, ',');
  const std::vector<std::string> known = schedule_names();
  for (const std::string& name : chosen)
    SXT_CHECK(std::ranges::find(known, name) != known.end(), Usage, "--schedules ",
              arguments.schedules, ": there is no schedule '", name, "'; ", join(known, ", "));
  return chosen;
}

int run_pipeline(const PipelineBenchArguments& arguments, Context& context) {
  SXT_CHECK(
      arguments.ranks > 1 && arguments.steps > 0 && arguments.layers > 0 && arguments.rounds > 0,
      Usage, "--ranks ", arguments.ranks, " --steps ", arguments.steps, " --rounds ",
      arguments.rounds, " --layers ", arguments.layers,
      ": at least 2 ranks, 1 step, 1 round and 1 layer");
  const std::vector<std::string> schedules = schedules_of(arguments);
  if (arguments.ranks > available_cores())
    context.log.warning(
        fmt::format("{} ranks of one thread share {} cores: they disturb each other",
                    arguments.ranks, available_cores()));
  std::vector<PipelineRow> rows(schedules.size());
  for (int64_t round = 0; round < arguments.rounds; ++round)
    for (size_t i = 0; i < schedules.size(); ++i) {
      context.log.progress(
          fmt::format("round {} of {}: {}", round + 1, arguments.rounds, schedules[i]));
      PipelineRow row = bench_pipeline(pipeline_config(arguments, context, schedules[i]),
                                       static_cast<int>(arguments.steps), context.storage,
                                       context.clock, context.log);
      rows[i].schedule = row.schedule;
      for (Comparison& step : row.steps) rows[i].steps.push_back(std::move(step));
    }
  context.log.end_progress();
  const bool same = is_same_order(rows);
  if (context.json) {
    Json json = Json::array();
    for (const PipelineRow& row : rows) json.push_back(row_json(row));
    print_json(Json{{"rows", json}, {"same_order", same}});
    return 0;
  }
  print_line(fmt::format("{:<14} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7} {:>10} {}", "schedule",
                         "step ms", "simulated", "ratio", "bubble", "simulated", "points",
                         "stage work", "order"));
  for (const PipelineRow& row : rows) print_line(row_line(row));
  print_line(fmt::format("the schedules come in {} order by measured and by simulated time",
                         same ? "the same" : "another"));
  return 0;
}

}  // namespace

Command bench_pipeline_command() {
  const auto arguments = std::make_shared<PipelineBenchArguments>();
  return {"pipeline",
          "Pipeline schedules as they run, and as simulated at the measured times",
          {{.names = "--schedules",
            .help = "Schedules to measure",
            .target = &arguments->schedules,
            .values = lists_of(schedule_names())},
           {"--ranks", "Pipeline ranks, of one thread each", &arguments->ranks},
           {"--micros", "Micro-batches of a step (0: twice the ranks)", &arguments->micros},
           {"--steps", "Steps of a round, after one that is not counted", &arguments->steps},
           {"--rounds", "Number of rounds, in which the schedules take turns", &arguments->rounds},
           {"--layers", "Transformer blocks of each rank", &arguments->layers},
           {"--hidden", "Hidden size of the model", &arguments->hidden},
           {"--seq", "Tokens of a sequence", &arguments->seq},
           {"--batch", "Sequences of a micro-batch", &arguments->batch}},
          [arguments](Context& context) { return run_pipeline(*arguments, context); },
          Accepts::Overrides};
}

}  // namespace sextant::cli
