#include "ops/head_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/row_blocks.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 16384;  // of one piece of work

template <class T, class F = Compute<T>>
F norm_head(T* y, const T* x, const T* weight, int64_t dim, F eps) {
  const F squares = sum_packs<F>(dim, [&](auto at) { return at(x) * at(x); });
  const F inv = 1 / std::sqrt(squares / static_cast<F>(dim) + eps);
  for_packs<F>(0, dim, [&](auto at) { at.put(y, at(x) * inv * at(weight)); });
  return inv;
}

// With n = x * inv: dx = inv * (w dy - n mean(w dy n)), dw += dy n. dx may be dy.
template <class T, class F = Compute<T>>
void norm_head_backward(T* dx, F* dw, const T* dy, const T* x, const T* weight, F inv,
                        int64_t dim) {
  const F mean = sum_packs<F>(dim, [&](auto at) { return at(weight) * at(dy) * (at(x) * inv); }) /
                 static_cast<F>(dim);
  for_packs<F>(0, dim, [&](auto at) {
    const VectorOf<T> n = at(x) * inv;
    const VectorOf<T> d = at(dy);
    at.put(dw, at(static_cast<const F*>(dw)) + d * n);
    at.put(dx, inv * (at(weight) * d - n * mean));
  });
}

}  // namespace

void head_norm(Stream& stream, Tensor& y, Tensor& inv_rms, const Tensor& qkv,
               const Tensor& q_weight, const Tensor& k_weight, const Heads& heads, double eps) {
  const int64_t dim = heads.head_dim, group = heads.group();
  const int64_t grain = std::max<int64_t>(1, kElements / ((group + 2) * dim));
  with_float(qkv.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    // One piece is some groups: the query heads of a key-value head, its key and its value.
    const int64_t groups = heads.tokens() * heads.kv_heads;
    stream.team().for_pieces(groups, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const T* x = qkv.data<T>() + i * (group + 2) * dim;
        T* out = y.data<T>() + i * (group + 2) * dim;
        F* inv = inv_rms.data<F>() + i * (group + 1);
        for (int64_t head = 0; head <= group; ++head)
          inv[head] = norm_head(out + head * dim, x + head * dim,
                                (head < group ? q_weight : k_weight).template data<T>(), dim,
                                static_cast<F>(eps));
        std::copy_n(x + (group + 1) * dim, dim, out + (group + 1) * dim);
      }
    });
  });
}

void head_norm_backward(Stream& stream, Tensor& dqkv, Tensor& dq_weight, Tensor& dk_weight,
                        const Tensor& dy, const Tensor& qkv, const Tensor& inv_rms,
                        const Tensor& q_weight, const Tensor& k_weight, const Heads& heads,
                        Write write_dw) {
  const int64_t dim = heads.head_dim, group = heads.group();
  with_float(qkv.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    const RowBlocks blocks = RowBlocks::make<F>(heads.tokens(), 2 * dim);
    blocks.for_rows<F>(stream, [&](int64_t token, F* sums) {  // sums: of q_weight, of k_weight
      for (int64_t i = token * heads.kv_heads; i < (token + 1) * heads.kv_heads; ++i) {
        const int64_t at = i * (group + 2) * dim, value = at + (group + 1) * dim;
        for (int64_t head = 0; head <= group; ++head) {
          const int64_t x = at + head * dim;
          norm_head_backward(dqkv.data<T>() + x, sums + (head < group ? 0 : dim), dy.data<T>() + x,
                             qkv.data<T>() + x,
                             (head < group ? q_weight : k_weight).template data<T>(),
                             inv_rms.data<F>()[i * (group + 1) + head], dim);
        }
        if (dqkv.raw() != dy.raw()) std::copy_n(dy.data<T>() + value, dim, dqkv.data<T>() + value);
      }
    });
    blocks.fold_gradient<T>(stream, dq_weight, 0, write_dw);
    blocks.fold_gradient<T>(stream, dk_weight, dim, write_dw);
  });
}

}  // namespace sextant::cpu
