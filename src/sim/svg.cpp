#include "sim/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace sextant {
namespace {

constexpr size_t kMostActions = 100'000;

struct Colour {
  int red, green, blue;
};
// By kind: F, B, I, W, with white numbers. Later chunks have lighter colours with dark numbers.
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

std::string rect_at(double x, double y, double width, double height, const std::string& look) {
  return fmt::format("<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.6g}\" height=\"{:.6g}\" {}/>\n", x,
                     y, width, height, look);
}

// 1, 2 or 5 times a power of ten, for about ten ticks.
double tick_of(double length) {
  const double power = std::pow(10, std::floor(std::log10(length / 10)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (length / (power * factor) <= 15) return power * factor;
  return 10 * power;
}

// Pixels that a number of this many digits needs.
double label_width(size_t digits) {
  return 6.5 * static_cast<double>(digits) + 3;
}

// Pixels that a text of the legend takes, a little more rather than less.
double text_width(std::string_view text) {
  double width = 0;
  for (const char c : text)
    width += (std::string_view("fijlrt ,:()").find(c) != std::string_view::npos) ? 4.9 : 7.4;
  return width;
}

std::string cell(const Schedule& schedule, const TimeAxis& axis, const TimedAction& timed, double y,
                 double height) {
  const Action& action = timed.action;
  const double x = axis.x_of(timed.start), width = axis.x_of(timed.end) - x;
  const int chunks = schedule.chunks();
  const Tone tone = tone_of(action.kind, schedule.chunk_of(action.stage, action.micro), chunks);
  std::string out = rect_at(x, y, std::max(width - 0.8, 0.4 * width), height - 0.8,
                            fmt::format("fill=\"{}\"", tone.fill));
  const std::string number = std::to_string(action.micro);
  if (width >= label_width(number.size()))
    out += svg_text(x + width / 2 - 0.4, y + height / 2 + 3.6, tone.is_light ? "ondark" : "on",
                    number);
  return out;
}

bool is_backward(Kind kind) {
  return kind == Kind::B || kind == Kind::I;
}

// Behind the actions of a rank, so that they show where it is idle.
std::string shades(const TimeAxis& axis, const std::vector<TimedAction>& did, double step_end,
                   double y) {
  double begin = axis.begin, end = step_end;
  for (size_t i = did.size(); i-- > 0;)
    if (is_backward(did[i].action.kind)) begin = did[i].start;
  for (const TimedAction& timed : did)
    if (timed.action.kind == Kind::F) end = timed.end;
  end = std::max(begin, end);
  const auto shade = [&](double from, double to, const char* kind) {
    return from < to ? rect_at(axis.x_of(from), y, axis.x_of(to) - axis.x_of(from), kRow - 0.8,
                               fmt::format("class=\"{}\"", kind))
                     : std::string();
  };
  return shade(axis.begin, begin, "fills") + shade(begin, end, "idle") +
         shade(end, step_end, "drains");
}

}  // namespace

double plot_width(std::span<const Timeline* const> timelines, int micros, double length) {
  constexpr double kMost = 8000;
  std::vector<double> durations;
  for (const Timeline* timeline : timelines)
    for (const std::vector<TimedAction>& rank : timeline->ranks)
      for (const TimedAction& timed : rank)
        if (timed.end > timed.start) durations.push_back(timed.end - timed.start);
  if (durations.empty()) return kPlot;
  const auto typical = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 8);
  std::nth_element(durations.begin(), typical, durations.end());
  const double wanted = label_width(std::to_string(micros - 1).size()) + 1;
  return std::clamp(wanted * length / *typical, kPlot, kMost);
}

void check_drawable(std::span<const Timeline* const> timelines) {
  size_t actions = 0;
  for (const Timeline* timeline : timelines)
    for (const std::vector<TimedAction>& rank : timeline->ranks) actions += rank.size();
  SXT_CHECK(actions <= kMostActions, Usage, "svg: ", actions, " actions, a picture shows at most ",
            kMostActions, "; take fewer micro-batches or --trace");
}

std::string counted(int count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string svg_text(double x, double y, const char* kind, const std::string& words) {
  return fmt::format("<text class=\"{}\" x=\"{:.6g}\" y=\"{:.6g}\">{}</text>\n", kind, x, y,
                     escaped(words));
}

std::string svg_header(const std::string& title, double height, double width) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.6g}\" height=\"{1:.6g}\" "
             "viewBox=\"0 0 {0:.6g} {1:.6g}\" role=\"img\" aria-label=\"{2}\">\n",
             width, height, escaped(title)) +
         "<style>\n"
         "text { font: 12px ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; "
         "fill: #57606a; }\n"
         ".title { font-size: 15px; font-weight: 600; fill: #24292f; }\n"
         ".right { text-anchor: end; } .middle { text-anchor: middle; }\n"
         ".on { fill: #ffffff; text-anchor: middle; font-size: 11px; }\n"
         ".ondark { fill: #1b2733; text-anchor: middle; font-size: 11px; }\n"
         ".idle { fill: #8c959f; fill-opacity: 0.16; }\n"
         ".fills { fill: #2f6fd0; fill-opacity: 0.2; } .drains { fill: #c99a06; fill-opacity: "
         "0.24; "
         "}\n"
         ".grid { stroke: #8c959f; stroke-opacity: 0.35; stroke-width: 1; }\n"
         ".held { fill: #8f4bbd; fill-opacity: 0.3; stroke: #8f4bbd; stroke-width: 1.2; }\n"
         "@media (prefers-color-scheme: dark) { text { fill: #9da7b3; } .title { fill: #e6edf3; } "
         ".on { fill: #ffffff; } .ondark { fill: #1b2733; } }\n"
         "</style>\n" +
         svg_text(kMargin, kMargin + 14, "title", title);
}

