#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "sim/picture.h"

namespace sextant {
namespace {

constexpr size_t kMostActions = 100'000;

// Sizes in pixels.
constexpr double kMargin = 14, kName = 56, kPlot = 1020, kSide = 72;  // from left to right
constexpr double kTitle = 24, kLegend = 26, kHeading = 28, kAxis = 26;
constexpr double kRow = 26, kRowGap = 5, kCurve = 30, kCurveGap = 8;
constexpr double kLeft = kMargin + kName, kWidth = kLeft + kPlot + kSide + kMargin;

struct Colour {
  int red, green, blue;
};
// By kind: F, B, I, W. White numbers stand on all of them; lighter ones, for later chunks, take
// dark numbers.
constexpr std::array<Colour, 4> kColours = {
    {{47, 111, 208}, {26, 127, 75}, {26, 127, 75}, {196, 106, 12}}};

struct Tone {
  std::string fill;
  bool is_light = false;
};

Tone tone_of(Kind kind, int chunk, int chunks) {
  const double light = chunks > 1 ? 0.55 * chunk / (chunks - 1) : 0;
  const Colour& base = kColours[static_cast<size_t>(kind)];
  const auto mix = [&](int part) {
    return static_cast<int>(std::lround(part + (255 - part) * light));
  };
  return {fmt::format("#{:02x}{:02x}{:02x}", mix(base.red), mix(base.green), mix(base.blue)),
          light > 0.4};
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string counted(int count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string text_at(double x, double y, const char* kind, const std::string& words) {
  return fmt::format("<text class=\"{}\" x=\"{:.6g}\" y=\"{:.6g}\">{}</text>\n", kind, x, y,
                     escaped(words));
}

std::string rect_at(double x, double y, double width, double height, const std::string& look) {
  return fmt::format("<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.6g}\" height=\"{:.6g}\" {}/>\n", x,
                     y, width, height, look);
}

// 1, 2 or 5 times a power of ten, so that about ten ticks fill the axis.
double tick_of(double length) {
  const double power = std::pow(10, std::floor(std::log10(length / 10)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (length / (power * factor) <= 15) return power * factor;
  return 10 * power;
}

class Drawing {
 public:
  Drawing(const Schedule& schedule, const Timeline& timeline, std::span<const StageCost> costs);
  std::string draw() const;

 private:
  double x_of(double time) const { return kLeft + (time - begin_) / length_ * kPlot; }
  double bottom() const { return curves_top_ + ranks_ * (kCurve + kCurveGap); }
  std::string header() const;
  std::string legend() const;
  std::string axis() const;
  std::string row(size_t rank, double y) const;
  std::string cell(const TimedAction& timed, double y, double height) const;
  std::string curve(size_t rank, double y) const;

  const Schedule& schedule_;
  const Timeline& timeline_;
  std::span<const StageCost> costs_;
  Figures figures_;
  std::vector<std::vector<MemoryPoint>> memory_;
  double begin_ = 0, length_ = 0, most_held_ = 0, ranks_ = 0;
  double rows_top_ = 0, curves_top_ = 0;
};

Drawing::Drawing(const Schedule& schedule, const Timeline& timeline,
                 std::span<const StageCost> costs)
    : schedule_(schedule), timeline_(timeline), costs_(costs), figures_(measure(timeline)) {
  begin_ = timeline.ranks[0][0].start;
  for (const std::vector<TimedAction>& rank : timeline.ranks) {
    begin_ = std::min(begin_, rank[0].start);
    memory_.push_back(memory_curve(rank, costs));
    for (const MemoryPoint& point : memory_.back()) most_held_ = std::max(most_held_, point.held);
  }
  length_ = figures_.makespan;
  SXT_CHECK(length_ > 0, Usage, "svg: a timeline of no length cannot be drawn");
  ranks_ = static_cast<double>(timeline.ranks.size());
  rows_top_ = kMargin + kTitle + kLegend;
  curves_top_ = rows_top_ + ranks_ * (kRow + kRowGap) + kHeading;
}

std::string Drawing::header() const {
  const std::string title = fmt::format("{}: {}, {}, makespan {:.6g}, bubble {:.1f} %",
                                        schedule_.name, counted(schedule_.size(), "rank", "ranks"),
                                        counted(schedule_.micros, "micro-batch", "micro-batches"),
                                        figures_.makespan, 100 * figures_.bubble_fraction);
  const double height = bottom() + kAxis + kMargin;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.6g}\" height=\"{1:.6g}\" "
             "viewBox=\"0 0 {0:.6g} {1:.6g}\" role=\"img\" aria-label=\"{2}\">\n",
             kWidth, height, escaped(title)) +
         "<style>\n"
         "text { font: 12px ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; "
         "fill: #57606a; }\n"
         ".title { font-size: 15px; font-weight: 600; fill: #24292f; }\n"
         ".right { text-anchor: end; } .middle { text-anchor: middle; }\n"
         ".on { fill: #ffffff; text-anchor: middle; font-size: 11px; }\n"
         ".ondark { fill: #1b2733; text-anchor: middle; font-size: 11px; }\n"
         ".idle { fill: #8c959f; fill-opacity: 0.16; }\n"
         ".grid { stroke: #8c959f; stroke-opacity: 0.35; stroke-width: 1; }\n"
         ".held { fill: #8f4bbd; fill-opacity: 0.3; stroke: #8f4bbd; stroke-width: 1.2; }\n"
         "@media (prefers-color-scheme: dark) { text { fill: #9da7b3; } .title { fill: #e6edf3; } "
         ".on { fill: #ffffff; } .ondark { fill: #1b2733; } }\n"
         "</style>\n" +
         text_at(kMargin, kMargin + 14, "title", title);
}

std::string Drawing::legend() const {
  std::array<bool, 4> is_used = {};
  for (const std::vector<TimedAction>& rank : timeline_.ranks)
    for (const TimedAction& timed : rank) is_used[static_cast<size_t>(timed.action.kind)] = true;
  const bool has_both = is_used[1] && is_used[2];
  const std::array<std::string, 4> words = {
      "F forward", has_both ? std::string() : "B backward, whole",
      has_both ? "B backward, whole or its input half" : "B input half of backward",
      "W weight half"};
  const int chunks = schedule_.chunks();
  const double y = kMargin + kTitle + 2;
  double x = kLeft;
  std::string out;
  for (const size_t kind : {0, 1, 2, 3}) {
    if (!is_used[kind] || words[kind].empty()) continue;
    for (int chunk = 0; chunk < chunks; ++chunk, x += 15)
      out +=
          rect_at(x, y, 14, 14,
                  fmt::format("fill=\"{}\"", tone_of(static_cast<Kind>(kind), chunk, chunks).fill));
    out += text_at(x + 5, y + 11, "name", words[kind]);
    x += 26 + 6.6 * static_cast<double>(words[kind].size());
  }
  if (chunks > 1)
    out += text_at(x, y + 11, "name",
                   schedule_.placement == Placement::Dual
                       ? "(lighter: the second half of the micro-batches)"
                       : "(lighter: later chunks)");
  return out;
}

std::string Drawing::axis() const {
  std::string out;
  const double tick = tick_of(length_), end = bottom();
  for (int i = 0; i * tick <= length_ * (1 + 1e-9); ++i) {
    const double x = x_of(begin_ + i * tick);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.6g}\" y1=\"{1:.6g}\" x2=\"{0:.6g}\" y2=\"{2:.6g}\"/>\n", x,
        rows_top_ - 2, end + 3);
    out += text_at(x, end + 17, "middle", fmt::format("{:.6g}", i * tick));
  }
  return out + text_at(kWidth - kMargin, end + 17, "right", "time");
}

std::string Drawing::cell(const TimedAction& timed, double y, double height) const {
  const Action& action = timed.action;
  const double x = x_of(timed.start), width = x_of(timed.end) - x;
  const int chunks = schedule_.chunks();
  const Tone tone = tone_of(action.kind, schedule_.chunk_of(action.stage, action.micro), chunks);
  std::string out = rect_at(x, y, std::max(width - 0.8, 0.4 * width), height - 0.8,
                            fmt::format("fill=\"{}\"", tone.fill));
  const std::string number = std::to_string(action.micro);
  if (width >= 6.5 * static_cast<double>(number.size()) + 3)
    out +=
        text_at(x + width / 2 - 0.4, y + height / 2 + 3.6, tone.is_light ? "ondark" : "on", number);
  return out;
}

std::string Drawing::row(size_t rank, double y) const {
  const std::vector<TimedAction>& did = timeline_.ranks[rank];
  std::string out = text_at(kLeft - 8, y + kRow / 2 + 4, "right", fmt::format("rank {}", rank));
  out += rect_at(kLeft, y, kPlot, kRow - 0.8, "class=\"idle\"");
  for (size_t i = 0; i < did.size(); ++i) {
    // The halves of an overlapped block lie above each other.
    const bool is_block = i + 1 < did.size() && did[i].action.joined &&
                          did[i].start == did[i + 1].start && did[i].end > did[i].start;
    if (is_block) {
      out += cell(did[i], y, kRow / 2) + cell(did[i + 1], y + kRow / 2, kRow / 2);
      ++i;
    } else {
      out += cell(did[i], y, kRow);
    }
  }
  return out + text_at(kLeft + kPlot + 8, y + kRow / 2 + 4, "name",
                       fmt::format("idle {:.4g}", figures_.idle[rank]));
}

// Steps, as memory is taken and freed at once; what is freed and taken at the same time is no step.
std::string Drawing::curve(size_t rank, double y) const {
  const auto height_of = [&](double held) { return y + kCurve * (1 - held / most_held_); };
  double peak = 0;
  std::string path = fmt::format("M{:.6g} {:.6g}", kLeft, y + kCurve);
  const std::vector<MemoryPoint>& points = memory_[rank];
  for (size_t i = 0; i < points.size(); ++i) {
    peak = std::max(peak, points[i].held);
    if (i + 1 == points.size() || points[i + 1].time > points[i].time)
      path += fmt::format(" H{:.6g} V{:.6g}", x_of(points[i].time), height_of(points[i].held));
  }
  path += fmt::format(" V{:.6g} Z", y + kCurve);
  return text_at(kLeft - 8, y + kCurve / 2 + 4, "right", fmt::format("rank {}", rank)) +
         fmt::format("<path class=\"held\" d=\"{}\"/>\n", path) +
         text_at(kLeft + kPlot + 8, y + kCurve / 2 + 4, "name", fmt::format("peak {:.6g}", peak));
}

std::string Drawing::draw() const {
  std::string out = header() + legend() + axis();
  for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank)
    out += row(rank, rows_top_ + static_cast<double>(rank) * (kRow + kRowGap));
  const bool is_count =
      std::ranges::all_of(costs_, [](const StageCost& cost) { return cost.held == 1; });
  out +=
      text_at(kLeft, curves_top_ - 9, "name",
              is_count ? "Operations held: from the start of a forward to the end of its backward"
                       : "Memory held");
  for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank)
    out += curve(rank, curves_top_ + static_cast<double>(rank) * (kCurve + kCurveGap));
  return out + "</svg>\n";
}

}  // namespace

std::string timeline_svg(const Schedule& schedule, const Timeline& timeline,
                         std::span<const StageCost> costs) {
  size_t actions = 0;
  for (const std::vector<TimedAction>& rank : timeline.ranks) actions += rank.size();
  SXT_CHECK(actions <= kMostActions, Usage, "svg: ", actions, " actions, a picture shows at most ",
            kMostActions, "; take fewer micro-batches or --trace");
  return Drawing(schedule, timeline, costs).draw();
}

}  // namespace sextant
