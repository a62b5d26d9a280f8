#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/calibrate.h"
#include "bench/calibrate_check.h"
#include "cli/bench_rows.h"
#include "cli/out_file.h"
#include "cli/print.h"

namespace sextant::cli {
namespace {

constexpr double kMillion = 1e6, kGigaPerSecond = 1e-9;

struct CalibrateArguments {
  std::string out = "machine.toml", name = "this machine", check, report, device = "cpu";
  int64_t steps = 4, rounds = 2;
};

// What a cost says first: FLOPs per second where they dominate its samples, else bytes, else time.
struct Rate {
  double value = 0, limit = 0;
  const char* unit = "us";
};

Rate rate_of(const CalibratedCost& one, const Calibration& made) {
  const OpCost& cost = one.cost;
  const double cores = made.machine.cores;
  double flops = 0, bytes = 0, sent = 0, amount = 0;
  for (const CostSample& s : one.samples) {
    flops += s.flops * cost.flop;
    bytes += s.read * cost.read + s.written * cost.written;
    sent += s.sent * cost.sent;
    amount += s.read + s.written;
  }
  const bool is_bf16 = one.key.find("-bf16-") != std::string::npos;
  const double peak = (is_bf16 ? made.fma_peak_bf16 : made.fma_peak) / cores;
  if (flops > bytes && flops > sent)
    return {kGigaPerSecond / cost.flop, kGigaPerSecond * peak, "GFLOP/s"};
  if (bytes > sent)
    return {kGigaPerSecond * amount / bytes, kGigaPerSecond * made.copy_rate / cores, "GB/s"};
  if (sent > 0)
    return {kGigaPerSecond / cost.sent, kGigaPerSecond * made.copy_rate / cores, "GB/s"};
  return {kMillion * cost.call, 0, "us"};
}

int threads_of(const std::string& key) {
  return static_cast<int>(parse_int(key.substr(key.rfind('-') + 1)).value_or(1));
}

void report_calibration(const Calibration& made, const CalibrateArguments& arguments,
                        Context& context) {
  Json rows = Json::array();
  if (!context.json)
    print_line(fmt::format("{:<36} {:>10} {:<8} {:>10} {:>9} {:>8} {:>7}", "cost", "rate", "",
                           "limit", "call us", "samples", "error"));
  for (const CalibratedCost& one : made.costs) {
    Rate rate = rate_of(one, made);
    rate.limit *= threads_of(one.key);
    rows.push_back(bench_row(one.key, rate.value, rate.unit, rate.limit,
                             {{"call_us", kMillion * one.cost.call},
                              {"samples", one.samples.size()},
                              {"error", one.error}}));
    if (!context.json)
      print_line(fmt::format("{:<36} {:>10.4g} {:<8} {:>10.4g} {:>9.3g} {:>8} {:>6.1f}%", one.key,
                             rate.value, rate.unit, rate.limit, kMillion * one.cost.call,
                             one.samples.size(), 100 * one.error));
    if (context.log.level() != LogLevel::Verbose) continue;
    for (const CostSample& s : one.samples)
      context.log.detail(fmt::format(
          "{}: {} FLOP, {} B read, {} B written, {} B sent: {:.4g} us, fitted {:.4g} us", one.key,
          s.flops, s.read, s.written, s.sent, kMillion * s.seconds,
          kMillion * one.cost.of(s.flops, s.read, s.written, s.sent)));
  }
  if (context.json)
    print_json(Json{{"rows", rows}, {"hardware", arguments.out}});
  else
    print_line("wrote " + arguments.out);
}

Json layout_json(const CheckedLayout& one) {
  return bench_row(one.name, 1e3 * one.measured_s, "ms", 1e3 * one.predicted_s,
                   {{"ranks", one.ranks},
                    {"error", one.error()},
                    {"busy_ms", 1e3 * one.busy_s},
                    {"memory_exact", one.is_memory_exact},
                    {"predicted_peak", one.predicted_peak},
                    {"measured_peak", one.measured_peak},
                    {"assumed", one.assumed}});
}

int run_check(const CalibrateArguments& arguments, Context& context) {
  const Machine machine =
      parse_machine(read_text(context.storage, arguments.check), arguments.check);
  const std::vector<CheckedLayout> layouts =
      check_layouts(machine, static_cast<int>(arguments.steps), static_cast<int>(arguments.rounds),
                    context.storage, context.clock, context.log);
  if (!arguments.report.empty())
    write_out_file(context.storage, arguments.report, check_report(layouts));
  if (!context.json) {
    print(check_report(layouts));
    return 0;
  }
  Json rows = Json::array();
  for (const CheckedLayout& one : layouts) rows.push_back(layout_json(one));
  print_json(Json{{"rows", rows},
                  {"mean_error", mean_error(layouts)},
                  {"memory_exact", is_memory_exact(layouts)}});
  return 0;
}

int run_calibrate(const CalibrateArguments& arguments, Context& context) {
  SXT_CHECK(arguments.steps > 0 && arguments.rounds > 0, Usage, "--steps ", arguments.steps,
            " --rounds ", arguments.rounds, ": at least 1 of each");
  SXT_CHECK(arguments.report.empty() || !arguments.check.empty(), Usage, "--report ",
            arguments.report, " takes the table of --check FILE");
  if (!arguments.report.empty())
    check_out_file(context.storage, "--report", arguments.report, "layouts.md");
  if (!arguments.check.empty()) return run_check(arguments, context);
  check_out_file(context.storage, "--out", arguments.out, "machine.toml");
  CalibrateOptions options;
  options.steps = static_cast<int>(arguments.steps);
  options.rounds = static_cast<int>(arguments.rounds);
  options.progress = [&](const std::string& text) { context.log.progress(text); };
  Calibration made = (arguments.device == "cuda" ? calibrate_gpu : calibrate)(
      options, context.storage, context.clock, context.log);
  made.machine.name = arguments.name;
  write_out_file(context.storage, arguments.out, hardware_text(made));
  report_calibration(made, arguments, context);
  return 0;
}

}  // namespace

Command bench_calibrate_command() {
  const auto arguments = std::make_shared<CalibrateArguments>();
  return {"calibrate",
          "Measure what operations cost on this machine and write a hardware file",
          {{"--out", "The file", &arguments->out},
           {"--name", "Name of the machine in the file", &arguments->name},
           {.names = "--device",
            .help = "What is measured: the cores, or the first GPU alone in bf16",
            .target = &arguments->device,
            .choices = {"cpu", "cuda"}},
           {"--check", "Compare steps of many layouts with their prediction from this file",
            &arguments->check},
           {"--report", "With --check: write the table into this file", &arguments->report},
           {"--steps", "Steps of each model or layout in a round", &arguments->steps},
           {"--rounds", "Number of rounds, in which everything takes turns", &arguments->rounds}},
          [arguments](Context& context) { return run_calibrate(*arguments, context); }};
}

}  // namespace sextant::cli
