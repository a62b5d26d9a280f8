#include <algorithm>

#include "schedule/blank_schedule.h"
#include "schedule/generators.h"
#include "schedule/interleave.h"

namespace sextant {

// Interleaved 1F1B with split backward: half its warm-up, and rank r delays its weight gradients by
// r turns, so that input gradients reach the previous stage without waiting for them.
Schedule interleaved_zb(int ranks, int micros, int chunks, int group) {
  Schedule out = blank_schedule("interleaved-zb", ranks, micros, chunks, Placement::Loop);
  const Interleave turns(ranks, micros, chunks, group);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& todo = out.ranks[rank];
    const int warmup = std::min(ranks - 1 - rank + (chunks - 1) * group, turns.size());
    for (int k = 0; k < warmup; ++k) todo.push_back(turns.forward(rank, k));
    for (int k = 0; k < turns.size(); ++k) {
      if (warmup + k < turns.size()) todo.push_back(turns.forward(rank, warmup + k));
      todo.push_back(turns.backward(Kind::I, rank, k));
      if (k >= rank) todo.push_back(turns.backward(Kind::W, rank, k - rank));
    }
    for (int k = std::max(0, turns.size() - rank); k < turns.size(); ++k)
      todo.push_back(turns.backward(Kind::W, rank, k));
  }
  return out;
}

}  // namespace sextant
