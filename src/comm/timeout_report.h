#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "comm/ledger.h"

namespace sextant {

// Error texts of transports for ranks that did not make a call before its deadline.

// Status of a rank: "is at F of stage 2, micro 3, last: send #18 of 64 f32 over ...".
struct RankStatus {
  std::string text;
  int waits_for = -1;  // as Doing::waits_for, or kUnknownRanks
};
inline constexpr int kUnknownRanks = -2;  // waits in a collective, for ranks that are not known
RankStatus status_of(const Ledger& ledger);

// "; rank 3 is at B of stage 3, micro 0, which waits for ... of rank 2; rank 2 is at ...": the
// status of this rank, of the missing ranks, and of the ranks that these wait for, transitively:
// the rank that blocks the others need not be the one that the timed-out rank waits for. If one of
// them waits in a collective, some more ranks are listed, since any rank may be missing there. For
// a rank that does not answer, the ranks that wait for it are listed.
//   missing  world ranks, as are all ranks in this text
//   world    number of ranks
//   named    whether group ranks differ from world ranks, so that the text must say so
//   ask      queries the status of a rank; nullopt when it does not answer
std::string describe_statuses(const Ledger& own, std::span<const int> missing, int world,
                              bool named,
                              const std::function<std::optional<RankStatus>(int rank)>& ask);

}  // namespace sextant
