#include "schedule/blank.h"
#include "schedule/generators.h"

namespace sextant {

// All micros through a chunk before the next chunk, so each chunk's weights are in use twice, each
// time in one run. Backward takes the micros in forward order too, which keeps the order of
// accumulation that every other schedule has.
Schedule looped_bfs(int ranks, int micros, int chunks) {
  Schedule out = blank_schedule("looped-bfs", ranks, micros, chunks, Placement::Loop);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& todo = out.ranks[rank];
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int m = 0; m < micros; ++m) todo.push_back({Kind::F, false, chunk * ranks + rank, m});
    for (int chunk = chunks - 1; chunk >= 0; --chunk)
      for (int m = 0; m < micros; ++m) todo.push_back({Kind::B, false, chunk * ranks + rank, m});
  }
  return out;
}

}  // namespace sextant
