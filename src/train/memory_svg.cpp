#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/parse.h"
#include "sim/svg.h"
#include "train/layout_text.h"
#include "train/memory_curve.h"

namespace sextant {
namespace {

constexpr size_t kMostPanels = 12;
constexpr double kPanelName = 20, kStrip = 15, kArea = 118, kPanelGap = 20;  // heights in pixels
constexpr double kPanelHeight = kPanelName + kStrip + 2 + kArea + kPanelGap;
constexpr double kRoom = 1.06;     // of the plot, above the highest value
constexpr double kFarAbove = 1.5;  // a limit so much larger than all peaks is not drawn
constexpr double kColumn = 0.5;    // pixels, of which only the largest need is drawn

struct Layer {
  Category category;
  const char* colour;
};
// From bottom to top; what changes least is at the bottom.
constexpr Layer kLayers[] = {
    {Category::Weights, "#2f6fd0"},       {Category::Optimizer, "#8f4bbd"},
    {Category::Gradients, "#1a7f4b"},     {Category::Workspace, "#8c959f"},
    {Category::Communication, "#c2407a"}, {Category::Activations, "#dd9a3c"}};

struct PassLook {
  const char* pass;
  const char* letter;
  const char* colour;
};
constexpr PassLook kPasses[] = {
    {"forward", "F", "#7aa5e4"},         {"recompute", "R", "#e6bf86"},
    {"backward", "B", "#6bb48d"},        {"backward input", "B", "#6bb48d"},
    {"backward weight", "W", "#d99a5b"}, {"update", "update", "#b48dd0"}};

const PassLook& look_of(const std::string& pass) {
  for (const PassLook& look : kPasses)
    if (pass == look.pass) return look;
  return kPasses[0];
}

std::string box(double x, double y, double width, double height, const std::string& look) {
  return fmt::format("<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.6g}\" height=\"{:.6g}\" {}/>\n", x,
                     y, width, height, look);
}

std::string line(double x1, double x2, double y, const char* look) {
  return fmt::format("<line x1=\"{:.6g}\" y1=\"{:.6g}\" x2=\"{:.6g}\" y2=\"{:.6g}\" {}/>\n", x1, y,
                     x2, y, look);
}

// "rank 3", "ranks 0-7", "ranks 0, 2, ... (16 ranks)".
std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size()))
    return fmt::format("ranks {}-{}", ranks.front(), ranks.back());
  return fmt::format("ranks {}, {}, … ({} ranks)", ranks[0], ranks[1], ranks.size());
}

// The largest need of each column of pixels, so that no peak is lost.
std::vector<MemoryAt> thinned(const std::vector<MemoryAt>& points) {
  std::vector<MemoryAt> out;
  const auto column = [](double time) { return std::floor(time * kPlot / kColumn); };
  for (const MemoryAt& point : points) {
    if (!out.empty() && column(point.time) == column(out.back().time)) {
      if (point.total() > out.back().total()) out.back().bytes = point.bytes;
    } else if (out.empty() || point.bytes != out.back().bytes) {
      out.push_back(point);
    }
  }
  // What is alive at the end of a column goes on after it.
  std::vector<MemoryAt> whole;
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    whole.push_back(out[i]);
    while (next < points.size() && column(points[next].time) <= column(out[i].time)) ++next;
    const MemoryAt& last = points[next - 1];
    const double end = (column(out[i].time) + 1) * kColumn / kPlot;
    if (last.bytes != out[i].bytes && (i + 1 == out.size() || out[i + 1].time > end))
      whole.push_back({std::min(end, 1.0), last.bytes});
  }
  return whole;
}

class Drawing {
 public:
  Drawing(std::vector<const MemoryCurve*> curves, size_t all, const Config& config, int64_t limit)
      : curves_(std::move(curves)), all_(all), config_(config), limit_(limit) {
    for (const MemoryCurve* curve : curves_)
      for (const MemoryAt& point : curve->points) top_ = std::max(top_, double(point.total()));
    has_line_ = limit > 0 && static_cast<double>(limit) <= kFarAbove * top_;
    if (has_line_) top_ = std::max(top_, static_cast<double>(limit));
    top_ *= kRoom;
  }

