#pragma once
#include "schedule/schedule.h"

namespace sextant {

// Throws Error(Config) unless both ends of every channel agree on the order: outputs are consumed
// in the order in which they are produced, and received in the order in which they are sent. The
// schedule must be complete.
void check_channels(const Schedule& schedule);

}  // namespace sextant
