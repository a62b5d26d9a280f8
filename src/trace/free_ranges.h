#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sextant {

inline constexpr int32_t kForever = std::numeric_limits<int32_t>::max();

// Free addresses [begin, end), and the event `until` at which an already placed tensor needs them.
struct FreeRange {
  int64_t begin = 0, end = 0;
  int32_t until = kForever;
  friend bool operator==(const FreeRange&, const FreeRange&) = default;
};

// The free ranges at one event of a program, in address order. Adjacent ranges with the same
// `until` are merged. Stored in blocks: reading all of them is as fast as in an array, and a change
// moves the ranges of one block only.
class FreeRanges {
 public:
  static constexpr size_t kMostOfBlock = 128;  // ranges

  explicit FreeRanges(int64_t bytes) : blocks_{{{0, bytes, kForever}}} {}

  // Reads all ranges; they must not be changed meanwhile.
  class Reader {
   public:
    explicit Reader(const FreeRanges& ranges) : blocks_(ranges.blocks_) {}
    // Null after the last one.
    const FreeRange* next() {
      while (block_ < blocks_.size() && index_ == blocks_[block_].size()) {
        ++block_;
        index_ = 0;
      }
      return block_ < blocks_.size() ? &blocks_[block_][index_++] : nullptr;
    }

   private:
    const std::vector<std::vector<FreeRange>>& blocks_;
    size_t block_ = 0, index_ = 0;
  };

  // Takes [begin, end), all of which must be free, and appends the ranges it consisted of to
  // `taken`.
  void take(int64_t begin, int64_t end, std::vector<FreeRange>& taken);

  // Frees `range`, no part of which may be free.
  void put(const FreeRange& range);

 private:
  struct Place {
    size_t block = 0, index = 0;
  };

  // The last range that starts at `begin` or before; index -1 of block 0 if there is none.
  Place last_until(int64_t begin) const;
  void insert(Place place, const FreeRange& range);
  void erase(Place place);

  std::vector<std::vector<FreeRange>> blocks_;  // none is empty
};

}  // namespace sextant
