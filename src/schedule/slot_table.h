#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// A grid on which the V-shaped schedules with bounded memory are built: every operation takes one
// slot of its rank. A rank runs a micro as F0, F1, B1, B0 (chunk 0 or 1); weight gradients fill
// idle slots.
enum class Op : int8_t { Idle = -1, F0, F1, B1, B0, W };

class SlotTable {
 public:
  // Operation `op` of micro i is in slot first(op) + 6 i.
  struct Offsets {
    int f0, f1, b1, b0;
  };
  SlotTable(int micros, const std::vector<Offsets>& ranks);

  // Puts the pending weight gradients into idle slots; the rest go to the end.
  void fill_weights();
  void drop_weights();
  // Shortens warm-up (before the first B0 of rank 0) and drain (after the last F0): operations move
  // to earlier slots within the table's peak memory.
  void compact();
  // Moves every operation to the earliest slot that its inputs and its rank's order allow.
  void squeeze();

  // The ordered actions of each rank; weight gradients of chunk 1 come before those of chunk 0.
  std::vector<std::vector<Action>> actions() const;

 private:
  struct Cell {
    Op op = Op::Idle;
    int index = 0;  // micro; for W: index of its backward on the rank, by slot
  };
  // Memory of a rank before a slot: forwards in flight, backwards whose weight gradient is pending.
  struct Held {
    int now = 0, waiting = 0, most = 0;
  };
  struct Rank {
    std::vector<Cell> cells;             // [slot]
    std::vector<std::vector<int>> slot;  // [op][index]
    // During compact: slots of backwards, ascending; and memory before each slot, as far as it was
    // computed since a cell changed.
    std::vector<int> backwards;
    std::vector<Held> held;
  };
  struct Placed {
    int slot, rank;
    Cell cell;
  };

  static void place(Rank& rank, Cell cell, int slot);
  // Peak memory in the slots before `end`.
  int peak(Rank& rank, size_t end) const;
  // All operations by slot, then rank.
  std::vector<Placed> in_order() const;
  // The last slot that holds a dependency of this operation.
  int latest_before(int rank, Cell cell) const;
  int neighbour_slot(int rank, Cell cell) const;
  void move_up(const Placed& placed, int limit);
  static void move(Rank& rank, Cell cell, int from, int to);

  int micros_;
  bool has_weights_ = false;
  std::vector<Rank> ranks_;
};

}  // namespace sextant
