#include "plan/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sextant {
namespace {

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f} %", 100 * share);
}

std::string summary_row(const std::string& name, const ErrorSummary& s) {
  return fmt::format("| {} | {} | {} | {} | {} (run {}) |\n", name, s.n, percent(s.mape),
                     signed_percent(s.median_signed), percent(s.worst), s.worst_id);
}

constexpr const char* kErrorHead =
    "| source | runs | mean error | median, signed | worst |\n|---|---|---|---|---|\n";

std::string goal_row(const char* what, const std::string& reached, const char* goal, bool met) {
  return fmt::format("| {} | {} | {} | {} |\n", what, reached, goal, met ? "yes" : "**no**");
}

double worst_source(const TableEvaluation& e) {
  double worst = 0;
  for (const auto& [name, s] : e.sources)
    if (s.n >= 8) worst = std::max(worst, s.mape);
  return worst;
}

std::string goals(const TableEvaluation& e, const LeftOut& left) {
  const double source = worst_source(e);
  std::string out = "| figure | reached | goal | met |\n|---|---|---|---|\n";
  out += goal_row("step time, mean error over scored runs", percent(e.all.mape), "at most 10 %",
                  e.all.mape <= 0.10);
  out += goal_row("the same, worst source with at least 8 scored runs", percent(source),
                  "at most 15 %", source <= 0.15);
  out += goal_row("fits or runs out of memory: right", percent(e.fits.right()), "at least 95 %",
                  e.fits.right() >= 0.95);
  out += goal_row("said to fit, ran out", percent(e.fits.wrong_fits()), "at most 2 %",
                  e.fits.wrong_fits() <= 0.02);
  out +=
      goal_row("memory, mean error", percent(e.memory.mape), "at most 6 %", e.memory.mape <= 0.06);
  out += goal_row("search problems: picks that ran out of memory",
                  fmt::format("{} of {}", e.regret.failed, e.regret.problems), "none",
                  e.regret.failed == 0);
  out += goal_row("time lost to the best run, mean", percent(e.regret.mean), "at most 2 %",
                  e.regret.mean <= 0.02);
  out += goal_row("time lost, worst",
                  fmt::format("{} (run {})", percent(e.regret.worst), e.regret.worst_id),
                  "at most 8 %", e.regret.worst <= 0.08);
  out += goal_row("each source left out of the fit in turn, mean error", percent(left.all.mape),
                  "at most 15 %", left.all.mape <= 0.15);
  out += goal_row("left-out runs inside their 90 % interval", percent(left.coverage), "85 to 95 %",
                  left.coverage >= 0.85 && left.coverage <= 0.95);
  return out;
}

std::string worst_rows(std::span<const PublishedRun> runs, const TableEvaluation& e, size_t count) {
  struct Row {
    double error;
    size_t index;
  };
  std::vector<Row> rows;
  for (size_t i = 0; i < runs.size(); ++i)
    if (runs[i].scored && runs[i].step_s)
      rows.push_back({e.rows[i].step_s / *runs[i].step_s - 1, i});
  std::ranges::stable_sort(
      rows, [](const Row& a, const Row& b) { return std::abs(a.error) > std::abs(b.error); });
  std::string out =
      "| run | model | GPUs | measured | predicted | error | assumed "
      "|\n|---|---|---|---|---|---|---|\n";
  for (size_t k = 0; k < std::min(count, rows.size()); ++k) {
    const PublishedRun& run = runs[rows[k].index];
    const RunPrediction& row = e.rows[rows[k].index];
    std::string assumed;
    for (const std::string& text : row.assumed) assumed += (assumed.empty() ? "" : "; ") + text;
    out += fmt::format("| {} | {} | {:.0f} × {} | {:.4g} s | {:.4g} s | {} | {} |\n", run.id,
                       run.model, run.gpus.value_or(0), run.gpu, *run.step_s, row.step_s,
                       signed_percent(rows[k].error), assumed);
  }
  return out;
}

std::string constants_table(const Constants& constants) {
  std::string out = "| constant | value | range | meaning |\n|---|---|---|---|\n";
  for (const ConstantInfo& info : constant_table())
    out += fmt::format("| `{}` | {:.4g} {} | {:.4g} to {:.4g} | {} |\n", info.name,
                       constants.*info.value, info.unit, info.least, info.most, info.meaning);
  return out;
}

constexpr const char* kColours[] = {"#2f6fb5", "#c4622d", "#3f8f4e", "#8a4fa3",
                                    "#b03a48", "#8c7a1f", "#2a9c9c", "#6b6b6b"};

}  // namespace

