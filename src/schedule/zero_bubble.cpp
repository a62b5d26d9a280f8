#include <algorithm>

#include "schedule/blank_schedule.h"
#include "schedule/generators.h"

namespace sextant {
namespace {

// 1F1B with split backward and `depth` times its warm-up: depth 1 keeps 1F1B's memory, depth 2
// doubles it and has no bubble at equal times. Weight gradients run in order, depth * rank turns
// late.
Schedule zero_bubble(const char* name, int ranks, int micros, int depth) {
  Schedule out = blank_schedule(name, ranks, micros, 1, Placement::Loop);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& todo = out.ranks[rank];
    const int warmup = std::min(depth * (ranks - 1 - rank), micros);
    const int late = depth * rank;
    for (int m = 0; m < warmup; ++m) todo.push_back({Kind::F, rank, m});
    for (int m = 0; m < micros; ++m) {
      if (warmup + m < micros) todo.push_back({Kind::F, rank, warmup + m});
      todo.push_back({Kind::I, rank, m});
      if (m >= late) todo.push_back({Kind::W, rank, m - late});
    }
    for (int m = std::max(0, micros - late); m < micros; ++m) todo.push_back({Kind::W, rank, m});
  }
  return out;
}

}  // namespace

Schedule zb_h1(int ranks, int micros) {
  return zero_bubble("zb-h1", ranks, micros, 1);
}
Schedule zb_h2(int ranks, int micros) {
  return zero_bubble("zb-h2", ranks, micros, 2);
}

}  // namespace sextant
