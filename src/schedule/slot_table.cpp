#include "schedule/slot_table.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kPeriod = 6;  // slots between micros: the number of operations per micro

int number(Op op) {
  return static_cast<int>(op);
}
bool is_forward(Op op) {
  return op == Op::F0 || op == Op::F1;
}
bool is_backward(Op op) {
  return op == Op::B1 || op == Op::B0;
}

}  // namespace

SlotTable::SlotTable(int micros, const std::vector<Offsets>& ranks) : micros_(micros) {
  for (const Offsets& at : ranks) {
    Rank& rank = ranks_.emplace_back();
    rank.slot.assign(5, std::vector<int>(static_cast<size_t>(micros)));
    rank.slot[number(Op::W)].resize(static_cast<size_t>(2) * static_cast<size_t>(micros));
    for (int i = 0; i < micros; ++i) {
      place(rank, {Op::F0, i}, at.f0 + kPeriod * i);
      place(rank, {Op::F1, i}, at.f1 + kPeriod * i);
      place(rank, {Op::B1, i}, at.b1 + kPeriod * i);
      place(rank, {Op::B0, i}, at.b0 + kPeriod * i);
    }
  }
}

void SlotTable::place(Rank& rank, Cell cell, int slot) {
  if (static_cast<size_t>(slot) >= rank.cells.size()) rank.cells.resize(slot + 1);
  rank.cells[slot] = cell;
  rank.slot[number(cell.op)][cell.index] = slot;
}

void SlotTable::fill_weights() {
  has_weights_ = true;
  for (Rank& rank : ranks_) {
    int backwards = 0, weights = 0;
    for (int slot = 0; weights < 2 * micros_; ++slot) {
      const Op op = static_cast<size_t>(slot) < rank.cells.size() ? rank.cells[slot].op : Op::Idle;
      if (is_backward(op)) ++backwards;
      if (op == Op::Idle && weights < backwards) place(rank, {Op::W, weights++}, slot);
    }
  }
}

void SlotTable::drop_weights() {
  has_weights_ = false;
  for (Rank& rank : ranks_)
    for (Cell& cell : rank.cells)
      if (cell.op == Op::W) cell = {};
}

// Before weight gradients are placed, an idle slot after a backward counts as one.
int SlotTable::peak(Rank& rank, size_t end) const {
  if (rank.held.empty()) rank.held.emplace_back();
  end = std::min(end, rank.cells.size());
  for (size_t slot = rank.held.size() - 1; slot < end; ++slot) {
    Held held = rank.held[slot];
    const Op op = rank.cells[slot].op;
    if (is_forward(op)) held.most = std::max(held.most, ++held.now);
    if (is_backward(op)) ++held.waiting;
    if (op == Op::W) --held.now;
    if (op == Op::Idle && !has_weights_ && held.waiting > 0) --held.now, --held.waiting;
    rank.held.push_back(held);
  }
  return rank.held[end].most;
}

std::vector<SlotTable::Placed> SlotTable::in_order() const {
  std::vector<Placed> out;
  size_t slots = 0;
  for (const Rank& rank : ranks_) slots = std::max(slots, rank.cells.size());
  for (size_t slot = 0; slot < slots; ++slot)
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (slot < ranks_[r].cells.size() && ranks_[r].cells[slot].op != Op::Idle)
        out.push_back({static_cast<int>(slot), static_cast<int>(r), ranks_[r].cells[slot]});
  return out;
}

// F0 and B1 go down the V, F1 and B0 go up. -1 at the ends.
int SlotTable::neighbour_slot(int rank, Cell cell) const {
  const int from = cell.op == Op::F0 || cell.op == Op::B1 ? rank - 1 : rank + 1;
  if (cell.op == Op::W || from < 0 || from == static_cast<int>(ranks_.size())) return -1;
  return ranks_[from].slot[number(cell.op)][cell.index];
}

int SlotTable::latest_before(int rank, Cell cell) const {
  const Rank& at = ranks_[rank];
  int latest = neighbour_slot(rank, cell);
  if (cell.op == Op::W) {
    latest = std::max(latest, at.backwards[cell.index]);
  } else if (cell.op != Op::F0) {
    latest = std::max(latest, at.slot[number(cell.op) - 1][cell.index]);
  }
  if (cell.index > 0) latest = std::max(latest, at.slot[number(cell.op)][cell.index - 1]);
  return latest;
}

