// A kernel knows the type that it writes; the type that it reads is a choice that all its threads
// make alike, so there are not as many kernels as pairs of types. The conversions are those of the
// CPU, bit by bit.
#include "ops/cast.h"

#include "ops/cuda/draw.h"
#include "tensor/convert.h"

namespace sextant::cuda {
namespace {

constexpr int kElements = 8;  // of a thread

template <class From, class Wide, int N>
__device__ void read_as(Wide (&to)[N], const void* from, int64_t first) {
  const auto pack = *reinterpret_cast<const Pack<From, N>*>(static_cast<const From*>(from) + first);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (kIsNarrow<From>) {
      to[i] = widen(pack.values[i]);
    } else {
      to[i] = static_cast<Wide>(pack.values[i]);
    }
  }
}

// Wide is double for f64 and float for all other types.
template <class Wide, int N>
__device__ void read(Wide (&to)[N], const void* from, DType type, int64_t first) {
  if constexpr (std::is_same_v<Wide, double>) {
    return read_as<double>(to, from, first);
  } else {
    switch (type) {
      case DType::BF16:
        return read_as<bf16>(to, from, first);
      case DType::F16:
        return read_as<f16>(to, from, first);
      case DType::F8E4M3:
        return read_as<f8e4m3>(to, from, first);
      case DType::F8E5M2:
        return read_as<f8e5m2>(to, from, first);
      default:
        return read_as<float>(to, from, first);
    }
  }
}

template <class To, Rounding kRounding, class Wide>
__device__ To converted(Wide x, uint32_t random) {
  if constexpr (kRounding == Rounding::Stochastic && sizeof(To) < sizeof(Wide)) {
    return round_stochastic<To>(x, random);
  } else if constexpr (kIsNarrow<To>) {
    return round_nearest<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class Wide, Rounding kRounding, int N>
__device__ void convert_some(To* to, const void* from, DType type, int64_t first, PhiloxKey key,
                             int64_t first_element) {
  Wide values[N];
  uint32_t words[N] = {};
  read(values, from, type, first);
  if constexpr (kRounding == Rounding::Stochastic)
    draw(words, key, static_cast<uint64_t>(first_element + first), 0, 0);
  Pack<To, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = converted<To, kRounding>(values[i], words[i]);
  *reinterpret_cast<Pack<To, N>*>(to + first) = pack;
}

template <class To, class Wide, Rounding kRounding, int N>
__global__ void cast_kernel(To* to, const void* from, DType type, int64_t count, PhiloxKey key,
                            int64_t first_element) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= count)
    return convert_some<To, Wide, kRounding, N>(to, from, type, first, key, first_element);
  for (int64_t i = first; i < count; ++i)
    convert_some<To, Wide, kRounding, 1>(to, from, type, i, key, first_element);
}

struct Call {
  Stream& stream;
  Tensor& y;
  const Tensor& x;
  PhiloxKey key;
  int64_t first_element;

  template <class To, class Wide, Rounding kRounding, int N>
  void run() {
    const int64_t count = x.elements();
    launch(stream, "cast", cast_kernel<To, Wide, kRounding, N>, grid_of(ceil_div(count, N)), kBlock,
           y.data<To>(), static_cast<const void*>(x.raw()), x.dtype(), count, key, first_element);
  }
  template <class To, class Wide, Rounding kRounding>
  void run() {
    // A thread's words are those of whole counters.
    const bool is_whole = kRounding == Rounding::NearestEven || first_element % 4 == 0;
    if (is_whole && are_aligned({y.raw(), x.raw()}))
      run<To, Wide, kRounding, kElements>();
    else
      run<To, Wide, kRounding, 1>();
  }
  template <class To, class Wide>
  void run(Rounding rounding) {
    if (rounding == Rounding::NearestEven)
      run<To, Wide, Rounding::NearestEven>();
    else
      run<To, Wide, Rounding::Stochastic>();
  }
};

}  // namespace

void cast(Stream& stream, Tensor& y, const Tensor& x, Rounding rounding, uint64_t seed,
          int64_t first_element) {
  if (x.dtype() == y.dtype() && rounding == Rounding::NearestEven) {
    if (x.raw() != y.raw())
      check(cudaMemcpyAsync(y.raw(), x.raw(), static_cast<size_t>(x.bytes()),
                            cudaMemcpyDeviceToDevice, queue_of(stream)),
            "cast");
    return;
  }
  const PhiloxKey key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  Call call{stream, y, x, key, first_element};
  with_floating(y.dtype(), [&]<class To>(To) {
    if (x.dtype() == DType::F64)
      call.run<To, double>(rounding);
    else
      call.run<To, float>(rounding);
  });
}

}  // namespace sextant::cuda
