#include "ops/dropout.h"

#include <cmath>

#include "base/random.h"
#include "ops/cuda/bad_rows.h"
#include "ops/cuda/draw.h"
#include "ops/fault_texts.h"

namespace sextant::cuda {
namespace {

struct Mask {
  PhiloxKey key;
  uint32_t least;  // a word below it drops its element
  float scale;
  int64_t first_feature;
};

__device__ bool is_bad(int32_t token) {
  return token < 0;
}

// A bad token is reported before a bad step.
__device__ void report_bad_step(const Report& report, int64_t step, const int32_t* tokens,
                                int64_t rows) {
  if (step < 0 && is_first_bad(tokens, rows, is_bad)) report(step);
}

// Counter (token, feature / 4, step, 0), word feature % 4; packs begin with a word 0. y may be x.
template <class T, int N>
__global__ void dropout_kernel(T* y, const T* x, const int32_t* tokens, const double* step,
                               Mask mask, int64_t rows, int64_t packs, Report bad_token,
                               Report bad_step) {
  const auto number = static_cast<int64_t>(*step);
  const auto counter = static_cast<uint32_t>(max(int64_t{0}, number));
  for_cells(rows, packs, [&](int64_t row, int64_t pack) {
    const int32_t token = tokens[row];
    if (pack == 0) {
      if (is_bad(token) && is_first_bad(tokens, row, is_bad)) bad_token(token, row);
      if (row == 0) report_bad_step(bad_step, number, tokens, rows);
    }
    float values[N];
    load(values, x + (row * packs + pack) * N);
    const auto feature = static_cast<uint64_t>(mask.first_feature + pack * N);
    constexpr int kQuad = std::min(N, 4);  // elements of one counter here
#pragma unroll
    for (int i = 0; i < N; i += kQuad) {
      const std::array<uint32_t, 4> words =
          philox({static_cast<uint32_t>(max(0, token)), static_cast<uint32_t>((feature + i) / 4),
                  counter, 0},
                 mask.key);
#pragma unroll
      for (int j = 0; j < kQuad; ++j) {
        const uint32_t word = kQuad == 4 ? words[j] : word_of(words, feature % 4);
        values[i + j] = word >= mask.least ? values[i + j] * mask.scale : 0;
      }
    }
    store(y + (row * packs + pack) * N, values);
  });
}

Mask describe(const DropoutMask& mask) {
  return {{static_cast<uint32_t>(mask.seed) ^ static_cast<uint32_t>(mask.seed >> 32),
           static_cast<uint32_t>(stable_hash(mask.name))},
          static_cast<uint32_t>(std::min(std::round(mask.p * 0x1p32), 0x1p32 - 1)),
          static_cast<float>(1 / (1 - mask.p)),
          mask.first_feature};
}

}  // namespace

void dropout(Stream& stream, Tensor& y, const Tensor& x, const Tensor& tokens, const Tensor& step,
             const DropoutMask& mask) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  const Report bad_token(stream, Fault::Usage, "dropout", kBadTokenIndex);
  const Report bad_step(stream, Fault::Usage, "dropout", kBadStep);
  with_compute("dropout", x.dtype(), [&]<class T>(T) {
    with_pack<T>(mask.first_feature % 4 == 0 && can_pack<T>(columns, {y.raw(), x.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const Cells cells(rows, columns / N);
                   launch(stream, "dropout", dropout_kernel<T, N>, cells.grid, cells.block,
                          y.data<T>(), x.data<T>(), tokens.data<int32_t>(), step.data<double>(),
                          describe(mask), rows, columns / N, bad_token, bad_step);
                 });
  });
}

}  // namespace sextant::cuda
