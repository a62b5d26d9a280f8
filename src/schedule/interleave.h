#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// The order in which interleaved schedules run (chunk, micro): a group of micros through chunk 0,
// the same group through chunk 1, and so on, then the next group. Backward runs the chunks from
// last to first.
class Interleave {
 public:
  Interleave(int ranks, int micros, int chunks, int group) : ranks_(ranks), chunks_(chunks) {
    for (int first = 0; first < micros; first += group)
      for (int chunk = 0; chunk < chunks; ++chunk)
        for (int micro = first; micro < first + group && micro < micros; ++micro)
          turns_.push_back({chunk, micro});
  }

  int size() const { return static_cast<int>(turns_.size()); }
  Action forward(int rank, int turn) const {
    const auto [chunk, micro] = turns_[turn];
    return {Kind::F, chunk * ranks_ + rank, micro};
  }
  Action backward(Kind kind, int rank, int turn) const {
    const auto [chunk, micro] = turns_[turn];
    return {kind, (chunks_ - 1 - chunk) * ranks_ + rank, micro};
  }

 private:
  struct Turn {
    int chunk, micro;
  };
  int ranks_, chunks_;
  std::vector<Turn> turns_;
};

}  // namespace sextant
