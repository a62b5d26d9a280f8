#include "ops/latent_heads.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/packs.h"
#include "ops/fault_texts.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kTokens = 16;  // of one piece of work

// A table of rotations; positions outside of it are reported and take the nearest row.
class Rotations {
 public:
  Rotations(Stream& stream, const char* op, const Tensor& positions, const Tensor& cos,
            const Tensor& sin)
      : positions_(positions.data<int32_t>()), cos_(cos), sin_(sin) {
    for (int64_t token = 0; token < positions.dim(0); ++token)
      if (positions_[token] < 0 || positions_[token] >= cos.dim(0)) {
        stream.report({Fault::Usage, op, kBadPosition, {positions_[token], token, cos.dim(0)}});
        break;
      }
  }
  // to = the pairs (i, i + half) of `from`, turned by the token's angles times `sign`, times
  // `scale`.
  template <class To, class From, class F>
  void turn(To* to, const From* from, int64_t token, F sign, F scale) const {
    const int64_t half = cos_.dim(1), last = cos_.dim(0) - 1;
    const int64_t row = std::clamp<int64_t>(positions_[token], 0, last);
    const F* cos = cos_.data<F>() + row * half;
    const F* sin = sin_.data<F>() + row * half;
    for (int64_t i = 0; i < half; ++i) {
      const F first = value_of(from[i]), second = value_of(from[i + half]), s = sign * sin[i];
      to[i] = element_of<To>((first * cos[i] - second * s) * scale);
      to[i + half] = element_of<To>((second * cos[i] + first * s) * scale);
    }
  }

 private:
  const int32_t* positions_;
  const Tensor& cos_;
  const Tensor& sin_;
};

template <class T>
void scale_columns(T* to, const T* from, int64_t columns, Compute<T> scale) {
  for (int64_t i = 0; i < columns; ++i) to[i] = element_of<T>(value_of(from[i]) * scale);
}

template <class F>
void for_tokens(Stream& stream, const LatentHeads& heads, F&& f) {
  stream.team().for_pieces(heads.tokens, kTokens, [&](int64_t begin, int64_t end, int) {
    for (int64_t token = begin; token < end; ++token) f(token);
  });
}

template <class T>
void join(Stream& stream, Tensor& qkv, const Tensor& q, const Tensor& kv, const Tensor& k_rope,
          const Rotations& rotations, const LatentHeads& h) {
  const int64_t dim = h.head_dim();
  const Compute<T> one = 1, scale = static_cast<Compute<T>>(h.query_scale);
  for_tokens(stream, h, [&](int64_t token) {
    T* to = qkv.data<T>() + token * h.heads * 3 * dim;
    const T* query = q.data<T>() + token * h.heads * dim;
    const T* key = kv.data<T>() + token * h.heads * h.kv();
    const T* shared = k_rope.data<T>() + token * h.rope;
    for (int64_t head = 0; head < h.heads; ++head, to += 3 * dim, query += dim, key += h.kv()) {
      scale_columns(to, query, h.nope, scale);
      rotations.turn(to + h.nope, query + h.nope, token, one, scale);
      std::copy_n(key, h.nope, to + dim);
      rotations.turn(to + dim + h.nope, shared, token, one, one);
      std::copy_n(key + h.nope, h.value, to + 2 * dim);
      std::fill(to + 2 * dim + h.value, to + 3 * dim, T{});
    }
  });
}

template <class T>
void split(Stream& stream, Tensor& dq, Tensor& dkv, Tensor& dk_rope, const Tensor& dqkv,
           const Rotations& rotations, const LatentHeads& h) {
  using F = Compute<T>;
  const int64_t dim = h.head_dim();
  const F back = -1, one = 1, scale = static_cast<F>(h.query_scale);
  stream.team().for_pieces(h.tokens, kTokens, [&](int64_t begin, int64_t end, int) {
    std::vector<F> sum(static_cast<size_t>(h.rope)), turned(sum.size());
    for (int64_t token = begin; token < end; ++token) {
      const T* from = dqkv.data<T>() + token * h.heads * 3 * dim;
      T* query = dq.data<T>() + token * h.heads * dim;
      T* key = dkv.data<T>() + token * h.heads * h.kv();
      std::fill(sum.begin(), sum.end(), F{0});
      for (int64_t head = 0; head < h.heads; ++head, from += 3 * dim, query += dim, key += h.kv()) {
        scale_columns(query, from, h.nope, scale);
        rotations.turn(query + h.nope, from + h.nope, token, back, scale);
        std::copy_n(from + dim, h.nope, key);
        std::copy_n(from + 2 * dim, h.value, key + h.nope);
        for (int64_t i = 0; i < h.rope; ++i)
          sum[static_cast<size_t>(i)] += value_of(from[dim + h.nope + i]);
      }
      rotations.turn(turned.data(), sum.data(), token, back, one);
      T* shared = dk_rope.data<T>() + token * h.rope;
      for (int64_t i = 0; i < h.rope; ++i)
        shared[i] = element_of<T>(turned[static_cast<size_t>(i)]);
    }
  });
}

}  // namespace

void join_latent_heads(Stream& stream, Tensor& qkv, const Tensor& q, const Tensor& kv,
                       const Tensor& k_rope, const Tensor& positions, const Tensor& cos,
                       const Tensor& sin, const LatentHeads& heads) {
  const Rotations rotations(stream, "join_latent_heads", positions, cos, sin);
  with_float(qkv.dtype(),
             [&]<class T>(T) { join<T>(stream, qkv, q, kv, k_rope, rotations, heads); });
}

void join_latent_heads_backward(Stream& stream, Tensor& dq, Tensor& dkv, Tensor& dk_rope,
                                const Tensor& dqkv, const Tensor& positions, const Tensor& cos,
                                const Tensor& sin, const LatentHeads& heads) {
  const Rotations rotations(stream, "join_latent_heads_backward", positions, cos, sin);
  with_float(dqkv.dtype(),
             [&]<class T>(T) { split<T>(stream, dq, dkv, dk_rope, dqkv, rotations, heads); });
}

void take_values(Stream& stream, Tensor& values, const Tensor& filled, const LatentHeads& heads) {
  with_float(values.dtype(), [&]<class T>(T) {
    for_tokens(stream, heads, [&](int64_t token) {
      for (int64_t head = token * heads.heads; head < (token + 1) * heads.heads; ++head)
        std::copy_n(filled.data<T>() + head * heads.head_dim(), heads.value,
                    values.data<T>() + head * heads.value);
    });
  });
}

void fill_values(Stream& stream, Tensor& filled, const Tensor& values, const LatentHeads& heads) {
  with_float(values.dtype(), [&]<class T>(T) {
    for_tokens(stream, heads, [&](int64_t token) {
      for (int64_t head = token * heads.heads; head < (token + 1) * heads.heads; ++head) {
        T* to = filled.data<T>() + head * heads.head_dim();
        std::copy_n(values.data<T>() + head * heads.value, heads.value, to);
        std::fill(to + heads.value, to + heads.head_dim(), T{});
      }
    });
  });
}

}  // namespace sextant::cpu
