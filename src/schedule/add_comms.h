#pragma once
#include "schedule/schedule.h"

namespace sextant {

// The schedule with a send after each action whose output another rank needs, and the receive in
// that rank's list: SendF of stage s goes to RecvF of stage s + 1, SendB of s to RecvB of s - 1.
// Nothing is added where both stages are on one rank.
// Both ends of every channel (from rank, to rank, forward or backward) list the same order, and no
// receive comes before its send in the order that the ranks were walked through: a rank may wait in
// each receive, as long as sends do not block. Outputs of a joined block leave after the block.
// Error(Config) when ranks wait for each other, or there are sends already.
Schedule add_comms(const Schedule& schedule);

}  // namespace sextant