  std::string draw() const {
    const double first = kMargin + kTitle + 2 * kLegend;
    const double bottom = first + static_cast<double>(curves_.size()) * kPanelHeight;
    std::string out = svg_header(title(), bottom + kAxis + kMargin) + legend();
    for (size_t i = 0; i < curves_.size(); ++i)
      out += panel(*curves_[i], first + static_cast<double>(i) * kPanelHeight);
    const double y = bottom - kPanelGap + 15;
    for (int percent = 0; percent <= 100; percent += 20)
      out += svg_text(kLeft + percent * kPlot / 100, y, "middle", fmt::format("{} %", percent));
    out += svg_text(kLeft + kPlot, y + 17, "right",
                    "one step; bytes are exact, times simulated at typical rates");
    return out + "</svg>\n";
  }

 private:
  std::string title() const {
    const ModelConfig& model = config_.model;
    std::string text = fmt::format("Memory over one step: {}, {}",
                                   model.preset.empty() ? name_of(model.family) : model.preset,
                                   layout_text(config_));
    if (curves_.size() < all_)
      text += fmt::format("; {} of {} kinds of ranks, those with the largest peaks", curves_.size(),
                          all_);
    return text;
  }

  bool has_bytes(Category category) const {
    return std::ranges::any_of(curves_, [&](const MemoryCurve* curve) {
      return curve->memory.categories()[static_cast<size_t>(category)] > 0;
    });
  }

  bool has_pass(const PassLook& look) const {
    return std::ranges::any_of(curves_, [&](const MemoryCurve* curve) {
      return std::ranges::any_of(curve->phases,
                                 [&](const StepPhase& phase) { return phase.pass == look.pass; });
    });
  }

  std::string legend() const {
    std::string out;
    const auto entry = [&](double& x, double y, const char* colour, const std::string& words) {
      out += box(x, y, 14, 14, fmt::format("fill=\"{}\"", colour));
      out += svg_text(x + 19, y + 11, "name", words);
      x += 40 + 6.6 * static_cast<double>(words.size());
    };
    double x = kLeft, y = kMargin + kTitle + 2;
    for (const Layer& layer : kLayers)
      if (has_bytes(layer.category))
        entry(x, y, layer.colour, std::string(name_of(layer.category)));
    if (limit_ > 0) {
      const std::string words =
          fmt::format("limit {}{}", format_bytes(limit_), has_line_ ? "" : ", far above");
      out += line(x, x + 16, y + 7, kLimitLook) + svg_text(x + 21, y + 11, "name", words);
    }
    x = kLeft;
    y += kLegend - 4;
    for (const PassLook& look : kPasses)
      if (has_pass(look))
        entry(x, y, look.colour,
              look.letter == std::string("update")
                  ? "update"
                  : fmt::format("{} {}", look.letter, plain(look.pass)));
    return out;
  }

  static std::string plain(const std::string& pass) {
    if (pass == "backward input") return "input gradient";
    return pass == "backward weight" ? "weight gradient" : pass;
  }

  double height_of(double bytes, double bottom) const { return bottom - kArea * bytes / top_; }

  std::string panel(const MemoryCurve& curve, double y) const {
    const MemoryAt& peak = *std::ranges::max_element(curve.points, {}, &MemoryAt::total);
    std::string out =
        svg_text(kLeft, y + kPanelName - 7, "name",
                 fmt::format("{}: peak of the step {}, reserved {}", ranks_text(curve.ranks),
                             format_bytes(peak.total()), format_bytes(curve.memory.reserved)));
    out += strip(curve, y + kPanelName);
    const double bottom = y + kPanelName + kStrip + 2 + kArea;
    out += box(kLeft, bottom - kArea, kPlot, kArea, "class=\"idle\"");
    const std::vector<MemoryAt> points = thinned(curve.points);
    for (size_t layers = std::size(kLayers); layers > 0; --layers)
      out += area(points, layers, bottom);
    out += ticks(bottom);
    if (has_line_)
      out += line(kLeft, kLeft + kPlot, height_of(static_cast<double>(limit_), bottom), kLimitLook);
    out += fmt::format("<circle cx=\"{:.6g}\" cy=\"{:.6g}\" r=\"3\" fill=\"#b3261e\"/>\n",
                       kLeft + peak.time * kPlot, height_of(double(peak.total()), bottom));
    return out + svg_text(kLeft + kPlot + 8, height_of(double(peak.total()), bottom) + 4, "name",
                          format_bytes(peak.total()));
  }

