#pragma once
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

std::string kind_name(Kind kind);                 // "F", "SendF"
std::string placement_name(Placement placement);  // "loop", "v", "dual"
// For messages: "F of stage 2, micro 3".
std::string describe(const Action& action);

// A compute action as text, such as "F0": kind and micro; an input gradient (I) is written B. The
// second chunk of a V is in lower case ("f0"); other ranks with several chunks append the chunk
// ("F0.1").
std::string to_string(const Schedule& schedule, const Action& action);
// The compute actions of each rank, "F0 F1 B0 W0".
std::vector<std::string> order(const Schedule& schedule);
// The same, one line per rank.
std::string to_string(const Schedule& schedule);

}  // namespace sextant
