#include "plan/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

constexpr size_t kMostValues = 64;
constexpr int64_t kMostValue = 1 << 24;

int64_t parse_value(const std::string& text, const std::string& whole) {
  const std::optional<int64_t> value = parse_int(text);
  SXT_CHECK(value && *value >= 1 && *value <= kMostValue, Usage, "--sweep ", whole, ": '", text,
            "' is no whole number from 1 to ", kMostValue);
  return *value;
}

// Why a search found nothing: its most frequent refusal.
std::string most_frequent(const std::map<std::string, int64_t>& reasons) {
  const auto most =
      std::ranges::max_element(reasons, {}, [](const auto& reason) { return reason.second; });
  return most == reasons.end() ? "no layout divides GPUs and batch" : most->first;
}

}  // namespace

const char* name_of(SweptAxis axis) {
  return axis == SweptAxis::Gpus ? "gpus" : axis == SweptAxis::Batch ? "batch" : "micro";
}

SweepRequest parse_sweep(const std::string& text) {
  SweepRequest out;
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  bool known = false;
  for (const SweptAxis axis : {SweptAxis::Gpus, SweptAxis::Batch, SweptAxis::Micro})
    if (name == name_of(axis)) {
      out.axis = axis;
      known = true;
    }
  SXT_CHECK(known && equals != std::string::npos, Usage, "--sweep ", text,
            ": takes gpus=, batch= or micro= with values, such as gpus=64..1024 or micro=1,2,4");
  const std::string values = text.substr(equals + 1);
  if (const size_t dots = values.find(".."); dots != std::string::npos) {
    const int64_t first = parse_value(values.substr(0, dots), text);
    const int64_t last = parse_value(values.substr(dots + 2), text);
    SXT_CHECK(first <= last, Usage, "--sweep ", text, ": ends at ", last, ", before ", first);
    for (int64_t value = first; value <= last; value *= 2) out.values.push_back(value);
  } else {
    for (const std::string& part : split(values, ','))
      out.values.push_back(parse_value(part, text));
    std::ranges::sort(out.values);
    const auto again = std::ranges::unique(out.values);
    out.values.erase(again.begin(), again.end());
  }
  SXT_CHECK(out.values.size() <= kMostValues, Usage, "--sweep ", text, ": has ", out.values.size(),
            " values; at most ", kMostValues, " are searched");
  return out;
}

std::vector<SweepPoint> sweep_plans(const PlanRequest& request, const SweepRequest& sweep,
                                    const Constants& constants) {
  SXT_CHECK(sweep.axis != SweptAxis::Micro || !request.fixed.micro, Usage,
            "--sweep micro and --fix micro=", request.fixed.micro.value_or(0),
            " set the same; leave one out");
  std::vector<SweepPoint> out;
  for (const int64_t value : sweep.values) {
    PlanRequest asked = request;
    asked.plans = 1;
    if (sweep.axis == SweptAxis::Gpus) asked.gpus = value;
    if (sweep.axis == SweptAxis::Batch) asked.batch = value;
    if (sweep.axis == SweptAxis::Micro) asked.fixed.micro = value;
    SweepPoint point;
    point.value = value;
    point.gpus = asked.gpus;
    try {
      const PlanResult found = search_plans(asked, constants);
      if (found.plans.empty()) {
        point.reason = most_frequent(found.reasons);
      } else {
        point.plan = found.plans[0];
        point.warnings = found.warnings;
        const StepTerms& t = point.plan->time;
        point.communication = t.tp + t.cp + t.ep + t.data;
      }
    } catch (const Error& error) {
      point.reason = error.what();
    }
    out.push_back(point);
  }
  return out;
}

std::string sweep_picture(const SweepRequest& sweep, const std::vector<SweepPoint>& points,
                          const std::string& title) {
  constexpr double kWidth = 560, kHeight = 260, kLeft = 70, kTop = 50;
  const double from = std::log2(static_cast<double>(sweep.values.front()));
  const double to = std::max(from + 1, std::log2(static_cast<double>(sweep.values.back())));
  double slowest = 0;
  for (const SweepPoint& point : points)
    if (point.plan) slowest = std::max(slowest, point.plan->time.total());
  const auto x_of = [&](int64_t value) {
    return kLeft + (std::log2(static_cast<double>(value)) - from) / (to - from) * kWidth;
  };
  const auto y_of = [&](double share) { return kTop + kHeight * (1 - share); };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 390\" width=\"720\" "
      "height=\"390\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"720\" height=\"390\" fill=\"#ffffff\"/>\n"
      "<text x=\"{}\" y=\"24\" font-size=\"16\" fill=\"#222\">{}</text>\n",
      kLeft, title);
  for (int line = 0; line <= 4; ++line) {
    const double share = line / 4.0;
    out += fmt::format(
        "<path d=\"M{0} {1:.1f}H{2}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\" fill=\"#1f77b4\">{5:.0f} %</text>\n"
        "<text x=\"{6}\" y=\"{4:.1f}\" fill=\"#d95f02\">{7:.3g} s</text>\n",
        kLeft, y_of(share), kLeft + kWidth, kLeft - 8, y_of(share) + 4, 100 * share,
        kLeft + kWidth + 8, slowest * share);
  }
  std::string mfu, step;
  for (const SweepPoint& point : points) {
    const double x = x_of(point.value);
    out +=
        fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" fill=\"#444\">{}</text>\n",
                    x, kTop + kHeight + 18, point.value);
    if (!point.plan) {
      out += fmt::format(
          "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" fill=\"#999\">none</text>\n", x,
          kTop + kHeight - 6);
      continue;
    }
    const double y = y_of(std::min(1.0, point.plan->mfu));
    const double y_step = y_of(point.plan->time.total() / slowest);
    mfu += fmt::format("{}{:.1f} {:.1f}", mfu.empty() ? "M" : "L", x, y);
    step += fmt::format("{}{:.1f} {:.1f}", step.empty() ? "M" : "L", x, y_step);
    out += fmt::format(
        "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"4\" fill=\"#1f77b4\"/>\n"
        "<circle cx=\"{0:.1f}\" cy=\"{2:.1f}\" r=\"4\" fill=\"#d95f02\"/>\n",
        x, y, y_step);
  }
  if (!mfu.empty())
    out += fmt::format(
        "<path d=\"{}\" stroke=\"#1f77b4\" stroke-width=\"2\" fill=\"none\"/>\n"
        "<path d=\"{}\" stroke=\"#d95f02\" stroke-width=\"2\" fill=\"none\"/>\n",
        mfu, step);
  return out + fmt::format(
                   "<text x=\"{}\" y=\"350\" text-anchor=\"middle\" fill=\"#222\">{}</text>\n"
                   "<text x=\"{}\" y=\"376\" fill=\"#1f77b4\">MFU (left)</text>\n"
                   "<text x=\"{}\" y=\"376\" fill=\"#d95f02\">step time (right)</text>\n</svg>\n",
                   kLeft + kWidth / 2, name_of(sweep.axis), kLeft, kLeft + 110);
}

}  // namespace sextant
