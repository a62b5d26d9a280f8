#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "schedule/print.h"
#include "sim/picture.h"

namespace sextant {
namespace {

constexpr double kFinest = 1e-4;  // of the total time: the smallest usable unit

// The largest unit of which every start and end is a multiple, or 0.
double unit_of(const Timeline& timeline, double begin, double length) {
  double unit = 0;
  const auto take = [&](double time) {
    double rest = time;
    while (rest > kFinest * length) {
      const double next = unit > 0 ? std::fmod(unit, rest) : 0;
      // A remainder just below the divisor counts as zero.
      unit = rest;
      rest = rest - next < kFinest * length ? 0 : next;
    }
    return unit >= kFinest * length;
  };
  for (const std::vector<TimedAction>& rank : timeline.ranks)
    for (const TimedAction& timed : rank)
      for (const double time : {timed.start - begin, timed.end - timed.start})
        if (time > 0 &&
            std::abs(std::remainder(time, unit > 0 ? unit : 2 * time)) > 1e-9 * length &&
            !take(time))
          return 0;
  return unit;
}

struct Named {
  std::string name;   // "F12", "F3&b0"
  std::string brief;  // "F", "F&b"
  double start = 0, end = 0;
};

// A rank's actions; an overlapped block counts as one.
std::vector<Named> named_actions(const Schedule& schedule, const std::vector<TimedAction>& rank) {
  std::vector<Named> all;
  for (size_t i = 0; i < rank.size(); ++i) {
    const std::string name = to_string(schedule, rank[i].action);
    all.push_back({name, name.substr(0, 1), rank[i].start, rank[i].end});
    if (i + 1 < rank.size() && rank[i].action.joined && rank[i + 1].start < rank[i].end) {
      const std::string other = to_string(schedule, rank[++i].action);
      all.back().name += "&" + other;
      all.back().brief += "&" + other.substr(0, 1);
    }
  }
  return all;
}

std::string padded(std::string text, size_t width, char with = ' ') {
  text.resize(width, with);
  return text;
}

std::string table_line(const std::vector<Named>& rank, double begin, double unit, size_t cell) {
  std::string line;
  const auto fill_to = [&](double time, const std::string& text) {
    const auto columns = static_cast<size_t>(std::llround((time - begin) / unit));
    while (line.size() < columns * cell) line += padded(text, cell);
  };
  for (const Named& action : rank) {
    fill_to(action.start, std::string(cell - 1, '.'));
    fill_to(action.end, action.name);
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

// A truncated number would be a wrong number.
const std::string& fitting(const Named& action, size_t width) {
  return action.name.size() <= width ? action.name : action.brief;
}

std::string dense_line(const std::vector<Named>& rank, double begin, double slice) {
  std::string line;
  const auto column_of = [&](double time) {
    return static_cast<size_t>(std::llround((time - begin) / slice));
  };
  for (const Named& action : rank) {
    line.resize(std::max(line.size(), column_of(action.start)), '.');
    const size_t end = column_of(action.end);
    if (end <= line.size()) continue;
    const size_t width = end - line.size();
    line += padded(fitting(action, width), width, '-');
  }
  return line;
}

}  // namespace

std::string timeline_text(const Schedule& schedule, const Timeline& timeline, int width) {
  double begin = timeline.ranks.at(0).at(0).start, end = begin;
  size_t longest = 0;
  std::vector<std::vector<Named>> ranks;
  for (const std::vector<TimedAction>& rank : timeline.ranks) {
    ranks.push_back(named_actions(schedule, rank));
    for (const Named& action : ranks.back()) {
      begin = std::min(begin, action.start);
      end = std::max(end, action.end);
      longest = std::max(longest, action.name.size());
    }
  }
  const size_t title = concat("rank ", schedule.size() - 1, "  ").size();
  const double room = std::max(width, 40) - static_cast<double>(title);
  const double unit = unit_of(timeline, begin, end - begin);
  const double units = unit > 0 ? std::round((end - begin) / unit) : 0;
  const bool is_table =
      unit > 0 && units * static_cast<double>(longest + 1) <= room + 1;  // no space at the end
  // An integral number of columns per unit, if they fit.
  const double slice = units > 0 && units <= room ? unit / std::floor(room / units)
                                                  : std::max(end - begin, 1e-300) / room;
  std::string out;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    out += padded(concat("rank ", rank), title) +
           (is_table ? table_line(ranks[rank], begin, unit, longest + 1)
                     : dense_line(ranks[rank], begin, slice)) +
           "\n";
  return out;
}

}  // namespace sextant
