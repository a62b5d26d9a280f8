#include "ops/linear.h"

#include <algorithm>

#include "ops/cpu/packs.h"

namespace sextant::cpu {

void sum_rows(Stream& stream, Tensor& out, const Tensor& x, Write write);
void sum_fp8_rows(Stream& stream, Tensor& out, const Tensor& x, const Tensor& amax,
                  const ScaleBlock& block, Write write);

namespace {

constexpr int64_t kColumns = 64;  // of one piece: whole cache lines, sums in registers

template <class Out, class T, class F = Compute<T>>
void sum_columns(Out* out, const T* x, int64_t rows, int64_t stride, int64_t columns, Write write) {
  F sums[kColumns];
  for (int64_t i = 0; i < columns; ++i) sums[i] = write == Write::Chain ? value_of(out[i]) : F{0};
  if (columns == kColumns) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < kColumns; ++i) sums[i] += value_of(x[row * stride + i]);
  } else {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < columns; ++i) sums[i] += value_of(x[row * stride + i]);
  }
  for (int64_t i = 0; i < columns; ++i)
    out[i] = element_of<Out>(write == Write::Add ? value_of(out[i]) + sums[i] : sums[i]);
}

template <class Out, class T>
void sum_rows_of(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  Out* sums = out.data<Out>();
  const T* in = x.data<T>();
  const int64_t rows = x.dim(0), columns = x.dim(1);
  stream.team().for_pieces(columns, kColumns, [&](int64_t begin, int64_t end, int) {
    sum_columns(sums + begin, in + begin, rows, columns, end - begin, write);
  });
}

template <class Out, class T>
void sum_fp8_of(Tensor& out, const Tensor& x, const Tensor& amax, const ScaleBlock& block,
                Write write, const Range& columns) {
  const T* in = x.data<T>();
  Out* to = out.data<Out>();
  const float* most = amax.data<float>();
  for (int64_t column = columns.begin; column < columns.end; ++column) {
    float sum = 0;
    for (int64_t row = 0; row < x.dim(0); ++row) {
      const int64_t at = block.row_of(row) * amax.dim(1) + block.column_of(column);
      sum += widen(in[row * x.dim(1) + column]) * fp8_scale(most[at], x.dtype());
    }
    to[column] = element_of<Out>(write == Write::Add ? value_of(to[column]) + sum : sum);
  }
}

}  // namespace

void sum_fp8_rows(Stream& stream, Tensor& out, const Tensor& x, const Tensor& amax,
                  const ScaleBlock& block, Write write) {
  stream.team().for_pieces(out.elements(), kColumns, [&](int64_t begin, int64_t end, int) {
    with_float(out.dtype(), [&]<class Out>(Out) {
      if (x.dtype() == DType::F8E4M3)
        sum_fp8_of<Out, f8e4m3>(out, x, amax, block, write, {begin, end});
      else
        sum_fp8_of<Out, f8e5m2>(out, x, amax, block, write, {begin, end});
    });
  });
}

void sum_rows(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  with_float(x.dtype(), [&]<class T>(T) {
    with_either<T>(out.dtype(),
                   [&]<class Out>(Out) { sum_rows_of<Out, T>(stream, out, x, write); });
  });
}

}  // namespace sextant::cpu
