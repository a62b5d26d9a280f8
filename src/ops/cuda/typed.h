#pragma once
// Elements whose type is known at run time only, alike for all threads of a block. Kernels that
// move as many bytes as an optimizer's lose nothing by the choice.
#include "ops/cuda/kernel.h"

namespace sextant::cuda {

// An array of f32, bf16 or f16.
struct Typed {
  void* data = nullptr;
  DType type = DType::F32;

  Typed() = default;
  Typed(const char* op, const Tensor& tensor)
      : data(const_cast<std::byte*>(tensor.raw())), type(tensor.dtype()) {
    SXT_CHECK(!tensor || type == DType::F32 || type == DType::BF16 || type == DType::F16, Usage, op,
              ": ", name_of(type), " runs on the CPU only");
  }

  // Whether packs of `count` elements are aligned.
  bool has_packs(int64_t count) const {
    return reinterpret_cast<uintptr_t>(data) % std::min<size_t>(16, count * size_of(type)) == 0;
  }
  template <int N>
  __device__ void load(float (&to)[N], int64_t at) const {
    switch (type) {
      case DType::BF16:
        return cuda::load(to, static_cast<const bf16*>(data) + at);
      case DType::F16:
        return cuda::load(to, static_cast<const f16*>(data) + at);
      default:
        return cuda::load(to, static_cast<const float*>(data) + at);
    }
  }
  // Rounded to nearest even.
  template <int N>
  __device__ void store(int64_t at, const float (&from)[N]) const {
    switch (type) {
      case DType::BF16:
        return cuda::store(static_cast<bf16*>(data) + at, from);
      case DType::F16:
        return cuda::store(static_cast<f16*>(data) + at, from);
      default:
        return cuda::store(static_cast<float*>(data) + at, from);
    }
  }
};

}  // namespace sextant::cuda
