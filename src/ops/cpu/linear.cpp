#include "ops/linear.h"

#include <algorithm>

#include "ops/cpu/vector_math.h"

namespace sextant::cpu {

void sum_rows(Stream& stream, Tensor& out, const Tensor& x, Write write);

namespace {

constexpr int64_t kColumns = 64;  // of one piece: whole cache lines, sums in registers

template <class T>
void sum_columns(T* out, const T* x, int64_t rows, int64_t stride, int64_t columns, Write write) {
  T sums[kColumns];
  for (int64_t i = 0; i < columns; ++i) sums[i] = write == Write::Chain ? out[i] : T{0};
  if (columns == kColumns) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < kColumns; ++i) sums[i] += x[row * stride + i];
  } else {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < columns; ++i) sums[i] += x[row * stride + i];
  }
  for (int64_t i = 0; i < columns; ++i) out[i] = write == Write::Add ? out[i] + sums[i] : sums[i];
}

template <class T>
void sum_rows_of(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  T* sums = out.data<T>();
  const T* in = x.data<T>();
  const int64_t rows = x.dim(0), columns = x.dim(1);
  stream.team().for_pieces(columns, kColumns, [&](int64_t begin, int64_t end, int) {
    sum_columns(sums + begin, in + begin, rows, columns, end - begin, write);
  });
}

}  // namespace

void sum_rows(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  if (x.dtype() == DType::F32)
    sum_rows_of<float>(stream, out, x, write);
  else
    sum_rows_of<double>(stream, out, x, write);
}

}  // namespace sextant::cpu
