#include "schedule/blank_schedule.h"
#include "schedule/generators.h"

namespace sextant {

// All forwards, then all backwards.
Schedule gpipe(int ranks, int micros) {
  Schedule out = blank_schedule("gpipe", ranks, micros, 1, Placement::Loop);
  for (int rank = 0; rank < ranks; ++rank)
    for (const Kind kind : {Kind::F, Kind::B})
      for (int micro = 0; micro < micros; ++micro) out.ranks[rank].push_back({kind, rank, micro});
  return out;
}

}  // namespace sextant
