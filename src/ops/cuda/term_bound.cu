#include "ops/term_bound.h"

#include "ops/cuda/kernel.h"

namespace sextant::cuda {
namespace {

constexpr int kMostBlocks = 1024;

// Once a step in a check, so written to be read: a thread adds a column up.
template <class T>
__global__ void column_sums(double* sums, const T* dy, int64_t rows, int64_t columns) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row)
    sum += fabs(static_cast<double>(widened(dy[row * columns + column])));
  sums[column] = sum;
}

// of_blocks[block] = the largest of its share of |x|; NaN counts as none, as on the CPU.
template <class T>
__global__ void largest_of_blocks(double* of_blocks, const T* x, int64_t count) {
  __shared__ double of_warps[kBlock / kWarp];
  double largest = 0;
  for (int64_t i = int64_t{blockIdx.x} * kBlock + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * kBlock) {
    if constexpr (std::is_same_v<T, double>) {
      largest = fmax(largest, fabs(x[i]));
    } else {
      largest = fmax(largest, static_cast<double>(fabsf(widened(x[i]))));
    }
  }
  largest = warp_max(largest);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const double other : of_warps) largest = fmax(largest, other);
  of_blocks[blockIdx.x] = largest;
}

__global__ void add_bound(double* bound, const double* largest_sum, const double* largest_x,
                          double factor) {
  bound[0] += factor * largest_sum[0] * (largest_x == nullptr ? 1 : largest_x[0]);
}

// out[0] = the largest |x|, out[1 ...] is used on the way.
template <class T>
void find_largest(Stream& stream, double* out, const T* x, int64_t count) {
  const auto blocks =
      static_cast<unsigned>(std::clamp<int64_t>(ceil_div(count, kBlock), 1, kMostBlocks));
  launch(stream, "term_bound", largest_of_blocks<T>, blocks, kBlock, out + 1, x, count);
  launch(stream, "term_bound", largest_of_blocks<double>, 1, kBlock, out,
         static_cast<const double*>(out + 1), int64_t{blocks});
}

}  // namespace

void term_bound(Stream& stream, Tensor& bound, const Tensor& dy, const Tensor& x, double factor) {
  const int64_t rows = dy.rows(), columns = dy.dim(-1);
  const std::span<std::byte> scratch = stream.shared_scratch();
  auto* of_dy = reinterpret_cast<double*>(scratch.data());
  double* of_x = of_dy + 1 + kMostBlocks;
  double* sums = of_x + 1 + kMostBlocks;
  const int64_t most = static_cast<int64_t>(scratch.size() / sizeof(double)) - (sums - of_dy);
  SXT_CHECK(columns <= most, Usage, "term_bound: ", columns, " columns, must be at most ", most);
  with_compute("term_bound", dy.dtype(), [&]<class T>(T) {
    launch(stream, "term_bound", column_sums<T>, grid_of(columns), kBlock, sums, dy.data<T>(), rows,
           columns);
  });
  find_largest<double>(stream, of_dy, sums, columns);
  if (x)
    with_compute("term_bound", x.dtype(),
                 [&]<class T>(T) { find_largest(stream, of_x, x.data<T>(), x.elements()); });
  launch(stream, "term_bound", add_bound, 1, 1, bound.data<double>(), of_dy, x ? of_x : nullptr,
         factor);
}

}  // namespace sextant::cuda
