#pragma once
#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace sextant {

// A schedule as CSV: a header line, then one line of actions per rank. An action is written as
// stage, kind, micro; an F joined with the next backward shares its cell.
//   name=1f1b,stages=2,micros=2,placement=loop
//   0F0,0F1,0B0,0B1
//   1F0,1B0,1F1,1B1
// Kinds: F B I W SendF RecvF SendB RecvB.
std::string write_schedule_csv(const Schedule& schedule);

// Error(Data) on bad input; the message begins with `where` (a path) and names line and column (the
// cell). Spaces around cells, trailing empty cells and empty lines are skipped. It does not check
// that the schedule can run: see validate.h.
Schedule read_schedule_csv(std::string_view text, std::string_view where);

}  // namespace sextant
