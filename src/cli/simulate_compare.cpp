#include "cli/simulate_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/chrome_trace.h"
#include "schedule/print.h"
#include "sim/picture.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNamed = 5;  // differences that are named
constexpr double kMilliseconds = 1e3;

double ms(double seconds) {
  return kMilliseconds * seconds;
}

double ratio_of(double measured, double simulated) {
  return simulated > 0 ? measured / simulated : 0;
}

std::vector<std::string> trace_files(Storage& storage, const std::string& path) {
  SXT_CHECK(storage.exists(path), Data, path, ": no such file or directory");
  if (!storage.is_directory(path)) return {path};
  const std::string whole = join_path(path, "trace.json");
  if (storage.exists(whole)) return {whole};
  std::vector<std::string> files;
  for (const std::string& name : storage.list(path))
    if (name.starts_with("trace-") && name.ends_with(".json"))
      files.push_back(join_path(path, name));
  SXT_CHECK(!files.empty(), Data, path, " has no trace.json; run.trace = true writes one");
  return files;
}

std::string order_line(const Schedule& schedule, const Comparison& comparison) {
  if (!comparison.order) return "order        as the schedule says\n";
  const OrderDifference& first = *comparison.order;
  return fmt::format("order        differs: action {} of rank {} was {}, the schedule has {}\n",
                     first.place, first.rank, to_string(schedule, first.measured),
                     to_string(schedule, first.listed));
}

std::string figures_text(const Comparison& comparison) {
  const StepFigures &measured = comparison.measured, &simulated = comparison.simulated;
  std::string out = fmt::format("{:<12} {:>10} {:>10}\n", "", "measured", "simulated");
  out +=
      fmt::format("{:<12} {:>7.2f} ms {:>7.2f} ms  ratio {:.3f}\n", "step", ms(measured.makespan),
                  ms(simulated.makespan), ratio_of(measured.makespan, simulated.makespan));
  out += fmt::format("{:<12} {:>8.2f} % {:>8.2f} %  {:+.2f} points, of rank {}\n", "bubble",
                     100 * measured.bubble_fraction, 100 * simulated.bubble_fraction,
                     100 * (measured.bubble_fraction - simulated.bubble_fraction),
                     comparison.bubble_rank);
  out += fmt::format("{:<12} {:>8.2f} % {:>8.2f} %\n", "utilisation", 100 * measured.utilisation,
                     100 * simulated.utilisation);
  for (size_t rank = 0; rank < measured.idle.size(); ++rank)
    out += fmt::format("{:<12} {:>7.2f} ms {:>7.2f} ms\n", fmt::format("idle rank {}", rank),
                       ms(measured.idle[rank]), ms(simulated.idle[rank]));
  return out;
}

std::string times_text(const MeasuredTimes& times) {
  std::string out =
      "stage         F ms       B ms       W ms   (measured; a whole B takes B + W)\n";
  for (size_t stage = 0; stage < times.costs.stages.size(); ++stage) {
    const StageCost& cost = times.costs.stages[stage];
    out += fmt::format("{:>5} {:>12.3f} {:>10.3f} {:>10.3f}\n", stage, ms(cost.forward_time),
                       ms(cost.input_grad_time), ms(cost.weight_grad_time));
  }
  if (times.costs.overlap)
    out += fmt::format("joined blocks {:.3f} ms\n", ms(*times.costs.overlap));
  return out + fmt::format("messages {:.3f} ms, between actions {:.3f} ms\n",
                           ms(times.costs.latency), ms(times.between));
}

std::string differences_text(const Comparison& comparison) {
  std::string out = fmt::format("largest differences, in step {}:\n", comparison.shown + 1);
  for (const ActionDifference& one :
       std::span(comparison.differences).first(std::min(kNamed, comparison.differences.size())))
    out += fmt::format(
        "  {} on rank {} took {:.3f} ms {} than simulated and started {:.3f} ms {}\n",
        describe(one.action), one.rank, ms(std::abs(one.longer)), one.longer < 0 ? "less" : "more",
        ms(std::abs(one.late())), one.late() < 0 ? "earlier" : "later");
  return out;
}

