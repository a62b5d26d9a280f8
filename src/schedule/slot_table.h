#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// The V-shaped schedules with bounded memory are made on a grid: every operation takes one slot of
// its rank. A micro passes a rank as F0, F1, B1, B0 (of chunk 0 or 1); weight halves fill slots
// that are left.
enum class Op : int8_t { Idle = -1, F0, F1, B1, B0, W };

class SlotTable {
 public:
  // Micro i of rank r in slots first(op) + 6 i.
  struct Offsets {
    int f0, f1, b1, b0;
  };
  SlotTable(int micros, const std::vector<Offsets>& ranks);

  // A weight half into every idle slot where a backward waits for one; the rest at the end.
  void fill_weights();
  void drop_weights();
  // Operations move to earlier slots before the first B0 of rank 0 and after the last F0, as far as
  // the table's peak memory allows.
  void compact();
  // Every operation as early as its inputs and its rank's order allow.
  void squeeze();

  // The actions of each rank in order; weight halves of chunk 1 go before those of chunk 0.
  std::vector<std::vector<Action>> actions() const;

 private:
  struct Cell {
    Op op = Op::Idle;
    int index = 0;  // micro; of W: which of the rank's backwards, by slot
  };
  struct Rank {
    std::vector<Cell> cells;             // [slot]
    std::vector<std::vector<int>> slot;  // [op][index]
    std::vector<int> backwards() const;  // of backwards, rising
  };
  struct Placed {
    int slot, rank;
    Cell cell;
  };

  static void place(Rank& rank, Cell cell, int slot);
  int peak(const Rank& rank) const;
  // All operations by slot, then rank.
  std::vector<Placed> in_order() const;
  // The latest slot that something this operation has to follow is in.
  int latest_before(int rank, Cell cell) const;
  int neighbour_slot(int rank, Cell cell) const;
  void move_up(const Placed& placed, int limit);

  int micros_;
  bool has_weights_ = false;
  std::vector<Rank> ranks_;
};

}  // namespace sextant
