#pragma once
#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace sextant {

// A schedule as a file: a line that says what it is, then one line of actions per rank. An action
// is stage, kind and micro; an F joined to the backward after it makes one cell with it.
//   name=1f1b,stages=2,micros=2,placement=loop
//   0F0,0F1,0B0,0B1
//   1F0,1B0,1F1,1B1
// Kinds: F B I W SendF RecvF SendB RecvB.
std::string write_schedule_csv(const Schedule& schedule);

// Error(Data) that begins with `where` (a path) and names line and column (the cell) of what cannot
// be read. Spaces around cells, empty cells and empty lines at the end are skipped. Whether the
// schedule can run is another question: see validate.h.
Schedule read_schedule_csv(std::string_view text, std::string_view where);

}  // namespace sextant
