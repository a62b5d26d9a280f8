#pragma once
#include "schedule/schedule.h"

namespace sextant {

// Throws Error(Config) unless both ends of every channel agree: outputs are used in the order in
// which they are made, and received in the order in which they are sent. The schedule has to be
// complete.
void check_channels(const Schedule& schedule);

}  // namespace sextant
