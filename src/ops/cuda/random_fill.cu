#include "ops/random_fill.h"

#include "base/random.h"
#include "ops/cuda/kernel.h"
#include "tensor/convert.h"

namespace sextant::cuda {
namespace {

template <class T>
SXT_HOST_DEVICE T from_double(double x) {
  if constexpr (kIsNarrow<T>) {
    return round_nearest<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

// A thread draws the four elements of one counter. They are those of the CPU up to the last bit of
// its math library's log, cos and sin in double; the rounded elements seldom differ.
template <class T>
__global__ void fill_normal_kernel(T* y, int64_t count, PhiloxKey key, double std, int64_t first) {
  const int64_t block = first / 4 + int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (block * 4 >= first + count) return;
  const std::array<double, 4> four = normals_of(
      philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, key));
#pragma unroll
  for (int slot = 0; slot < 4; ++slot) {
    const int64_t i = block * 4 + slot - first;
    if (i >= 0 && i < count) y[i] = from_double<T>(std * four[slot]);
  }
}

template <class T>
__global__ void fill_constant_kernel(T* y, int64_t count, T value) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = value;
}

// f(T{}) also for f64: both fill what the host decides, at the start of a run.
template <class F>
void with_filled(const char* op, DType dtype, F&& f) {
  if (dtype == DType::F64) return f(double{});
  with_compute(op, dtype, f);
}

}  // namespace

void fill_normal(Stream& stream, Tensor& y, uint64_t seed, std::string_view name, double std,
                 int64_t first_element) {
  const PhiloxKey key = Random(seed, name).key();
  const int64_t count = y.elements();
  if (count == 0) return;
  const int64_t blocks = (first_element + count + 3) / 4 - first_element / 4;
  with_filled("fill_normal", y.dtype(), [&]<class T>(T) {
    launch(stream, "fill_normal", fill_normal_kernel<T>, grid_of(blocks), kBlock, y.data<T>(),
           count, key, std, first_element);
  });
}

void fill_constant(Stream& stream, Tensor& y, double value) {
  const int64_t count = y.elements();
  with_filled("fill_constant", y.dtype(), [&]<class T>(T) {
    launch(stream, "fill_constant", fill_constant_kernel<T>, grid_of(count), kBlock, y.data<T>(),
           count, from_double<T>(value));
  });
}

}  // namespace sextant::cuda
