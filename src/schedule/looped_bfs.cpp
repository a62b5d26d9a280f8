#include "schedule/blank_schedule.h"
#include "schedule/generators.h"

namespace sextant {

// All micros run through a chunk before the next chunk, so each chunk's weights are used in two
// contiguous runs. Backward takes the micros in forward order, so that gradients accumulate in the
// same order as with every other schedule.
Schedule looped_bfs(int ranks, int micros, int chunks) {
  Schedule out = blank_schedule("looped-bfs", ranks, micros, chunks, Placement::Loop);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& todo = out.ranks[rank];
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int m = 0; m < micros; ++m) todo.push_back({Kind::F, chunk * ranks + rank, m});
    for (int chunk = chunks - 1; chunk >= 0; --chunk)
      for (int m = 0; m < micros; ++m) todo.push_back({Kind::B, chunk * ranks + rank, m});
  }
  return out;
}

}  // namespace sextant
