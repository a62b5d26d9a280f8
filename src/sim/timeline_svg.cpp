#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "sim/picture.h"
#include "sim/svg.h"

namespace sextant {
namespace {

constexpr double kCurve = 30, kCurveGap = 8;  // heights in pixels

class Drawing {
 public:
  Drawing(const Schedule& schedule, const Timeline& timeline, std::span<const StageCost> costs);
  std::string draw() const;

 private:
  double bottom() const { return curves_top_ + ranks_ * (kCurve + kCurveGap); }
  std::string title() const;
  std::string curve(size_t rank, double y) const;

  const Schedule& schedule_;
  const Timeline& timeline_;
  std::span<const StageCost> costs_;
  Figures figures_;
  std::vector<std::vector<MemoryPoint>> memory_;
  TimeAxis axis_;
  double most_held_ = 0, ranks_ = 0;
  double rows_top_ = 0, curves_top_ = 0;
};

Drawing::Drawing(const Schedule& schedule, const Timeline& timeline,
                 std::span<const StageCost> costs)
    : schedule_(schedule), timeline_(timeline), costs_(costs), figures_(measure(timeline)) {
  axis_.begin = timeline.ranks[0][0].start;
  for (const std::vector<TimedAction>& rank : timeline.ranks) {
    axis_.begin = std::min(axis_.begin, rank[0].start);
    memory_.push_back(memory_curve(rank, costs));
    for (const MemoryPoint& point : memory_.back()) most_held_ = std::max(most_held_, point.held);
  }
  axis_.length = figures_.makespan;
  SXT_CHECK(axis_.length > 0, Usage, "svg: a timeline of no length cannot be drawn");
  const Timeline* const drawn = &timeline;
  axis_.plot = plot_width(std::span(&drawn, 1), schedule.micros, axis_.length);
  ranks_ = static_cast<double>(timeline.ranks.size());
  rows_top_ = kMargin + kTitle + kLegend;
  curves_top_ = rows_top_ + ranks_ * (kRow + kRowGap) + kHeading;
}

std::string Drawing::title() const {
  return fmt::format("{}: {}, {}, makespan {:.6g}, bubble {:.1f} %, utilisation {:.1f} %",
                     schedule_.name, counted(schedule_.size(), "rank", "ranks"),
                     counted(schedule_.micros, "micro-batch", "micro-batches"), figures_.makespan,
                     100 * figures_.bubble_fraction, 100 * figures_.utilisation);
}

// A step curve; memory freed and allocated at the same time makes no step.
std::string Drawing::curve(size_t rank, double y) const {
  const auto height_of = [&](double held) { return y + kCurve * (1 - held / most_held_); };
  double peak = 0;
  std::string path = fmt::format("M{:.6g} {:.6g}", kLeft, y + kCurve);
  const std::vector<MemoryPoint>& points = memory_[rank];
  for (size_t i = 0; i < points.size(); ++i) {
    peak = std::max(peak, points[i].held);
    if (i + 1 == points.size() || points[i + 1].time > points[i].time)
      path +=
          fmt::format(" H{:.6g} V{:.6g}", axis_.x_of(points[i].time), height_of(points[i].held));
  }
  path += fmt::format(" V{:.6g} Z", y + kCurve);
  return svg_text(kLeft - 8, y + kCurve / 2 + 4, "right", fmt::format("rank {}", rank)) +
         fmt::format("<path class=\"held\" d=\"{}\"/>\n", path) +
         svg_text(axis_.right() + 8, y + kCurve / 2 + 4, "name", fmt::format("peak {:.6g}", peak));
}

std::string Drawing::draw() const {
  std::string out = svg_header(title(), bottom() + kAxis + kMargin, axis_.width()) +
                    svg_legend(schedule_, timeline_) +
                    svg_axis(axis_, rows_top_ - 2, bottom(), 1, "time");
  for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank)
    out += svg_row(schedule_, axis_, rank, timeline_.ranks[rank], axis_.begin + axis_.length,
                   rows_top_ + static_cast<double>(rank) * (kRow + kRowGap),
                   fmt::format("{:.4g}", figures_.idle[rank]));
  const bool is_count = std::ranges::all_of(
      costs_, [](const StageCost& cost) { return cost.activation_memory == 1; });
  out += svg_text(
      kLeft, curves_top_ - 9, "name",
      is_count ? "In-flight micro-batches: from the start of a forward to the end of its backward"
               : "Memory held");
  for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank)
    out += curve(rank, curves_top_ + static_cast<double>(rank) * (kCurve + kCurveGap));
  return out + "</svg>\n";
}

}  // namespace

std::string timeline_svg(const Schedule& schedule, const Timeline& timeline,
                         std::span<const StageCost> costs) {
  const Timeline* const drawn = &timeline;
  check_drawable(std::span(&drawn, 1));
  return Drawing(schedule, timeline, costs).draw();
}

}  // namespace sextant