void SlotTable::move(Rank& rank, Cell cell, int from, int to) {
  rank.cells[from] = {};
  place(rank, cell, to);
  const auto first = static_cast<size_t>(std::min(from, to));
  if (rank.held.size() > first + 1) rank.held.resize(first + 1);
  if (!is_backward(cell.op)) return;
  std::vector<int>& slots = rank.backwards;
  slots.erase(std::ranges::lower_bound(slots, from));
  slots.insert(std::ranges::lower_bound(slots, to), to);
}

// With weight gradients in place, a move changes the memory between its two slots only.
void SlotTable::move_up(const Placed& placed, int limit) {
  Rank& rank = ranks_[placed.rank];
  const size_t end = has_weights_ ? static_cast<size_t>(placed.slot) : rank.cells.size();
  for (int slot = latest_before(placed.rank, placed.cell) + 1; slot < placed.slot; ++slot) {
    if (rank.cells[slot].op != Op::Idle) continue;
    move(rank, placed.cell, placed.slot, slot);
    if (peak(rank, end) <= limit) return;
    move(rank, placed.cell, slot, placed.slot);
  }
}

void SlotTable::compact() {
  int limit = 0;
  for (Rank& rank : ranks_) {
    rank.held.clear();
    limit = std::max(limit, peak(rank, rank.cells.size()));
    rank.backwards = rank.slot[number(Op::B1)];
    rank.backwards.insert(rank.backwards.end(), rank.slot[number(Op::B0)].begin(),
                          rank.slot[number(Op::B0)].end());
    std::ranges::sort(rank.backwards);
  }
  enum class Phase { Start, Steady, End } phase = Phase::Start;
  for (const Placed& placed : in_order()) {
    const Cell cell = placed.cell;
    if (phase == Phase::Start && cell.op == Op::B0 && placed.rank == 0) phase = Phase::Steady;
    if (phase == Phase::End || (phase == Phase::Start && has_weights_)) move_up(placed, limit);
    if (phase == Phase::Steady && cell.op == Op::F0 && cell.index == micros_ - 1)
      phase = Phase::End;
  }
}

void SlotTable::squeeze() {
  const std::vector<Placed> order = in_order();
  std::vector<std::vector<int>> backwards;  // before the moves, to match each W to its backward
  for (Rank& rank : ranks_) {
    rank.cells.clear();
    backwards.emplace_back();
  }
  for (const Placed& placed : order) {
    const Cell cell = placed.cell;
    Rank& rank = ranks_[placed.rank];
    int after =
        std::max(static_cast<int>(rank.cells.size()) - 1, neighbour_slot(placed.rank, cell));
    if (cell.op == Op::W) after = std::max(after, backwards[placed.rank][cell.index]);
    place(rank, cell, after + 1);
    if (is_backward(cell.op)) backwards[placed.rank].push_back(after + 1);
  }
}

std::vector<std::vector<Action>> SlotTable::actions() const {
  std::vector<std::vector<Action>> out;
  const int count = static_cast<int>(ranks_.size());
  for (int r = 0; r < count; ++r) {
    const int down = r, up = 2 * count - 1 - r;
    int weights[2] = {}, backwards[2] = {};
    std::vector<Action>& todo = out.emplace_back();
    for (const Cell& cell : ranks_[r].cells) {
      switch (cell.op) {
        case Op::Idle:
          break;
        case Op::F0:
          todo.push_back({Kind::F, down, cell.index});
          break;
        case Op::F1:
          todo.push_back({Kind::F, up, cell.index});
          break;
        case Op::B1:
          todo.push_back({Kind::I, up, backwards[1]++});
          break;
        case Op::B0:
          todo.push_back({Kind::I, down, backwards[0]++});
          break;
        case Op::W: {
          const int chunk = weights[1] < backwards[1] ? 1 : 0;
          todo.push_back({Kind::W, chunk == 1 ? up : down, weights[chunk]++});
        }
      }
    }
  }
  return out;
}

}  // namespace sextant
