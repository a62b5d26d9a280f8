#include "tensor/best_fit.h"

#include <limits>

namespace sextant {

BestFit::BestFit(int64_t bytes) {
  blocks_.push_back({0, bytes, -1, -1, true});
}

int BestFit::take(int64_t size) {
  int best = -1;
  int64_t best_size = std::numeric_limits<int64_t>::max();
  for (int i = first_; i >= 0; i = blocks_[static_cast<size_t>(i)].next) {
    const Block& block = blocks_[static_cast<size_t>(i)];
    if (block.free && block.size >= size && block.size < best_size) {
      best = i;
      best_size = block.size;
    }
  }
  if (best < 0) return best;
  if (best_size > size) {
    Block& block = blocks_[static_cast<size_t>(best)];
    const Block rest{block.offset + size, block.size - size, best, block.next, true};
    block.size = size;
    const int rest_index = new_block(rest);
    blocks_[static_cast<size_t>(best)].next = rest_index;
    if (rest.next >= 0) blocks_[static_cast<size_t>(rest.next)].prev = rest_index;
  }
  Block& block = blocks_[static_cast<size_t>(best)];
  block.free = false;
  if (block.offset + size > high_water_) {
    high_water_ = block.offset + size;
    ++growths_;
  }
  return best;
}

int BestFit::new_block(const Block& block) {
  if (unused_blocks_.empty()) {
    ++growths_;
    unused_blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back(block);
    return static_cast<int>(blocks_.size()) - 1;
  }
  const int index = unused_blocks_.back();
  unused_blocks_.pop_back();
  blocks_[static_cast<size_t>(index)] = block;
  return index;
}

void BestFit::give_back(int index) {
  Block& block = blocks_[static_cast<size_t>(index)];
  block.free = true;
  if (block.next >= 0 && blocks_[static_cast<size_t>(block.next)].free) merge_with_next(index);
  if (block.prev >= 0 && blocks_[static_cast<size_t>(block.prev)].free) merge_with_next(block.prev);
}

void BestFit::merge_with_next(int index) {
  Block& block = blocks_[static_cast<size_t>(index)];
  const int gone = block.next;
  const Block& next = blocks_[static_cast<size_t>(gone)];
  block.size += next.size;
  block.next = next.next;
  if (block.next >= 0) blocks_[static_cast<size_t>(block.next)].prev = index;
  unused_blocks_.push_back(gone);
}

}  // namespace sextant
