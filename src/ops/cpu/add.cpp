#include "ops/add.h"

#include "ops/cpu/packs.h"

namespace sextant::cpu {

constexpr int64_t kGrain = 16384;

void add(Stream& stream, Tensor& y, const Tensor& a, const Tensor& b) {
  with_float(a.dtype(), [&]<class T>(T) {
    T* out = y.data<T>();
    const T* left = a.data<T>();
    const T* right = b.data<T>();
    stream.team().for_pieces(a.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      for_packs<Compute<T>>(begin, end, [&](auto at) { at.put(out, at(left) + at(right)); });
    });
  });
}

}  // namespace sextant::cpu
