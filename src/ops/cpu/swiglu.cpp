#include "ops/swiglu.h"

#include <algorithm>

#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 8192;  // of one piece of work

int64_t rows_of_piece(int64_t width) {
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, width));
}

}  // namespace

void swiglu(Stream& stream, Tensor& y, const Tensor& gate_up) {
  const int64_t ffn = y.dim(1);
  with_float(y.dtype(), [&]<class T>(T) {
    stream.team().for_pieces(y.dim(0), rows_of_piece(ffn), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = gate_up.data<T>() + row * 2 * ffn;
        const T* up = gate + ffn;
        T* out = y.data<T>() + row * ffn;
        for_packs<Compute<T>>(0, ffn, [&](auto at) { at.put(out, silu(at(gate)) * at(up)); });
      }
    });
  });
}

// Both inputs of a pack are read before either gradient is written: dgate_up may be gate_up.
void swiglu_backward(Stream& stream, Tensor& dgate_up, const Tensor& dy, const Tensor& gate_up) {
  const int64_t ffn = dy.dim(1);
  with_float(dy.dtype(), [&]<class T>(T) {
    stream.team().for_pieces(dy.dim(0), rows_of_piece(ffn), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = gate_up.data<T>() + row * 2 * ffn;
        const T* above = dy.data<T>() + row * ffn;
        T* dgate = dgate_up.data<T>() + row * 2 * ffn;
        for_packs<Compute<T>>(0, ffn, [&](auto at) {
          const VectorOf<T> x = at(gate), up = at(gate + ffn), d = at(above);
          at.put(dgate, d * up * silu_grad(x));
          at.put(dgate + ffn, d * silu(x));
        });
      }
    });
  });
}

}  // namespace sextant::cpu
