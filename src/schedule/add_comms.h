#pragma once
#include "schedule/schedule.h"

namespace sextant {

// Adds a send after each action whose output another rank needs, and a receive to that rank's list:
// SendF of stage s pairs with RecvF of stage s + 1, SendB of s with RecvB of s - 1. Stages on the
// same rank exchange no messages. Sends and receives of every channel (from rank, to rank, forward
// or backward) have the same order, so receives may block as long as sends do not. A joined block
// sends its outputs after the whole block. Error(Config) on deadlock, or when the schedule already
// has sends.
Schedule add_comms(const Schedule& schedule);

}  // namespace sextant
