#include "ops/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/range.h"
#include "ops/cpu/packs.h"

namespace sextant::cpu {

decltype(sextant::block_amax) block_amax;
decltype(sextant::quantize) quantize;
decltype(sextant::quantize_blocks) quantize_blocks;

namespace {

constexpr int64_t kGrain = 16384;  // elements of a piece, about

// Absolute values as integers ascend as they do, and NaN is above infinity: the largest integer is
// the largest value, or NaN.
template <class T>
uint32_t magnitude(T x) {
  return std::bit_cast<uint32_t>(static_cast<float>(value_of(x))) & 0x7fffffffU;
}

// Rows that one thread takes: a row of blocks, or some rows of a matrix with one scale.
class RowGroups {
 public:
  RowGroups(const Shape& matrix, const ScaleBlock& block)
      : rows_(matrix[0]),
        block_(block),
        step_(block.rows > 0 ? block.rows
                             : std::max<int64_t>(1, kGrain / std::max<int64_t>(1, matrix[1]))),
        count_(block.rows > 0 ? block.grid(matrix)[0] : (rows_ + step_ - 1) / step_) {}

  int64_t count() const { return count_; }
  int64_t block_row(int64_t group) const { return block_.rows > 0 ? group : 0; }
  Range rows_of(int64_t group) const {
    if (block_.part_rows == 0) return {group * step_, std::min(rows_, (group + 1) * step_)};
    const int64_t each = block_.blocks_of_part(), part = group / each * block_.part_rows;
    const int64_t begin = part + group % each * step_;
    return {begin, std::min(part + block_.part_rows, begin + step_)};
  }

 private:
  int64_t rows_;
  ScaleBlock block_;
  int64_t step_, count_;
};

// f(row, its columns, the place of the first of them in the tensor) for the rows of a group that
// the piece has.
template <class F>
void for_rows(const Range& rows, int64_t columns, const Range& elements, F&& f) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const Range own = overlap({row * columns, (row + 1) * columns}, elements);
    if (own.size() == 0) continue;
    f(row, Range{own.begin - row * columns, own.end - row * columns}, own.begin - elements.begin);
  }
}

// Raises the maxima of a row of blocks by elements of `columns`.
template <class T>
void raise(uint32_t* most, const T* x, const Range& columns, int64_t step) {
  if (step == 1) {
    for (int64_t i = columns.begin; i < columns.end; ++i)
      most[i] = std::max(most[i], magnitude(x[i - columns.begin]));
    return;
  }
  for (int64_t at = columns.begin / step; at * step < columns.end; ++at) {
    uint32_t value = most[at];
    const int64_t end = std::min(columns.end, (at + 1) * step);
    for (int64_t i = std::max(columns.begin, at * step); i < end; ++i)
      value = std::max(value, magnitude(x[i - columns.begin]));
    most[at] = value;
  }
}

int64_t columns_of_block(const ScaleBlock& block, int64_t columns) {
  return block.columns == 0 ? std::max<int64_t>(1, columns) : block.columns;
}

// q = x * factor of each column. Infinity becomes NaN, whatever the factor.
template <class Q, class T>
void round_row(Q* to, const T* from, const float* factors, const Range& columns, int64_t step) {
  const auto round = [&](int64_t i, float factor) __attribute__((always_inline)) {
    const auto x = static_cast<float>(value_of(from[i - columns.begin]));
    to[i - columns.begin] = round_nearest<Q>(x * factor - (x - x));
  };
  if (step == 1) {
    for (int64_t i = columns.begin; i < columns.end; ++i) round(i, factors[i]);
    return;
  }
  for (int64_t at = columns.begin / step; at * step < columns.end; ++at) {
    const float factor = factors[at];
    const int64_t end = std::min(columns.end, (at + 1) * step);
    for (int64_t i = std::max(columns.begin, at * step); i < end; ++i) round(i, factor);
  }
}

}  // namespace

// Groups of rows have maxima of their own, which are then joined: a maximum has no order.
void block_amax(Stream& stream, Tensor& amax, const Tensor& x, const ScaleBlock& block,
                const MatrixPiece& piece) {
  const int64_t columns = piece.whole[1], width = amax.dim(1);
  const int64_t step = columns_of_block(block, columns);
  const Range elements{piece.first, piece.first + x.elements()};
  const RowGroups groups(piece.whole, block);
  std::vector<uint32_t> most(static_cast<size_t>(std::max<int64_t>(1, groups.count()) * width), 0);
  with_float(x.dtype(), [&]<class T>(T) {
    const T* from = x.data<T>();
    stream.team().for_pieces(groups.count(), 1, [&](int64_t group, int64_t, int) {
      for_rows(groups.rows_of(group), columns, elements,
               [&](int64_t, const Range& own, int64_t at) {
                 raise(most.data() + group * width, from + at, own, step);
               });
    });
  });
  float* out = amax.data<float>();
  std::vector<uint32_t> joined(static_cast<size_t>(amax.elements()), 0);
  for (int64_t group = 0; group < groups.count(); ++group)
    for (int64_t i = 0; i < width; ++i) {
      uint32_t& to = joined[static_cast<size_t>(groups.block_row(group) * width + i)];
      to = std::max(to, most[static_cast<size_t>(group * width + i)]);
    }
  for (size_t i = 0; i < joined.size(); ++i) out[i] = std::bit_cast<float>(joined[i]);
}

void quantize(Stream& stream, Tensor& q, const Tensor& x, const Tensor& amax,
              const ScaleBlock& block, const MatrixPiece& piece) {
  const int64_t columns = piece.whole[1], width = amax.dim(1);
  const int64_t step = columns_of_block(block, columns);
  const Range elements{piece.first, piece.first + x.elements()};
  const RowGroups groups(piece.whole, block);
  std::vector<float> factors(static_cast<size_t>(amax.elements()));
  for (size_t i = 0; i < factors.size(); ++i)
    factors[i] = fp8_factor(amax.data<float>()[i], q.dtype());
  const auto run = [&]<class Q, class T>(Q* to, const T* from) {
    stream.team().for_pieces(groups.count(), 1, [&](int64_t group, int64_t, int) {
      const float* of_row = factors.data() + groups.block_row(group) * width;
      for_rows(groups.rows_of(group), columns, elements,
               [&](int64_t, const Range& own, int64_t at) {
                 round_row(to + at, from + at, of_row, own, step);
               });
    });
  };
  with_float(x.dtype(), [&]<class T>(T) {
    if (q.dtype() == DType::F8E4M3)
      run(q.data<f8e4m3>(), x.data<T>());
    else
      run(q.data<f8e5m2>(), x.data<T>());
  });
}

void quantize_blocks(Stream& stream, Tensor& q, Tensor& amax, const Tensor& x) {
  const MatrixPiece whole{x.shape(), 0};
  cpu::block_amax(stream, amax, x, kWeightBlock, whole);
  cpu::quantize(stream, q, x, amax, kWeightBlock, whole);
}

}  // namespace sextant::cpu
