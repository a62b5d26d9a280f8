#include "ops/cuda/column_sums.h"
#include "ops/cuda/fp8.cuh"
#include "ops/linear.h"

namespace sextant::cuda {

void sum_fp8_rows(Stream& stream, Tensor& out, const Tensor& x, const Tensor& amax,
                  const ScaleBlock& block, Write write);

namespace {

// As the sum of rows in linear.cu, each number with its scale.   partial: [gridDim.y, columns]
template <class Q, int N>
__global__ void __launch_bounds__(kBlock)
    sum_fp8_rows_kernel(float* partial, const Q* x, const float* amax, Tiles tiles, int64_t width,
                        int64_t rows, int64_t columns, int64_t per_block) {
  const int64_t column = (int64_t{blockIdx.x} * kWarp + threadIdx.x) * N;
  const int64_t begin = int64_t{blockIdx.y} * per_block, end = min(begin + per_block, rows);
  float sums[N] = {}, scales[N] = {};
  int64_t tile = -1;  // whose scales these are
  if (column < columns)
#pragma unroll 2
    for (int64_t row = begin + threadIdx.y; row < end; row += kSummedRows) {
      float values[N];
      load_fp8(values, x + row * columns + column);
      if (const int64_t own = tiles.row_of(row); own != tile) {
        tile = own;
#pragma unroll
        for (int i = 0; i < N; ++i)
          scales[i] = scale_of(amax[tile * width + tiles.column_of(column + i)], kLargestFp8<Q>);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += __fmul_rn(values[i], scales[i]);
    }
  store_partial<N>(partial, sums, columns);
}

}  // namespace

void sum_fp8_rows(Stream& stream, Tensor& out, const Tensor& x, const Tensor& amax,
                  const ScaleBlock& block, Write write) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  constexpr int64_t kLeastRows = 64;  // of a block
  constexpr int kCodes = 8;           // of a thread in a row
  auto* partial = reinterpret_cast<float*>(stream.shared_scratch().data());
  const int64_t most = partials_of(stream, ceil_div(rows, kLeastRows), columns);
  const int64_t per_block = std::max<int64_t>(1, ceil_div(rows, most));
  const int64_t partials = ceil_div(rows, per_block);
  with_fp8(x.dtype(), [&]<class Q>(Q) {
    const auto run = [&]<int N>(std::integral_constant<int, N>) {
      launch(stream, "sum_rows", sum_fp8_rows_kernel<Q, N>,
             dim3(static_cast<unsigned>(ceil_div(columns, kWarp * N)),
                  static_cast<unsigned>(partials)),
             dim3(kWarp, kSummedRows), partial, x.data<Q>(), amax.data<float>(), Tiles(block),
             amax.dim(1), rows, columns, per_block);
    };
    if (columns % kCodes == 0 && are_aligned({x.raw()}))
      run(std::integral_constant<int, kCodes>{});
    else
      run(std::integral_constant<int, 1>{});
  });
  with_compute("linear_backward_weight", out.dtype(), [&]<class G>(G) {
    fold<G>(stream, "sum_rows", out.data<G>(), nullptr, partial, partials, columns, write);
  });
}

}  // namespace sextant::cuda
