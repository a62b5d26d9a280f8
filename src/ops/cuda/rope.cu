#include "ops/rope.h"

#include "ops/cpu/rope_frequency.h"
#include "ops/cuda/bad_rows.h"
#include "ops/fault_texts.h"

namespace sextant::cuda {
namespace {

constexpr int kPairs = 128;  // of one launch of the table

struct Angles {
  double per_position[kPairs];
};

// The frequencies are the host's; cosine and sine may differ in their last bit before they are
// rounded to f32.
__global__ void table_kernel(float* cos_table, float* sin_table, int64_t positions, int64_t half,
                             int64_t first, int64_t count, double attention_factor,
                             const __grid_constant__ Angles angles) {
  for_cells(positions, count, [&](int64_t position, int64_t i) {
    double sine, cosine;
    sincos(static_cast<double>(position) * angles.per_position[i], &sine, &cosine);
    cos_table[position * half + first + i] = static_cast<float>(attention_factor * cosine);
    sin_table[position * half + first + i] = static_cast<float>(attention_factor * sine);
  });
}

struct Layout {
  int64_t tokens, width, half;  // width of a row of qkv
  int group;                    // query heads of one key-value head
  int64_t table;                // positions
};

// A thread turns N pairs (first, second) of one head; packs: of the turned heads of a token.
template <class T, int N>
__global__ void rope_kernel(T* qkv, const int32_t* positions, const float* cos_table,
                            const float* sin_table, Layout layout, int packs, float sign,
                            Report bad_position) {
  const auto is_bad = [&](int32_t position) { return position < 0 || position >= layout.table; };
  for_cells(layout.tokens, packs, [&](int64_t token, int64_t pack) {
    const int32_t position = positions[token];
    if (pack == 0 && is_bad(position) && is_first_bad(positions, token, is_bad))
      bad_position(position, token, layout.table);
    if (layout.table == 0) return;  // reported, and there is no row to use instead
    const int64_t row = min(max(int64_t{position}, int64_t{0}), layout.table - 1);
    const int per_head = static_cast<int>(layout.half) / N;
    const int head = static_cast<int>(pack) / per_head;  // of queries and keys
    const int64_t pair = (static_cast<int>(pack) % per_head) * N;
    const int64_t in_row = head + head / (layout.group + 1);  // values lie between
    T* first = qkv + token * layout.width + in_row * 2 * layout.half + pair;
    float x[N], y[N], c[N], s[N];
    load(x, first);
    load(y, first + layout.half);
    load(c, cos_table + row * layout.half + pair);
    load(s, sin_table + row * layout.half + pair);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float turned = x[i] * c[i] - y[i] * (sign * s[i]);
      y[i] = y[i] * c[i] + x[i] * (sign * s[i]);
      x[i] = turned;
    }
    store(first, x);
    store(first + layout.half, y);
  });
}

}  // namespace

void rope_table(Stream& stream, Tensor& cos, Tensor& sin, const RopeFrequencies& frequencies) {
  const int64_t positions = cos.dim(0), half = cos.dim(1);
  check_statistics("rope_table", cos);
  for (int64_t first = 0; first < half; first += kPairs) {
    const int64_t count = std::min<int64_t>(kPairs, half - first);
    Angles angles{};
    for (int64_t i = 0; i < count; ++i)
      angles.per_position[i] = frequency_of(frequencies, first + i, half);
    const Cells cells(positions, count);
    launch(stream, "rope_table", table_kernel, cells.grid, cells.block, cos.data<float>(),
           sin.data<float>(), positions, half, first, count, frequencies.attention_factor, angles);
  }
}

void rope(Stream& stream, Tensor& qkv, const Tensor& positions, const Tensor& cos,
          const Tensor& sin, const Heads& heads, RopeDirection direction) {
  const int64_t half = heads.head_dim / 2;
  const Layout layout{heads.tokens(), heads.qkv_width(), half, static_cast<int>(heads.group()),
                      cos.dim(0)};
  const Report bad_position(stream, Fault::Usage, "rope", kBadPosition);
  with_compute("rope", qkv.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(half, {qkv.raw(), cos.raw(), sin.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const int64_t packs = (heads.heads + heads.kv_heads) * half / N;
                   const Cells cells(heads.tokens(), packs);
                   launch(stream, "rope", rope_kernel<T, N>, cells.grid, cells.block, qkv.data<T>(),
                          positions.data<int32_t>(), cos.data<float>(), sin.data<float>(), layout,
                          static_cast<int>(packs),
                          direction == RopeDirection::Forward ? 1.0F : -1.0F, bad_position);
                 });
  });
}

}  // namespace sextant::cuda
