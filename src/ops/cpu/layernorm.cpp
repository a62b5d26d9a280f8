#include "ops/layernorm.h"

#include <cmath>

#include "ops/cpu/row_blocks.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 16384;  // of one piece of work

template <class T, class F = Compute<T>>
void layernorm_row(T* y, F& mean, F& inv_std, const T* x, const T* weight, const T* bias,
                   int64_t hidden, F eps) {
  const F m = sum_packs<F>(hidden, [&](auto at) { return at(x); }) / static_cast<F>(hidden);
  const F variance = sum_packs<F>(hidden,
                                  [&](auto at) {
                                    const VectorOf<T> d = at(x) - m;
                                    return d * d;
                                  }) /
                     static_cast<F>(hidden);
  const F inv = 1 / std::sqrt(variance + eps);
  for_packs<F>(0, hidden, [&](auto at) { at.put(y, (at(x) - m) * inv * at(weight) + at(bias)); });
  mean = m;
  inv_std = inv;
}

// dx joins the residual, if there is one. With g = dy * weight and n = (x - mean) * inv_std: dx =
// inv_std * (g - mean(g) - n * mean(g n)).
template <class T, class F = Compute<T>>
void backward_row(T* dx, F* dweight, F* dbias, const T* dy, const T* x, F mean, F inv,
                  const T* weight, const T* residual, int64_t hidden) {
  const auto [sum_g, sum_gn] = two_sums_of_packs<F>(hidden, [&](auto at) {
    const VectorOf<T> g = at(dy) * at(weight);
    return TwoPacks<F>{g, g * ((at(x) - mean) * inv)};
  });
  const F mean_g = sum_g / static_cast<F>(hidden), mean_gn = sum_gn / static_cast<F>(hidden);
  const auto column = [&](auto at, VectorOf<T> before) {
    const VectorOf<T> n = (at(x) - mean) * inv;
    const VectorOf<T> d = at(dy);
    at.put(dweight, at(static_cast<const F*>(dweight)) + d * n);
    at.put(dbias, at(static_cast<const F*>(dbias)) + d);
    at.put(dx, before + inv * (d * at(weight) - mean_g - n * mean_gn));
  };
  if (residual != nullptr) {
    for_packs<F>(0, hidden, [&](auto at) { column(at, at(residual)); });
  } else {
    for_packs<F>(0, hidden, [&](auto at) { column(at, VectorOf<T>{}); });
  }
}

}  // namespace

void layernorm(Stream& stream, Tensor& y, Tensor& mean, Tensor& inv_std, Tensor& x,
               const Tensor& residual, const Tensor& weight, const Tensor& bias, double eps) {
  const int64_t hidden = x.dim(1);
  with_float(x.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    const int64_t grain = std::max<int64_t>(1, kElements / std::max<int64_t>(1, hidden));
    stream.team().for_pieces(x.dim(0), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        T* own = x.data<T>() + row * hidden;
        if (residual) add_row(own, residual.data<T>() + row * hidden, hidden);
        layernorm_row(y.data<T>() + row * hidden, mean.data<F>()[row], inv_std.data<F>()[row],
                      static_cast<const T*>(own), weight.data<T>(), bias.data<T>(), hidden,
                      static_cast<F>(eps));
      }
    });
  });
}

void layernorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, Tensor& dbias,
                        const Tensor& dy, const Tensor& x, const Tensor& mean,
                        const Tensor& inv_std, const Tensor& weight, const Tensor& residual,
                        Write write_dw) {
  const int64_t hidden = x.dim(1);
  with_float(x.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    const RowBlocks blocks = RowBlocks::make<F>(x.dim(0), 2 * hidden);
    blocks.for_rows<F>(stream, [&](int64_t row, F* sums) {
      backward_row(dx.data<T>() + row * hidden, sums, sums + hidden, dy.data<T>() + row * hidden,
                   x.data<T>() + row * hidden, mean.data<F>()[row], inv_std.data<F>()[row],
                   weight.data<T>(), residual ? residual.data<T>() + row * hidden : nullptr,
                   hidden);
    });
    blocks.fold_gradient<T>(stream, dweight, 0, write_dw);
    blocks.fold_gradient<T>(stream, dbias, hidden, write_dw);
  });
}

}  // namespace sextant::cpu
