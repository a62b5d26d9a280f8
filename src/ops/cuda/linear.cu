#include "ops/linear.h"

#include "ops/cuda/column_sums.h"

namespace sextant::cuda {

void sum_rows(Stream& stream, Tensor& out, const Tensor& x, Write write);

namespace {

constexpr int kBlocksAtOnce = 5;  // of a multiprocessor

// A warp adds up every so many-th row for 32 packs of columns; the warps' sums are then added in
// their order. All begin with the last rows: a product that has just read x has left these in the
// second-level cache.   partial: [gridDim.y, columns]
template <class T, int N>
__global__ void __launch_bounds__(kBlock, kBlocksAtOnce)
    sum_rows_kernel(float* partial, const T* x, int64_t rows, int64_t columns) {
  const int64_t column = (int64_t{blockIdx.x} * kWarp + threadIdx.x) * N;
  const int64_t step = int64_t{gridDim.y} * kSummedRows;
  float sums[N] = {};
  if (column < columns)
#pragma unroll 4
    for (int64_t row = rows - 1 - (int64_t{blockIdx.y} * kSummedRows + threadIdx.y); row >= 0;
         row -= step) {
      float values[N];
      load(values, x + row * columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += values[i];
    }
  store_partial<N>(partial, sums, columns);
}

}  // namespace

void sum_rows(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  constexpr int64_t kLeastRows = 64;                             // of a block
  constexpr int64_t kBlocks = kMultiprocessors * kBlocksAtOnce;  // none waits for another to end
  auto* partial = reinterpret_cast<float*>(stream.shared_scratch().data());
  const int64_t groups = ceil_div(columns, int64_t{kWarp} * 16 / size_of(x.dtype()));
  const int64_t partials =
      partials_of(stream, ceil_div(rows, kLeastRows), columns,
                  std::clamp<int64_t>(kBlocks / std::max<int64_t>(1, groups), 16, kMostPartials));
  with_compute("linear_backward_weight", x.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(columns, {x.raw()}), [&]<int N>(std::integral_constant<int, N>) {
      launch(stream, "sum_rows", sum_rows_kernel<T, N>,
             dim3(static_cast<unsigned>(ceil_div(columns, kWarp * N)),
                  static_cast<unsigned>(partials)),
             dim3(kWarp, kSummedRows), partial, x.data<T>(), rows, columns);
    });
    with_either<T>("linear_backward_weight", out.dtype(), [&]<class G>(G) {
      fold<G>(stream, "sum_rows", out.data<G>(), nullptr, partial, partials, columns, write);
    });
  });
}

}  // namespace sextant::cuda