  // Passes over time, named where they are wide enough.
  std::string strip(const MemoryCurve& curve, double y) const {
    std::string out = box(kLeft, y, kPlot, kStrip, "class=\"idle\"");
    for (const StepPhase& phase : curve.phases) {
      const PassLook& look = look_of(phase.pass);
      const double x = kLeft + phase.begin * kPlot, width = (phase.end - phase.begin) * kPlot;
      if (width < 0.2) continue;
      out += box(x, y, width > 3 ? width - 0.6 : width, kStrip,
                 fmt::format("fill=\"{}\"", look.colour));
      const std::string words =
          phase.micro < 0 ? look.letter : fmt::format("{}{}", look.letter, phase.micro);
      if (width > 6.5 * static_cast<double>(words.size()) + 3)
        out += svg_text(x + width / 2, y + kStrip / 2 + 4, "ondark", words);
    }
    return out;
  }

  // The lowest `layers` together, as a step curve.
  std::string area(const std::vector<MemoryAt>& points, size_t layers, double bottom) const {
    std::string path = fmt::format("M{:.6g} {:.6g}", kLeft, bottom);
    double before = -1;
    for (const MemoryAt& point : points) {
      int64_t sum = 0;
      for (size_t i = 0; i < layers; ++i)
        sum += point.bytes[static_cast<size_t>(kLayers[i].category)];
      const double y = height_of(static_cast<double>(sum), bottom);
      if (std::abs(y - before) < 0.05) continue;
      path += fmt::format("H{:.2f}V{:.2f}", kLeft + point.time * kPlot, y);
      before = y;
    }
    path += fmt::format("H{:.6g}V{:.6g}Z", kLeft + kPlot, bottom);
    return fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", kLayers[layers - 1].colour, path);
  }

  // About four, at powers of two times 1 or 3.
  std::string ticks(double bottom) const {
    double step = 1;
    while (top_ / step > 4) step *= 2;
    if (top_ / step < 2.5) step *= 0.75;
    std::string out;
    for (double bytes = 0; bytes <= top_ / kRoom; bytes += step) {
      const double y = height_of(bytes, bottom);
      out += line(kLeft - 4, kLeft, y, "class=\"grid\"");
      if (bytes > 0) out += line(kLeft, kLeft + kPlot, y, "class=\"grid\"");
      out += svg_text(kLeft - 7, y + 4, "right",
                      bytes > 0 ? format_bytes(static_cast<int64_t>(bytes)) : "0");
    }
    return out;
  }

  static constexpr const char* kLimitLook =
      "stroke=\"#b3261e\" stroke-width=\"1.6\" stroke-dasharray=\"7 4\"";

  std::vector<const MemoryCurve*> curves_;
  size_t all_;
  const Config& config_;
  int64_t limit_;
  double top_ = 1;
  bool has_line_ = false;
};

}  // namespace

std::string memory_svg(const std::vector<MemoryCurve>& curves, const Config& config,
                       int64_t memory_limit) {
  std::vector<const MemoryCurve*> shown;
  for (const MemoryCurve& curve : curves) shown.push_back(&curve);
  if (shown.size() > kMostPanels) {
    std::ranges::stable_sort(shown, std::greater<>(),
                             [](const MemoryCurve* curve) { return curve->memory.peak; });
    shown.resize(kMostPanels);
    std::ranges::sort(shown);  // by kind again
  }
  return Drawing(std::move(shown), curves.size(), config, memory_limit).draw();
}

}  // namespace sextant
