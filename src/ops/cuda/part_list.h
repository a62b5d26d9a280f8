#pragma once
// One launch for many tensors: a kernel gets their description as its parameter, by value, so
// nothing has to be copied to the device first. Blocks are numbered through over all parts.
#include <span>

#include "ops/cuda/kernel.h"

namespace sextant::cuda {

// A kernel's parameters are 4 KiB on every GPU.
inline constexpr int64_t kParameterBytes = 4096;

// Parts with a member `count`, their number of elements.
template <class Part, int64_t kOtherBytes>
struct PartList {
  static constexpr int kMost = static_cast<int>((kParameterBytes - kOtherBytes - 16) /
                                                static_cast<int64_t>(sizeof(Part) + 4));
  int count = 0;
  int first_block[kMost + 1] = {};  // of each part, then the number of all
  Part parts[kMost];

  int blocks() const { return first_block[count]; }

  // The part of a block.
  __device__ int part_of(int block) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_block[middle] <= block)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

// f(list) for lists that hold all parts in their order, cut so that a list has at most `most`
// blocks of `per_block` elements, but for a list of a single part. Parts without elements have a
// block too, which finds nothing to do: sums over them are then 0.
template <class List, class Part, class Describe, class F>
void for_lists(std::span<const Part> all, int64_t per_block, int64_t most, Describe&& describe,
               F&& f) {
  List list;
  for (const Part& one : all) {
    const auto part = describe(one);
    const int64_t blocks = std::max<int64_t>(1, ceil_div(part.count, per_block));
    SXT_CHECK(blocks <= most, Usage, "a tensor of ", part.count,
              " elements is too large for one launch, must have at most ", most * per_block);
    if (list.count == List::kMost || list.blocks() + blocks > most) {
      f(list);
      list = List();
    }
    list.parts[list.count] = part;
    list.first_block[list.count + 1] = list.blocks() + static_cast<int>(blocks);
    ++list.count;
  }
  if (list.count > 0) f(list);
}

}  // namespace sextant::cuda
