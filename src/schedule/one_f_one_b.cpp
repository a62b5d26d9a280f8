#include <algorithm>

#include "schedule/blank_schedule.h"
#include "schedule/generators.h"

namespace sextant {

// Warm-up, 1F1B, drain.
Schedule one_f_one_b(int ranks, int micros) {
  Schedule out = blank_schedule("1f1b", ranks, micros, 1, Placement::Loop);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& todo = out.ranks[rank];
    const int warmup = std::min(ranks - 1 - rank, micros);
    for (int m = 0; m < warmup; ++m) todo.push_back({Kind::F, rank, m});
    for (int m = warmup; m < micros; ++m) {
      todo.push_back({Kind::F, rank, m});
      todo.push_back({Kind::B, rank, m - warmup});
    }
    for (int m = micros - warmup; m < micros; ++m) todo.push_back({Kind::B, rank, m});
  }
  return out;
}

}  // namespace sextant
