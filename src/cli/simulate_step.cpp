#include "cli/simulate_step.h"
#include "cli/memory_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/gemm.h"
#include "plan/hardware.h"
#include "tensor/device.h"
#include "train/world.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMsPerSecond = 1e3, kGiga = 1e9;
constexpr double kMaxRate = 1e100;  // FLOP or bytes of a second

// Nothing when not given.
std::optional<double> parse_rate(const char* option, const std::string& text,
                                 bool is_flops = false) {
  if (text.empty()) return {};
  const std::optional<int64_t> bytes = parse_bytes(text);
  const double rate = bytes ? static_cast<double>(*bytes) : parse_double(text).value_or(0);
  SXT_CHECK(rate >= 1 && rate <= kMaxRate, Usage, option, " ", text, ": takes a number from 1 to ",
            kMaxRate, " for a second, such as ", is_flops ? "90e12" : "25e9 or 25GB");
  return rate;
}

// A product of this many rows, columns and terms is large enough for its best speed and takes a
// millisecond or two.
GemmRow measure_here(int threads, const Clock& clock) {
  constexpr int64_t kSize = 512;
  GemmOptions options;
  options.shapes = {{"product", kSize, kSize, kSize}};
  options.threads = {threads};
  options.repeats = 10;
  options.turn_seconds = 0.01;
  options.pause_seconds = 0;
  return bench_gemm(options, clock)[0];
}

std::string rates_text(const TimedStep& step) {
  if (step.machine) {
    std::string out = fmt::format(
        "rates        costs of operations of {}, whose {} cores all ranks "
        "share\n",
        step.machine->name, step.machine->cores);
    for (const std::string& text : step.assumed) out += "assumed      " + text + "\n";
    return out;
  }
  const Rates& rates = step.rates;
  return fmt::format(
      "rates        of a rank: {:.4g} GFLOP/s, memory {:.4g} GB/s, link {:.4g} GB/s, latency "
      "{:.3g} "
      "us, launch {:.3g} us{}\n",
      rates.flops / kGiga, rates.memory / kGiga, rates.link / kGiga, 1e6 * rates.latency,
      1e6 * rates.launch,
      step.is_measured ? " (what is not given: its share of this machine, measured)" : "");
}

std::string step_text(const TimedStep& step) {
  std::string out =
      fmt::format("step         {:.3f} ms, MFU {:.2f} % of {:.0f} GFLOP/s\n",
                  kMsPerSecond * step.time.seconds, 100 * step.mfu, step.peak_flops / kGiga);
  if (const std::vector<int64_t>& from = step.time.extrapolated_from; !from.empty())
    out += fmt::format("extrapolated from steps of {} and {} micro-batches\n", from[0], from[1]);
  out += rates_text(step);
  out += fmt::format("{:>4} {:>6} {:>14} {:>14} {:>14}   of the step\n", "rank", "alike",
                     "compute ms", "exposed ms", "waiting ms");
  for (const TimedRank& rank : step.time.ranks)
    out += fmt::format("{:>4} {:>6} {:>14.3f} {:>14.3f} {:>14.3f}\n", rank.rank, rank.count,
                       kMsPerSecond * rank.use.compute, kMsPerSecond * rank.use.exposed,
                       kMsPerSecond * rank.use.waiting);
  return out;
}

double mfu_of(const Config& config, const Preflight& flight, const TimedStep& step) {
  const double tokens = static_cast<double>(config.batch.global * config.model.seq);
  return flight.blueprint.flops_per_token(config.model.seq) * tokens /
         (step.time.seconds * step.peak_flops);
}

}  // namespace

