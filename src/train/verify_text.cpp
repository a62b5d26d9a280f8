#include <fmt/format.h>

#include <algorithm>

#include "train/verify.h"

namespace sextant {

std::string to_text(const VerifyReport& report) {
  size_t width = 6;
  for (const TensorVerdict& tensor : report.tensors) width = std::max(width, tensor.name.size());
  // Errors against fp64, where rounding is coarse enough to be judged by them.
  const auto errors = [&](auto&& layout, auto&& reference) {
    return report.is_narrow ? fmt::format("{:>10}  {:>10}  ", layout, reference) : std::string();
  };
  const auto number = [](double value) { return fmt::format("{:.1e}", value); };
  std::string text =
      fmt::format("{:<{}}  {:>10}  {:>10}  {:>10}  {}{}\n", "tensor", width, "gradient", "update",
                  "free", errors("error", "reference"), "verdict");
  for (const TensorVerdict& tensor : report.tensors)
    text += fmt::format(
        "{:<{}}  {:>10.1e}  {:>10.1e}  {:>10}  {}{}{}{}\n", tensor.name, width, tensor.grad_max_rel,
        tensor.update_max_rel, report.ran_free ? number(tensor.free_rel) : "-",
        errors(number(tensor.error_rel), number(tensor.reference_error_rel)),
        name_of(tensor.verdict), tensor.problem.empty() ? "" : ": " + tensor.problem,
        tensor.is_judged ? "" : ", not judged in every step: rounding alone changes it as much");
  for (const std::string& problem : report.problems) text += "bug: " + problem + "\n";
  return text + summary(report);
}

std::string summary(const VerifyReport& report) {
  return fmt::format(
      "{} against {}, {} step{}: loss {:.1e}, gradients {:.1e}, updates {:.1e} apart{}{}: {}{}",
      report.layout, report.against, report.steps, report.steps == 1 ? "" : "s",
      report.loss_max_rel, report.grad_max_rel, report.update_max_rel,
      report.ran_free ? fmt::format("; running free {:.1e}", report.free_max_rel) : "",
      report.end.empty() ? "" : "; ended, " + report.end, name_of(report.verdict),
      report.verdict == Verdict::Equal ? ", every bit the same" : "");
}

}  // namespace sextant
