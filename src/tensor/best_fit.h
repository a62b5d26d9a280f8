#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

// Best-fit allocator, lowest address first. The same sequence of calls gives the same addresses, so
// from the second step on no page is touched for the first time.
class BestFit {
 public:
  explicit BestFit(int64_t bytes);

  // Allocates `size` bytes, a multiple of the alignment; -1 when no free range is large enough.
  int take(int64_t size);
  void give_back(int block);
  int64_t offset(int block) const { return blocks_[static_cast<size_t>(block)].offset; }

  int64_t high_water() const { return high_water_; }
  int64_t growths() const { return growths_; }  // calls that needed new addresses or blocks

 private:
  struct Block {
    int64_t offset, size;
    int prev, next;  // neighbours by address, -1 at the ends
    bool free;
  };

  int new_block(const Block& block);
  void merge_with_next(int block);

  std::vector<Block> blocks_;
  std::vector<int> unused_blocks_;
  int first_ = 0;
  int64_t high_water_ = 0, growths_ = 0;
};

}  // namespace sextant