TimedStep time_run(const Config& config, const Preflight& flight,
                   const SimulateArguments& arguments, const Clock& clock) {
  const std::optional<double> flops = parse_rate("--flops", arguments.flops, true),
                              memory = parse_rate("--bandwidth", arguments.bandwidth),
                              link = parse_rate("--link", arguments.link),
                              host = parse_rate("--host", arguments.host);
  TimedStep out;
  out.rates.latency = parse_time("--latency", arguments.latency);
  out.rates.launch = parse_time("--launch", arguments.launch);
  out.peak_flops = config.run.peak_flops;
  const int ranks = world_size(config.parallel), here = local_ranks(config);
  if (!flops || !memory) {
    const GemmRow row = measure_here(std::min(available_cores(), flight.threads * here), clock);
    out.is_measured = true;
    out.rates.flops = row.gflops * kGiga / here;
    out.rates.memory = row.limit_gflops * kGiga / row.ridge / here;
    if (out.peak_flops == 0 && !flops) out.peak_flops = row.limit_gflops * kGiga / here * ranks;
  }
  out.rates.flops = flops.value_or(out.rates.flops);
  out.rates.memory = memory.value_or(out.rates.memory);
  out.rates.link = link.value_or(out.rates.memory / 2);
  out.rates.host = host.value_or(0);
  if (out.peak_flops == 0) out.peak_flops = out.rates.flops * ranks;
  out.time = time_step(config, flight, [&](const Trace& trace, const TraceOp& op) {
    return seconds_of(out.rates, trace, op);
  });
  out.mfu = mfu_of(config, flight, out);
  return out;
}

TimedStep time_on(const Config& config, const Preflight& flight, const SimulateArguments& arguments,
                  Storage& storage) {
  refuse_options({{"--flops", arguments.flops},
                  {"--bandwidth", arguments.bandwidth},
                  {"--link", arguments.link},
                  {"--host", arguments.host},
                  {"--latency", arguments.latency},
                  {"--launch", arguments.launch}},
                 concat("--hardware ", arguments.hardware, " has the costs of all operations"));
  SXT_CHECK(storage.exists(arguments.hardware), Data, "--hardware ", arguments.hardware,
            ": no such file; it takes one of `sextant bench calibrate`");
  const std::string text = read_text(storage, arguments.hardware);
  TimedStep out;
  out.machine = parse_machine(text, arguments.hardware);
  MachineStep step = time_on_machine(config, flight, *out.machine);
  out.time = std::move(step.time);
  out.assumed = std::move(step.assumed);
  const Hardware core = parse_hardware(text, arguments.hardware);
  const double peak = config.precision.compute == ComputeType::Bf16 ? core.bf16 : core.fp32;
  out.peak_flops = config.run.peak_flops > 0 ? config.run.peak_flops : peak * out.machine->cores;
  out.mfu = mfu_of(config, flight, out);
  return out;
}

std::string to_text(const StepReport& report) {
  std::string out;
  if (report.step) out += step_text(*report.step) + "\n";
  return out + memory_text(report.flight);
}

void add_json(Json& out, const StepReport& report) {
  if (report.step) {
    const TimedStep& step = *report.step;
    out["step_s"] = step.time.seconds;
    out["mfu"] = step.mfu;
    if (!step.time.extrapolated_from.empty())
      out["extrapolated_from"] = step.time.extrapolated_from;
    out["rates"] = {{"flops", step.rates.flops},    {"bandwidth", step.rates.memory},
                    {"link", step.rates.link},      {"latency", step.rates.latency},
                    {"launch", step.rates.launch},  {"measured", step.is_measured},
                    {"peak_flops", step.peak_flops}};
    if (step.rates.host > 0) out["rates"]["host"] = step.rates.host;
    if (step.machine)
      out["rates"] = {{"hardware", step.machine->name},
                      {"cores", step.machine->cores},
                      {"peak_flops", step.peak_flops},
                      {"assumed", step.assumed}};
    out["ranks"] = Json::array();
    for (const TimedRank& rank : step.time.ranks)
      out["ranks"].push_back({{"rank", rank.rank},
                              {"alike", rank.count},
                              {"compute_s", rank.use.compute},
                              {"exposed_s", rank.use.exposed},
                              {"waiting_s", rank.use.waiting}});
  }
  out["memory"] = memory_json(report.flight);
}

}  // namespace sextant::cli
