#include "ops/rmsnorm.h"

#include <cmath>

#include "ops/cpu/row_blocks.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 16384;  // of one piece of work

template <class T, class F = Compute<T>>
F rmsnorm_row(T* y, const T* x, const T* weight, int64_t hidden, F eps) {
  const F squares = sum_packs<F>(hidden, [&](auto at) { return at(x) * at(x); });
  const F inv = 1 / std::sqrt(squares / static_cast<F>(hidden) + eps);
  for_packs<F>(0, hidden, [&](auto at) { at.put(y, at(x) * inv * at(weight)); });
  return inv;
}

// dx joins the residual, if there is one. With g = dy * weight: dx = inv * (g - x * inv^2 * mean(g
// x)).
template <class T, class F = Compute<T>>
void backward_row(T* dx, F* dweight, const T* dy, const T* x, F inv, const T* weight,
                  const T* residual, int64_t hidden) {
  const F mean_gn =
      sum_packs<F>(hidden, [&](auto at) { return at(dy) * at(weight) * (at(x) * inv); }) /
      static_cast<F>(hidden);
  const auto column = [&](auto at, VectorOf<T> before) {
    const VectorOf<T> n = at(x) * inv;
    const VectorOf<T> d = at(dy);
    at.put(dweight, at(static_cast<const F*>(dweight)) + d * n);
    at.put(dx, before + inv * (d * at(weight) - n * mean_gn));
  };
  if (residual != nullptr) {
    for_packs<F>(0, hidden, [&](auto at) { column(at, at(residual)); });
  } else {
    for_packs<F>(0, hidden, [&](auto at) { column(at, VectorOf<T>{}); });
  }
}

}  // namespace

void rmsnorm(Stream& stream, Tensor& y, Tensor& inv_rms, Tensor& x, const Tensor& residual,
             const Tensor& weight, double eps) {
  const int64_t hidden = x.dim(1);
  with_float(x.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    const int64_t grain = std::max<int64_t>(1, kElements / std::max<int64_t>(1, hidden));
    stream.team().for_pieces(x.dim(0), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        T* own = x.data<T>() + row * hidden;
        if (residual) add_row(own, residual.data<T>() + row * hidden, hidden);
        inv_rms.data<F>()[row] = rmsnorm_row(y.data<T>() + row * hidden, own, weight.data<T>(),
                                             hidden, static_cast<F>(eps));
      }
    });
  });
}

void rmsnorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, const Tensor& dy,
                      const Tensor& x, const Tensor& inv_rms, const Tensor& weight,
                      const Tensor& residual, Write write_dw) {
  const int64_t hidden = x.dim(1);
  with_float(x.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    const RowBlocks blocks = RowBlocks::make<F>(x.dim(0), hidden);
    blocks.for_rows<F>(stream, [&](int64_t row, F* sums) {
      backward_row(dx.data<T>() + row * hidden, sums, dy.data<T>() + row * hidden,
                   x.data<T>() + row * hidden, inv_rms.data<F>()[row], weight.data<T>(),
                   residual ? residual.data<T>() + row * hidden : nullptr, hidden);
    });
    blocks.fold_gradient<T>(stream, dweight, 0, write_dw);
  });
}

}  // namespace sextant::cpu