std::string accuracy_page(std::span<const PublishedRun> runs, const TableEvaluation& e,
                          const LeftOut& left, const Constants& constants) {
  std::string out = "# How accurate the planner is\n\n";
  out += fmt::format(
      "Made by `sextant plan evaluate --runs docs/planner/runs.csv --leave-one-out --report "
      "docs/planner`: every run of the table is predicted and compared. {} runs, {} of them with "
      "a step time that is scored, {} that say whether they ran out of memory, {} with a measured "
      "memory.\n\n",
      runs.size(), e.all.n, e.fits.all(), e.memory.n);
  out += goals(e, left);
  out += "\n![Predicted against measured](accuracy.svg)\n\n## By source\n\n";
  out += kErrorHead;
  for (const auto& [name, s] : e.sources) out += summary_row(name, s);
  out += "\n## By repository or paper, left out of the fit\n\n";
  out += "Each is predicted with constants that were fitted to all the others.\n\n";
  out += kErrorHead;
  for (const auto& [name, s] : left.origins) out += summary_row(name, s);
  out += "\n## Memory\n\n";
  out += fmt::format(
      "Ran out and said so: {}; ran and said to fit: {}; ran, but said not to fit: {}; ran out, "
      "but said to fit: {}.\n",
      e.fits.true_positive, e.fits.true_negative, e.fits.false_positive, e.fits.false_negative);
  out += fmt::format("Measured memory: mean error {}, median {}, worst {} (run {}).\n",
                     percent(e.memory.mape), signed_percent(e.memory.median_signed),
                     percent(e.memory.worst), e.memory.worst_id);
  out += "\n## The worst rows\n\n" + worst_rows(runs, e, 25);
  out += "\n## Fitted constants\n\n" + constants_table(constants);
  return out;
}

std::string accuracy_picture(std::span<const PublishedRun> runs, const TableEvaluation& e) {
  constexpr double kSide = 560, kLeft = 70, kTop = 40;
  double low = INFINITY, high = 0;
  for (size_t i = 0; i < runs.size(); ++i)
    if (runs[i].scored && runs[i].step_s) {
      low = std::min({low, *runs[i].step_s, e.rows[i].step_s});
      high = std::max({high, *runs[i].step_s, e.rows[i].step_s});
    }
  const double from = std::floor(std::log10(low)), to = std::ceil(std::log10(high));
  const auto x_of = [&](double v) { return kLeft + (std::log10(v) - from) / (to - from) * kSide; };
  const auto y_of = [&](double v) {
    return kTop + kSide - (std::log10(v) - from) / (to - from) * kSide;
  };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 660\" width=\"900\" "
      "height=\"660\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"900\" height=\"660\" fill=\"#ffffff\"/>\n"
      "<text x=\"{}\" y=\"24\" font-size=\"16\" fill=\"#222\">Step time: predicted against "
      "measured, {} published runs</text>\n",
      kLeft, e.all.n);
  for (double d = from; d <= to; ++d) {
    const double v = std::pow(10, d);
    const std::string label = d < 0 ? fmt::format("{:g} ms", v * 1000) : fmt::format("{:g} s", v);
    out += fmt::format(
        "<path d=\"M{0:.1f} {1}V{2}M{3} {4:.1f}H{5}\" stroke=\"#ddd\" fill=\"none\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{6}\" text-anchor=\"middle\" fill=\"#444\">{7}</text>\n"
        "<text x=\"{8}\" y=\"{9:.1f}\" text-anchor=\"end\" fill=\"#444\">{7}</text>\n",
        x_of(v), kTop, kTop + kSide, kLeft, y_of(v), kLeft + kSide, kTop + kSide + 18, label,
        kLeft - 8, y_of(v) + 4);
  }
  // Equal, and 15 % to either side.
  const double a = std::pow(10, from), b = std::pow(10, to);
  for (const double f : {1.0, 1.15, 1 / 1.15}) {
    const double x0 = f < 1 ? a / f : a, x1 = f > 1 ? b / f : b;
    out += fmt::format(
        "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\" stroke-dasharray=\"{}\" "
        "fill=\"none\"/>\n",
        x_of(x0), y_of(x0 * f), x_of(x1), y_of(x1 * f), f == 1 ? "#555" : "#aaa",
        f == 1 ? "none" : "5 4");
  }
  size_t colour = 0;
  double key_y = kTop + 14;
  for (const auto& [origin, summary] : e.origins) {
    const char* fill = kColours[colour++ % std::size(kColours)];
    for (size_t i = 0; i < runs.size(); ++i)
      if (runs[i].scored && runs[i].step_s && runs[i].origin() == origin)
        out += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.65\"/>\n",
            x_of(*runs[i].step_s), y_of(e.rows[i].step_s), fill);
    const std::string shown = origin.substr(0, origin.find("/NeurIPS"));
    out += fmt::format(
        "<circle cx=\"652\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/><text x=\"664\" y=\"{:.1f}\" "
        "fill=\"#222\">{}</text>\n<text x=\"664\" y=\"{:.1f}\" fill=\"#666\" "
        "font-size=\"12\">{} runs, mean error {}</text>\n",
        key_y - 4, fill, key_y, shown, key_y + 16, summary.n, percent(summary.mape));
    key_y += 44;
  }
  out += fmt::format(
      "<text x=\"{}\" y=\"645\" text-anchor=\"middle\" fill=\"#222\">measured</text>\n"
      "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\" "
      "fill=\"#222\">predicted</text>\n"
      "<text x=\"652\" y=\"{:.1f}\" fill=\"#666\" font-size=\"12\">dashed: 15 % "
      "off</text>\n</svg>\n",
      kLeft + kSide / 2, kTop + kSide / 2, key_y + 6);
  return out;
}

}  // namespace sextant
