#pragma once
#include <span>
#include <string>

#include "schedule/schedule.h"
#include "sim/timeline.h"

namespace sextant {

// Shared parts of timeline drawings: one row per rank, actions coloured by kind, lighter by chunk,
// numbered by micro; time from left to right.

// Sizes in pixels.
inline constexpr double kMargin = 14, kName = 56, kPlot = 1020, kSide = 112;  // from left to right
inline constexpr double kTitle = 24, kLegend = 26, kHeading = 28, kAxis = 26;
inline constexpr double kRow = 26, kRowGap = 5;
inline constexpr double kLeft = kMargin + kName, kWidth = kLeft + kPlot + kSide + kMargin;

// The times that the plot shows, and its width in pixels.
struct TimeAxis {
  double begin = 0, length = 1, plot = kPlot;
  double x_of(double time) const { return kLeft + (time - begin) / length * plot; }
  double right() const { return kLeft + plot; }
  double width() const { return right() + kSide + kMargin; }  // of the picture
};

// kPlot, or more where most actions would be too narrow for their numbers.
double plot_width(std::span<const Timeline* const> timelines, int micros, double length);

// Error(Usage) when there are too many actions to draw.
void check_drawable(std::span<const Timeline* const> timelines);

std::string svg_text(double x, double y, const char* kind, const std::string& words);
std::string svg_header(const std::string& title, double height, double width = kWidth);
// What the colours of actions mean, and the shades behind them: idle time while the pipeline fills
// (before the first backward of a rank), while it drains (after its last forward), and between.
std::string svg_legend(const Schedule& schedule, const Timeline& timeline);
// Lines from `top` to `bottom` with times below them, counted from the start and multiplied by
// `scale`.
std::string svg_axis(const TimeAxis& axis, double top, double bottom, double scale,
                     const std::string& unit);
// What rank `rank` did, with its idle time shaded until `step_end`; `idle`, the part of it within
// the rank's own span, is written at the right.
std::string svg_row(const Schedule& schedule, const TimeAxis& axis, size_t rank,
                    const std::vector<TimedAction>& did, double step_end, double y,
                    const std::string& idle);

// "1 rank", "4 ranks".
std::string counted(int count, const char* one, const char* many);

}  // namespace sextant
