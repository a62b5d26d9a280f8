#pragma once
#include <algorithm>
#include <cstring>

#include "ops/cpu/packs.h"
#include "ops/dispatch.h"

// Sums over rows, such as the gradient of a norm's weight. The rows are cut into blocks that depend
// on the shape alone; each block's sum lies in the shared scratch; the blocks are then added in
// order. So any number of threads gives the same bits.
namespace sextant::cpu {

class RowBlocks {
 public:
  // `width` numbers of T are summed for each row; they fit in the shared scratch.
  template <class T>
  static RowBlocks make(int64_t rows, int64_t width) {
    const int64_t fit =
        Stream::kSharedScratch / std::max<int64_t>(1, width * static_cast<int64_t>(sizeof(T)));
    const int64_t blocks = std::clamp<int64_t>((rows + kLeastRows - 1) / kLeastRows, 1,
                                               std::min<int64_t>(fit, kMostBlocks));
    return RowBlocks(rows, width, (rows + blocks - 1) / blocks);
  }

  // f(row, sums) for every row in order within its block; sums: [width], zero at a block's start.
  template <class T, class F>
  void for_rows(Stream& stream, F&& f) const {
    T* partial = reinterpret_cast<T*>(stream.shared_scratch().data());
    stream.team().for_pieces(rows_, per_block_, [&](int64_t begin, int64_t end, int) {
      T* sums = partial + begin / per_block_ * width_;
      std::memset(sums, 0, static_cast<size_t>(width_) * sizeof(T));
      for (int64_t row = begin; row < end; ++row) f(row, sums);
    });
  }

  // out = columns first ... first + count of the sums of all blocks, which were made in T.
  template <class T, class Out>
  void fold(Stream& stream, Out* out, int64_t first, int64_t count, Write write) const {
    const T* partial = reinterpret_cast<const T*>(stream.shared_scratch().data()) + first;
    const int64_t blocks = rows_ == 0 ? 0 : (rows_ + per_block_ - 1) / per_block_;
    stream.team().for_pieces(count, kFoldGrain, [&](int64_t begin, int64_t end, int) {
      for_packs<T>(begin, end, [&](auto at) {
        VectorOf<T> sum = {};
        for (int64_t block = 0; block < blocks; ++block) sum += at(partial + block * width_);
        at.put(out, write == Write::Add ? at(static_cast<const Out*>(out)) + sum : sum);
      });
    });
  }

  // The same into a gradient, which is of the type of x, T, or of its sums.
  template <class T>
  void fold_gradient(Stream& stream, Tensor& out, int64_t first, Write write) const {
    with_either<T>(out.dtype(), [&]<class G>(G) {
      fold<Compute<T>>(stream, out.data<G>(), first, out.elements(), write);
    });
  }

 private:
  static constexpr int64_t kLeastRows = 16, kMostBlocks = 64, kFoldGrain = 512;
  RowBlocks(int64_t rows, int64_t width, int64_t per_block)
      : rows_(rows), width_(width), per_block_(std::max<int64_t>(1, per_block)) {}

  int64_t rows_, width_, per_block_;
};

}  // namespace sextant::cpu
