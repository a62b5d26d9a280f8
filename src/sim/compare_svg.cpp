#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "sim/compare.h"
#include "sim/svg.h"

namespace sextant {
namespace {

constexpr double kMilliseconds = 1e3;  // per second

// A copy that starts at 0.
Timeline from_zero(Timeline timeline) {
  double begin = timeline.ranks[0][0].start;
  for (const std::vector<TimedAction>& rank : timeline.ranks)
    begin = std::min(begin, rank[0].start);
  for (std::vector<TimedAction>& rank : timeline.ranks)
    for (TimedAction& timed : rank) {
      timed.start -= begin;
      timed.end -= begin;
    }
  return timeline;
}

}  // namespace

std::string compare_svg(const Schedule& schedule, const Comparison& comparison) {
  const Timeline* const drawn[] = {&comparison.measured_step, &comparison.simulated_step};
  check_drawable(drawn);
  const Timeline measured = from_zero(*drawn[0]), simulated = from_zero(*drawn[1]);
  const Figures one = measure(measured), two = measure(simulated);
  TimeAxis axis{0, std::max(one.makespan, two.makespan)};
  SXT_CHECK(axis.length > 0, Usage, "svg: a timeline of no length cannot be drawn");
  axis.plot = plot_width(drawn, schedule.micros, axis.length);
  const double rows = static_cast<double>(measured.ranks.size()) * (kRow + kRowGap);
  const double top = kMargin + kTitle + kLegend + kHeading, second = top + rows + kHeading,
               bottom = second + rows;
  std::string out =
      svg_header(fmt::format("{}: {}, {}, measured above simulated", schedule.name,
                             counted(schedule.size(), "rank", "ranks"),
                             counted(schedule.micros, "micro-batch", "micro-batches")),
                 bottom + kAxis + kMargin, axis.width()) +
      svg_legend(schedule, measured) + svg_axis(axis, top - 2, bottom, kMilliseconds, "ms");
  // The figures are those of the table: medians over the steps, of which one is drawn.
  const auto band = [&](const Timeline& timeline, const Figures& figures,
                        const StepFigures& medians, double y, const std::string& heading) {
    out += svg_text(kLeft, y - 9, "name",
                    fmt::format("{}: {:.2f} ms, bubble {:.2f} %, utilisation {:.2f} %", heading,
                                kMilliseconds * medians.makespan, 100 * medians.bubble_fraction,
                                100 * medians.utilisation));
    for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
      out += svg_row(schedule, axis, rank, timeline.ranks[rank], figures.makespan,
                     y + static_cast<double>(rank) * (kRow + kRowGap),
                     fmt::format("{:.3g}", kMilliseconds * figures.idle[rank]));
  };
  band(measured, one, comparison.measured, top,
       comparison.steps - comparison.skipped > 1
           ? fmt::format("Measured, step {} of {}; medians", comparison.shown + 1, comparison.steps)
           : fmt::format("Measured, step {}", comparison.shown + 1));
  band(simulated, two, comparison.simulated, second,
       "Simulated with the measured times of operations");
  return out + "</svg>\n";
}

}  // namespace sextant
