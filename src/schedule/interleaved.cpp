#include <algorithm>

#include "schedule/blank_schedule.h"
#include "schedule/generators.h"
#include "schedule/interleave.h"

namespace sextant {

// 1F1B over chunks. The warm-up of rank r has one group through every chunk but the last, and twice
// the distance to the last rank.
Schedule interleaved(int ranks, int micros, int chunks, int group) {
  Schedule out = blank_schedule("interleaved", ranks, micros, chunks, Placement::Loop);
  const Interleave turns(ranks, micros, chunks, group);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& todo = out.ranks[rank];
    const int warmup = std::min(2 * (ranks - 1 - rank) + (chunks - 1) * group, turns.size());
    for (int k = 0; k < warmup; ++k) todo.push_back(turns.forward(rank, k));
    for (int k = warmup; k < turns.size(); ++k) {
      todo.push_back(turns.forward(rank, k));
      todo.push_back(turns.backward(Kind::B, rank, k - warmup));
    }
    for (int k = turns.size() - warmup; k < turns.size(); ++k)
      todo.push_back(turns.backward(Kind::B, rank, k));
  }
  return out;
}

}  // namespace sextant
