#include "ops/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "ops/cpu/packs.h"

namespace sextant::cpu {

decltype(sextant::block_amax) block_amax;
decltype(sextant::quantize) quantize;

namespace {

constexpr int64_t kGrain = 16384;  // elements of a piece, about

// Absolute values as integers ascend as they do, and NaN is above infinity: the largest integer is
// the largest value, or NaN.
template <class T>
uint32_t magnitude(T x) {
  return std::bit_cast<uint32_t>(static_cast<float>(value_of(x))) & 0x7fffffffU;
}

// Rows of blocks, or of a matrix that is one block, for one thread.
int64_t rows_of_piece(const Tensor& x, const ScaleBlock& block) {
  if (block.rows > 0) return block.rows;
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, x.dim(1)));
}

template <class T>
void raise(uint32_t* most, const T* x, int64_t columns, const ScaleBlock& block) {
  const int64_t step = block.columns == 0 ? std::max<int64_t>(1, columns) : block.columns;
  for (int64_t begin = 0, at = 0; begin < columns; begin += step, ++at) {
    uint32_t value = most[at];
    for (int64_t i = begin, end = std::min(columns, begin + step); i < end; ++i)
      value = std::max(value, magnitude(x[i]));
    most[at] = value;
  }
}

}  // namespace

// Pieces of rows have maxima of their own, which are then joined: a maximum has no order.
void block_amax(Stream& stream, Tensor& amax, const Tensor& x, const ScaleBlock& block) {
  const int64_t rows = x.dim(0), columns = x.dim(1), width = amax.dim(1);
  const int64_t step = rows_of_piece(x, block), pieces = (rows + step - 1) / step;
  std::vector<uint32_t> most(static_cast<size_t>(std::max<int64_t>(1, pieces) * width), 0);
  with_float(x.dtype(), [&]<class T>(T) {
    const T* from = x.data<T>();
    stream.team().for_pieces(rows, step, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row)
        raise(most.data() + begin / step * width, from + row * columns, columns, block);
    });
  });
  float* out = amax.data<float>();
  std::vector<uint32_t> joined(static_cast<size_t>(amax.elements()), 0);
  for (int64_t piece = 0; piece < pieces; ++piece)
    for (int64_t i = 0; i < width; ++i) {
      uint32_t& to = joined[static_cast<size_t>(block.row_of(piece * step) * width + i)];
      to = std::max(to, most[static_cast<size_t>(piece * width + i)]);
    }
  for (size_t i = 0; i < joined.size(); ++i) out[i] = std::bit_cast<float>(joined[i]);
}

void quantize(Stream& stream, Tensor& q, const Tensor& x, const Tensor& amax,
              const ScaleBlock& block) {
  const int64_t rows = x.dim(0), columns = x.dim(1), width = amax.dim(1);
  const int64_t step = block.columns == 0 ? std::max<int64_t>(1, columns) : block.columns;
  const float* most = amax.data<float>();
  const auto run = [&]<class Q, class T>(Q* to, const T* from) {
    stream.team().for_pieces(
        rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, columns)),
        [&](int64_t first, int64_t last, int) {
          for (int64_t row = first; row < last; ++row)
            for (int64_t begin = 0; begin < columns; begin += step) {
              const float factor =
                  fp8_factor(most[block.row_of(row) * width + begin / step], q.dtype());
              const int64_t end = std::min(columns, begin + step);
              for (int64_t i = row * columns + begin; i < row * columns + end; ++i)
                to[i] = round_nearest<Q>(static_cast<float>(value_of(from[i])) * factor);
            }
        });
  };
  with_float(x.dtype(), [&]<class T>(T) {
    if (q.dtype() == DType::F8E4M3)
      run(q.data<f8e4m3>(), x.data<T>());
    else
      run(q.data<f8e5m2>(), x.data<T>());
  });
}

}  // namespace sextant::cpu