std::string steps_text(const CompareReport& report, const Schedule& schedule) {
  const Comparison& comparison = report.comparison;
  std::string out = fmt::format("{}: {} step{} in {}", schedule.name, comparison.steps,
                                comparison.steps == 1 ? "" : "s", report.trace);
  if (comparison.skipped > 0)
    out += fmt::format("; medians of steps 2 to {}", comparison.steps);
  else
    out += "; the first step of a run is slower than others: let it take more";
  if (report.pipelines > 1) out += fmt::format("; the first of {} pipelines", report.pipelines);
  return out + "\n\n";
}

Json pair_json(double measured, double simulated) {
  return {{"measured", measured}, {"simulated", simulated}};
}

Json difference_json(const ActionDifference& one) {
  return {{"rank", one.rank},
          {"action", describe(one.action)},
          {"start_measured", one.measured},
          {"start_simulated", one.simulated},
          {"late", one.late()},
          {"longer", one.longer}};
}

Json times_json(const MeasuredTimes& times) {
  Json stages = Json::array();
  for (const StageCost& cost : times.costs.stages)
    stages.push_back({{"forward", cost.forward_time},
                      {"input", cost.input_grad_time},
                      {"weight", cost.weight_grad_time}});
  Json json = {{"stages", stages}, {"message", times.costs.latency}, {"between", times.between}};
  if (times.costs.overlap) json["overlap"] = *times.costs.overlap;
  return json;
}

}  // namespace

std::vector<Span> read_trace(Storage& storage, const std::string& path) {
  std::vector<Span> spans;
  for (const std::string& file : trace_files(storage, path))
    for (Span& span : read_chrome_trace(read_text(storage, file), file))
      spans.push_back(std::move(span));
  return spans;
}

std::string to_text(const CompareReport& report, const Schedule& schedule, int width) {
  const Comparison& comparison = report.comparison;
  std::string out = steps_text(report, schedule);
  out += fmt::format("measured, step {}\n{}\nsimulated\n{}\n", comparison.shown + 1,
                     timeline_text(schedule, comparison.measured_step, width),
                     timeline_text(schedule, comparison.simulated_step, width));
  out += order_line(schedule, comparison) + "\n" + figures_text(comparison) + "\n" +
         times_text(comparison.times) + "\n" + differences_text(comparison);
  if (report.advice)
    out += fmt::format(
        "\nparallel.split = \"{}\" would make the costliest stage {:.1f} % cheaper: {:.2f} instead "
        "of {:.2f} ms a micro-batch\n",
        report.advice->split, 100 * (1 - report.advice->then / report.advice->now),
        ms(report.advice->then), ms(report.advice->now));
  return out;
}

Json to_json(const CompareReport& report) {
  const Comparison& comparison = report.comparison;
  const StepFigures &measured = comparison.measured, &simulated = comparison.simulated;
  Json json = {{"trace", report.trace},         {"steps", comparison.steps},
               {"skipped", comparison.skipped}, {"shown", comparison.shown + 1},
               {"pipelines", report.pipelines}, {"order_equal", !comparison.order}};
  if (comparison.order)
    json["order_difference"] = {{"rank", comparison.order->rank},
                                {"place", comparison.order->place},
                                {"measured", describe(comparison.order->measured)},
                                {"schedule", describe(comparison.order->listed)}};
  json["step_s"] = pair_json(measured.makespan, simulated.makespan);
  json["step_s"]["ratio"] = ratio_of(measured.makespan, simulated.makespan);
  json["bubble_fraction"] = pair_json(measured.bubble_fraction, simulated.bubble_fraction);
  json["bubble_fraction"]["rank"] = comparison.bubble_rank;
  json["utilisation"] = pair_json(measured.utilisation, simulated.utilisation);
  json["idle"] = {{"measured", measured.idle}, {"simulated", simulated.idle}};
  json["times"] = times_json(comparison.times);
  Json differences = Json::array();
  for (size_t i = 0; i < std::min(kNamed, comparison.differences.size()); ++i)
    differences.push_back(difference_json(comparison.differences[i]));
  json["differences"] = differences;
  if (report.advice)
    json["split"] = {{"suggested", report.advice->split},
                     {"costliest_stage_s", report.advice->now},
                     {"costliest_stage_then_s", report.advice->then}};
  return json;
}

}  // namespace sextant::cli
