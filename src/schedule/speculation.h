#pragma once
#include <cstddef>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// A rank may run the forwards at the start of a step before it knows whether the last weight update
// is valid (train/post_validation.h). This says which actions those are, and which messages stay
// unmatched when they are discarded.

// Index of the first backward action, or of the forward joined with it.
size_t first_backward(const std::vector<Action>& actions);

// A channel delivers in order, so before a rank restarts the step both its ends must have sent and
// received equally many messages. Ranks stop at different messages of a channel:
struct UnmatchedMessages {
  std::vector<Action> to_send;     // other ranks posted these receives; this rank has not sent yet
  std::vector<Action> to_receive;  // other ranks sent these; this rank has not received yet
};
// For a schedule with sends and receives. Actions are the other rank's, in its order.
UnmatchedMessages unmatched_messages(const Schedule& schedule, int rank);

}  // namespace sextant
