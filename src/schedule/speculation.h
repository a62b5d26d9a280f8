#pragma once
#include <cstddef>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// The beginning of a step that a rank may run before it knows whether the last update of its
// weights stands (train/post_validation.h), and what becomes of its messages when it was for
// nothing.

// Where the beginning ends: the first backward action, or the forward that is joined with it.
size_t first_backward(const std::vector<Action>& actions);

// Messages are taken in the order sent, so before a rank begins again both ends of each channel
// must have dealt with equally many. Ranks end their beginnings at different messages of a channel:
struct LooseEnds {
  std::vector<Action> to_send;  // receives in the beginnings of others, that this rank owes to
  std::vector<Action> to_take;  // sends in the beginnings of others, that it has not asked for
};
// Of a schedule with messages. Actions are those of the other rank, in its order.
LooseEnds loose_ends(const Schedule& schedule, int rank);

}  // namespace sextant
