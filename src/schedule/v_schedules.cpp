#include "schedule/blank_schedule.h"
#include "schedule/generators.h"
#include "schedule/slot_table.h"

namespace sextant {
namespace {

// The offsets of a repeating pattern fix how long a micro is in flight. Gaps in warm-up and drain
// are then closed twice: with the weight gradients in place, and around them.
Schedule from_pattern(const char* name, int micros, const std::vector<SlotTable::Offsets>& ranks) {
  SlotTable table(micros, ranks);
  table.fill_weights();
  table.compact();
  table.squeeze();
  table.drop_weights();
  table.compact();
  table.fill_weights();
  table.squeeze();
  table.drop_weights();
  table.fill_weights();
  Schedule out = blank_schedule(name, static_cast<int>(ranks.size()), micros, 2, Placement::V);
  out.ranks = table.actions();
  return out;
}

}  // namespace

// Half the memory of 1F1B.
Schedule v_half(int ranks, int micros) {
  const int p = ranks, gap = p % 2 == 0 ? 3 : 0;
  std::vector<SlotTable::Offsets> offsets(static_cast<size_t>(p));
  for (int r = 0; r < p; ++r)
    offsets[r] = {2 * r, 3 * p - 2 - r, 3 * p - 1 + gap + 2 * r, 6 * p - 2 + gap - r};
  return from_pattern("v-half", micros, offsets);
}

// A third of the memory of 1F1B, and a larger bubble.
Schedule v_min(int ranks, int micros) {
  const int p = ranks, gap = p % 3 == 0 ? 2 : 0;
  std::vector<SlotTable::Offsets> offsets(static_cast<size_t>(p));
  for (int r = 0; r < p; ++r) offsets[r] = {r, 2 * p - 1 - r, 2 * p + gap + r, 4 * p + gap - 1 - r};
  return from_pattern("v-min", micros, offsets);
}

}  // namespace sextant
