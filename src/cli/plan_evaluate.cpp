#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/plan_commands.h"
#include "cli/print.h"
#include "plan/evaluate.h"
#include "plan/report.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EvaluateArguments {
  std::string runs, report;
  bool leave_one_out = false, fit = false;
};

Json to_json(const ErrorSummary& s) {
  return {{"n", s.n},
          {"mape", s.mape},
          {"median_signed", s.median_signed},
          {"worst", s.worst},
          {"worst_id", s.worst_id}};
}

Json to_json(const TableEvaluation& e, const LeftOut* left) {
  Json rows = Json::array();
  for (const RunPrediction& row : e.rows)
    rows.push_back({{"id", row.id},
                    {"step_s", row.step_s},
                    {"interval", {row.interval.low * row.step_s, row.interval.high * row.step_s}},
                    {"mem_gib", row.mem_gib},
                    {"fits", row.fits},
                    {"assumed", row.assumed}});
  Json summary = Json::object();
  for (const auto& [name, s] : e.sources) summary[name] = to_json(s);
  summary["all"] = to_json(e.all);
  summary["memory"] = to_json(e.memory);
  summary["oom"] = {{"tp", e.fits.true_positive},
                    {"fp", e.fits.false_positive},
                    {"tn", e.fits.true_negative},
                    {"fn", e.fits.false_negative}};
  summary["regret"] = {{"problems", e.regret.problems},
                       {"failed", e.regret.failed},
                       {"mean", e.regret.mean},
                       {"worst", e.regret.worst},
                       {"worst_id", e.regret.worst_id}};
  if (left != nullptr) {
    Json origins = Json::object();
    for (const auto& [name, s] : left->origins) origins[name] = to_json(s);
    summary["left_out"] = {
        {"all", to_json(left->all)}, {"coverage", left->coverage}, {"origins", origins}};
  }
  return {{"rows", rows}, {"summary", summary}};
}

std::string line(const std::string& name, const ErrorSummary& s) {
  return fmt::format("{:<72.72} {:>4} {:>7.1f} % {:>+7.1f} % {:>7.1f} %  {}\n", name, s.n,
                     100 * s.mape, 100 * s.median_signed, 100 * s.worst, s.worst_id);
}

std::string to_text(const TableEvaluation& e, const LeftOut* left) {
  std::string out = fmt::format("{:<72} {:>4} {:>9} {:>9} {:>9}  {}\n", "source", "runs", "mean",
                                "median", "worst", "run");
  for (const auto& [name, s] : e.sources) out += line(name, s);
  out += line("all", e.all);
  out += line("memory", e.memory);
  out += fmt::format(
      "fits: {:.1f} % right, {:.1f} % said to fit but ran out ({} runs)\n"
      "search problems: {}, picks that ran out {}, time lost {:.2f} % mean, {:.1f} % worst (run "
      "{})\n",
      100 * e.fits.right(), 100 * e.fits.wrong_fits(), e.fits.all(), e.regret.problems,
      e.regret.failed, 100 * e.regret.mean, 100 * e.regret.worst, e.regret.worst_id);
  if (left == nullptr) return out;
  out += "each source left out of the fit in turn:\n";
  for (const auto& [name, s] : left->origins) out += line(name, s);
  out += line("all", left->all);
  out += fmt::format("left-out runs inside their 90 % interval: {:.1f} %\n", 100 * left->coverage);
  return out;
}

std::string constants_text(const Constants& constants) {
  std::string out;
  for (const ConstantInfo& info : constant_table())
    out += fmt::format("{:<14} {:.4g}\n", info.name, constants.*info.value);
  return out;
}

int run_evaluate(const EvaluateArguments& arguments, Context& context) {
  const std::vector<PublishedRun> runs =
      read_runs(read_text(context.storage, arguments.runs), arguments.runs);
  Constants constants;
  if (arguments.fit) {
    constants = fit_to_runs(context.storage, runs, constants, "");
    context.log.info("fitted constants:");
    for (const ConstantInfo& info : constant_table())
      context.log.info(fmt::format("  {:<14} {:.4g}", info.name, constants.*info.value));
  }
  const TableEvaluation evaluation = evaluate_runs(context.storage, runs, constants);
  std::optional<LeftOut> left;
  if (arguments.leave_one_out || !arguments.report.empty())
    left = leave_one_out(context.storage, runs, constants);
  if (!arguments.report.empty()) {
    context.storage.make_directories(arguments.report);
    replace_file(context.storage, join_path(arguments.report, "accuracy.md"),
                 accuracy_page(runs, evaluation, *left, constants));
    replace_file(context.storage, join_path(arguments.report, "accuracy.svg"),
                 accuracy_picture(runs, evaluation));
  }
  if (context.json) {
    Json document = to_json(evaluation, left ? &*left : nullptr);
    if (arguments.fit) {
      Json fitted = Json::object();
      for (const ConstantInfo& info : constant_table())
        fitted[std::string(info.name)] = constants.*info.value;
      document["constants"] = fitted;
    }
    print_json(document);
  } else {
    print((arguments.fit ? constants_text(constants) : "") +
          to_text(evaluation, left ? &*left : nullptr));
  }
  return 0;
}

}  // namespace

Command plan_evaluate_command() {
  auto arguments = std::make_shared<EvaluateArguments>();
  return {.name = "evaluate",
          .help = "Predict every run of a table of published runs and compare",
          .options = {{.names = "--runs",
                       .help = "CSV file with the columns of docs/planner/runs.csv",
                       .target = &arguments->runs,
                       .need = Option::Need::Required},
                      {.names = "--leave-one-out",
                       .help = "Also predict each source with constants fitted to the others",
                       .target = &arguments->leave_one_out},
                      {.names = "--fit",
                       .help = "Fit the constants to the table first, and print them",
                       .target = &arguments->fit},
                      {.names = "--report",
                       .help = "Write accuracy.md and accuracy.svg into this folder",
                       .target = &arguments->report}},
          .run = [arguments](Context& context) { return run_evaluate(*arguments, context); }};
}

}  // namespace sextant::cli
