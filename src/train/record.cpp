#include "train/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "train/step_comparison.h"

namespace sextant {
namespace {

// The end of every text about a step that is not finite.
constexpr const char* kAdvice = "; a smaller optim.lr or a longer optim.warmup may help";

// Of each operation that sends, and of each axis: of these and of messages received.
void add_exposed(nlohmann::ordered_json& json, const StepRecord& record) {
  for (size_t i = 0; i < record.sent.axes().size(); ++i) {
    const std::string axis(record.sent.axes()[i].axis());
    if (!json.contains("comm_by_axis") || !json["comm_by_axis"].contains(axis)) continue;
    nlohmann::ordered_json& by_operation = json["comm_by_axis"][axis];
    double all = 0;
    for (int operation = 0; operation < kOperations; ++operation) {
      const double exposed = record.exposed[i][static_cast<size_t>(operation)];
      const std::string name = name_of(static_cast<Operation>(operation));
      if (by_operation.contains(name)) by_operation[name]["exposed_s"] = exposed;
      all += exposed;
    }
    by_operation["exposed_s"] = all;
  }
}

}  // namespace

void check_loss(int64_t step, double loss) {
  SXT_CHECK(std::isfinite(loss), Failure, "step ", step, ": loss is ", loss, kAdvice);
}

void check_norm(int64_t step, double norm) {
  SXT_CHECK(std::isfinite(norm), Failure, "step ", step, ": the gradient norm is ", norm, kAdvice);
}

bool is_not_finite(const Error& error) {
  return std::string_view(error.what()).ends_with(kAdvice);
}

std::string to_json(const StepRecord& record) {
  nlohmann::ordered_json json = {{"step", record.step},
                                 {"loss", record.loss},
                                 {"grad_norm", record.grad_norm},
                                 {"lr", record.lr},
                                 {"tokens", record.tokens},
                                 {"tokens_per_s", record.tokens_per_s},
                                 {"tflops", record.tflops},
                                 {"mfu", record.mfu},
                                 {"step_s", record.step_s},
                                 {"mem_peak", record.mem_peak},
                                 {"comm_s", record.comm_s},
                                 {"comm_exposed_s", record.comm_exposed_s},
                                 {"comm_elements", record.sent.total().elements},
                                 {"comm_bytes", record.sent.total().bytes}};
  for_each_sent(record.sent,
                [&](const AxisTraffic& axis, Operation operation, const Traffic& sent) {
                  json["comm_by_axis"][axis.axis()][name_of(operation)] = {
                      {"calls", sent.calls}, {"elements", sent.elements}, {"bytes", sent.bytes}};
                });
  add_exposed(json, record);
  if (record.eval_loss) json["eval_loss"] = *record.eval_loss;
  for (const Evaluation::Source& source : record.eval_sources)
    json["eval_sources"][source.name] = source.loss;
  if (record.loss_scale) json["loss_scale"] = *record.loss_scale;
  if (record.is_skipped) json["skipped"] = true;
  if (record.routing) {
    json["balance_loss"] = record.routing->balance_loss;
    json["router_z_loss"] = record.routing->router_z_loss;
    json["imbalance"] = record.routing->imbalance();
    json["expert_tokens"] = record.routing->expert_tokens;
    json["dropped_tokens"] = record.routing->dropped;
  }
  return json.dump();
}

std::string to_line(const StepRecord& record, int64_t steps) {
  std::string line = fmt::format(
      "step {:>{}}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {} tok/s  {:.3f} TFLOP/s  mfu {:.1f}%  "
      "mem {}  {:.{}f} ms",
      record.step, std::to_string(steps).size(), steps, record.loss, record.grad_norm, record.lr,
      format_count(record.tokens_per_s), record.tflops, 100 * record.mfu,
      format_bytes(record.mem_peak), 1e3 * record.step_s, record.step_s < 0.1 ? 1 : 0);
  constexpr double kShown = 5e-5;  // smallest time not shown as 0.0 ms
  if (record.comm_exposed_s >= kShown)
    line += fmt::format("  comm {:.1f} ms exposed", 1e3 * record.comm_exposed_s);
  if (record.routing) line += fmt::format("  imbalance {:.2f}", record.routing->imbalance());
  if (record.routing && record.routing->dropped > 0)
    line += fmt::format("  dropped {:.2f}%", 100 * record.routing->dropped_share());
  if (record.is_skipped)
    line += fmt::format("  skipped: overflow at loss scale {:g}", record.loss_scale.value_or(1));
  if (record.eval_loss) line += fmt::format("  eval {:.4f}", *record.eval_loss);
  return line;
}

std::string to_progress(const StepRecord& record, int64_t steps) {
  constexpr int64_t kWidth = 24;
  const int64_t filled =
      std::clamp<int64_t>(record.step * kWidth / std::max<int64_t>(1, steps), 0, kWidth);
  const std::string bar = std::string(static_cast<size_t>(filled), '#') +
                          std::string(static_cast<size_t>(kWidth - filled), '.');
  return fmt::format("[{}] {}/{}  loss {:.4f}  {} tok/s  {} left", bar, record.step, steps,
                     record.loss, format_count(record.tokens_per_s),
                     format_duration(static_cast<double>(steps - record.step) * record.step_s));
}

std::string to_text(const ComparedStep& compared) {
  return fmt::format(
      "step time {:.4g} s measured (median of {}), {:.4g} s predicted from {} ({:+.1f} %); memory "
      "of rank 0 {} measured, {} predicted",
      compared.measured_s, compared.steps, compared.predicted.seconds, compared.predicted.source,
      100 * compared.error(), format_bytes(compared.measured_peak),
      format_bytes(compared.predicted_peak));
}

}  // namespace sextant
