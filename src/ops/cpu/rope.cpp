#include "ops/rope.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/packs.h"
#include "ops/cpu/rope_frequency.h"
#include "ops/fault_texts.h"

namespace sextant::cpu {
namespace {

template <class T>
void fill_table(Stream& stream, Tensor& cos, Tensor& sin, const RopeFrequencies& frequencies) {
  const int64_t positions = cos.dim(0), half = cos.dim(1);
  T* c = cos.data<T>();
  T* s = sin.data<T>();
  stream.team().for_pieces(half, 1, [&](int64_t i, int64_t, int) {
    const double frequency = frequency_of(frequencies, i, half);
    for (int64_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      c[position * half + i] = static_cast<T>(frequencies.attention_factor * std::cos(angle));
      s[position * half + i] = static_cast<T>(frequencies.attention_factor * std::sin(angle));
    }
  });
}

// (first, second) turned by the angle whose cosine and sine are given; sign -1 turns it back.
template <class T, class F = Compute<T>>
void rotate_head(T* __restrict first, T* __restrict second, const F* __restrict cos,
                 const F* __restrict sin, F sign, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const F x1 = value_of(first[i]), x2 = value_of(second[i]), s = sign * sin[i];
    first[i] = element_of<T>(x1 * cos[i] - x2 * s);
    second[i] = element_of<T>(x2 * cos[i] + x1 * s);
  }
}

void report_bad_positions(Stream& stream, const Tensor& positions, int64_t table) {
  const int32_t* position = positions.data<int32_t>();
  for (int64_t token = 0; token < positions.dim(0); ++token)
    if (position[token] < 0 || position[token] >= table)
      return stream.report({Fault::Usage, "rope", kBadPosition, {position[token], token, table}});
}

template <class T>
void rotate(Stream& stream, Tensor& qkv, const Tensor& positions, const Tensor& cos,
            const Tensor& sin, const Heads& heads, RopeDirection direction) {
  const int64_t half = heads.head_dim / 2, group = heads.group(), table = cos.dim(0);
  using F = Compute<T>;
  const F sign = direction == RopeDirection::Forward ? 1 : -1;
  const int32_t* position = positions.data<int32_t>();
  const F* c = cos.data<F>();
  const F* s = sin.data<F>();
  T* rows = qkv.data<T>();
  stream.team().for_pieces(heads.tokens(), 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t at = std::clamp<int64_t>(position[token], 0, table - 1);
      for (int64_t kv = 0; kv < heads.kv_heads; ++kv) {
        T* x = rows + token * heads.qkv_width() + kv * (group + 2) * heads.head_dim;
        for (int64_t head = 0; head <= group; ++head, x += 2 * half)  // queries, then the key
          rotate_head(x, x + half, c + at * half, s + at * half, sign, half);
      }
    }
  });
}

}  // namespace

void rope_table(Stream& stream, Tensor& cos, Tensor& sin, const RopeFrequencies& frequencies) {
  with_statistics(cos.dtype(), [&]<class T>(T) { fill_table<T>(stream, cos, sin, frequencies); });
}

void rope(Stream& stream, Tensor& qkv, const Tensor& positions, const Tensor& cos,
          const Tensor& sin, const Heads& heads, RopeDirection direction) {
  report_bad_positions(stream, positions, cos.dim(0));
  if (cos.dim(0) == 0) return;  // reported, and there is no row to use instead
  with_float(qkv.dtype(),
             [&]<class T>(T) { rotate<T>(stream, qkv, positions, cos, sin, heads, direction); });
}

}  // namespace sextant::cpu
