#include "bench/cpu/memory_floor.h"

namespace sextant {

void memory_floor(Stream& stream, Tensor& a, Tensor& b, Tensor& c, const Tensor& read) {
  constexpr int64_t kGrain = 8192;  // as in adamw
  const Access access(stream);
  float* __restrict x = a.data<float>();
  float* __restrict y = b.data<float>();
  float* __restrict z = c.data<float>();
  const float* __restrict from = read.data<float>();
  stream.team().for_pieces(read.elements(), kGrain, [=](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      x[i] += from[i];
      y[i] += from[i];
      z[i] += from[i];
    }
  });
}

}  // namespace sextant