std::string svg_legend(const Schedule& schedule, const Timeline& timeline) {
  std::array<bool, 4> is_used = {};
  for (const std::vector<TimedAction>& rank : timeline.ranks)
    for (const TimedAction& timed : rank) is_used[static_cast<size_t>(timed.action.kind)] = true;
  const bool has_both = is_used[1] && is_used[2];
  const std::array<std::string, 4> words = {
      "F forward", has_both ? std::string() : "B backward, whole",
      has_both ? "B backward, or its input gradient" : "B input gradient", "W weight gradient"};
  const int chunks = schedule.chunks();
  const double y = kMargin + kTitle + 2;
  double x = kLeft;
  std::string out;
  for (const size_t kind : {0, 1, 2, 3}) {
    if (!is_used[kind] || words[kind].empty()) continue;
    for (int chunk = 0; chunk < chunks; ++chunk, x += 15)
      out +=
          rect_at(x, y, 14, 14,
                  fmt::format("fill=\"{}\"", tone_of(static_cast<Kind>(kind), chunk, chunks).fill));
    out += svg_text(x + 5, y + 11, "name", words[kind]);
    x += 20 + text_width(words[kind]);
  }
  if (chunks > 1) {
    const std::string lighter = schedule.placement == Placement::Dual
                                    ? "(lighter: the second half of the micro-batches)"
                                    : "(lighter: later chunks)";
    out += svg_text(x, y + 11, "name", lighter);
    x += 15 + text_width(lighter);
  }
  const std::pair<const char*, const char*> shades[] = {
      {"fills", "idle in fill"}, {"drains", "in drain"}, {"idle", "between"}};
  for (const auto& [kind, word] : shades) {
    out += rect_at(x, y, 14, 14, fmt::format("class=\"{}\"", kind)) +
           svg_text(x + 19, y + 11, "name", word);
    x += 34 + text_width(word);
  }
  return out;
}

std::string svg_axis(const TimeAxis& axis, double top, double bottom, double scale,
                     const std::string& unit) {
  std::string out;
  const double length = axis.length * scale, tick = tick_of(length);
  for (int i = 0; i * tick <= length * (1 + 1e-9); ++i) {
    const double x = axis.x_of(axis.begin + i * tick / scale);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.6g}\" y1=\"{1:.6g}\" x2=\"{0:.6g}\" y2=\"{2:.6g}\"/>\n", x,
        top, bottom + 3);
    out += svg_text(x, bottom + 17, "middle", fmt::format("{:.6g}", i * tick));
  }
  return out + svg_text(axis.width() - kMargin, bottom + 17, "right", unit);
}

std::string svg_row(const Schedule& schedule, const TimeAxis& axis, size_t rank,
                    const std::vector<TimedAction>& did, double step_end, double y,
                    const std::string& idle) {
  std::string out = svg_text(kLeft - 8, y + kRow / 2 + 4, "right", fmt::format("rank {}", rank));
  out += shades(axis, did, step_end, y);
  for (size_t i = 0; i < did.size(); ++i) {
    // The two actions of an overlapped block are drawn above each other.
    const bool is_block = i + 1 < did.size() && did[i].action.joined &&
                          did[i].start == did[i + 1].start && did[i].end > did[i].start;
    if (is_block) {
      out += cell(schedule, axis, did[i], y, kRow / 2) +
             cell(schedule, axis, did[i + 1], y + kRow / 2, kRow / 2);
      ++i;
    } else {
      out += cell(schedule, axis, did[i], y, kRow);
    }
  }
  return out + svg_text(axis.right() + 8, y + kRow / 2 + 4, "name", "idle " + idle + " in span");
}

}  // namespace sextant
