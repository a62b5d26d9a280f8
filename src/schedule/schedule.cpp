#include "schedule/schedule.h"

#include "base/error.h"

namespace sextant {

int Schedule::rank_of(int stage, int micro) const {
  switch (placement) {
    case Placement::Loop:
      return stage % size();
    case Placement::V:
      return stage < size() ? stage : 2 * size() - 1 - stage;
    case Placement::Dual:
      return 2 * micro < micros ? stage : size() - 1 - stage;
  }
  SXT_FAIL(Internal, "schedule: placement ", static_cast<int>(placement));
}

int Schedule::chunk_of(int stage, int micro) const {
  if (placement == Placement::Dual) return 2 * micro < micros ? 0 : 1;
  return stage / size();
}

}  // namespace sextant
