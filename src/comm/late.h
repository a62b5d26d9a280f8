#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "comm/ledger.h"

namespace sextant {

// The words in which transports tell of ranks that others wait for in vain.

// What a rank says of itself: "is at F of stage 2, micro 3, last: send #18 of 64 f32 over ...".
struct Standing {
  std::string text;
  int waits_for = -1;  // as Doing has it, or kSomebody
};
inline constexpr int kSomebody = -2;  // ranks that have not come to a collective
Standing standing_of(const Ledger& ledger);

// "; rank 3 is at B of stage 3, micro 0, which waits for ... of rank 2; rank 2 is at ...": what the
// waiting rank is at, then those that did not come, then whomever these wait for in turn: the rank
// that holds up all others may be far from the one whose time is over first. Where that leads to a
// collective, some of the other ranks are told, too: one of them may be who has not come.
// Of one that does not answer is told who waits for what of it, if anybody does.
//   missing  ranks of the world, as all ranks of this text
//   world    how many there are
//   named    whether they have other numbers in the group, so that it must be said
//   ask      what a rank says; nothing when it does not answer
std::string describe_standings(const Ledger& own, std::span<const int> missing, int world,
                               bool named,
                               const std::function<std::optional<Standing>(int rank)>& ask);

}  // namespace sextant
