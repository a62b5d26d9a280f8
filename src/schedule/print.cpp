#include "schedule/print.h"

#include <cctype>

#include "schedule/dependencies.h"

namespace sextant {

std::string to_string(const Schedule& schedule, const Action& action) {
  char letter = kind_name(action.kind == Kind::I ? Kind::B : action.kind)[0];
  const int chunk = schedule.chunk_of(action.stage, action.micro);
  std::string suffix;
  if (schedule.placement == Placement::V) {
    if (chunk == 1) letter = static_cast<char>(std::tolower(letter));
  } else if (schedule.chunks() > 1) {
    suffix = "." + std::to_string(chunk);
  }
  return letter + std::to_string(action.micro) + suffix;
}

std::string kind_name(Kind kind) {
  static constexpr const char* kNames[kKinds] = {"F",     "B",     "I",     "W",
                                                 "SendF", "RecvF", "SendB", "RecvB"};
  return kNames[static_cast<int>(kind)];
}

std::string placement_name(Placement placement) {
  static constexpr const char* kNames[] = {"loop", "v", "dual"};
  return kNames[static_cast<int>(placement)];
}

std::string describe(const Action& action) {
  return kind_name(action.kind) + " of stage " + std::to_string(action.stage) + ", micro " +
         std::to_string(action.micro);
}

std::vector<std::string> order(const Schedule& schedule) {
  std::vector<std::string> lines;
  for (const std::vector<Action>& todo : schedule.ranks) {
    std::string line;
    for (const Action& action : todo)
      if (is_compute(action.kind)) line += (line.empty() ? "" : " ") + to_string(schedule, action);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string to_string(const Schedule& schedule) {
  std::string out;
  for (const std::string& line : order(schedule)) out += line + "\n";
  return out;
}

}  // namespace sextant
