#include "ops/dropout.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/packs.h"
#include "ops/cpu/philox.h"
#include "ops/fault_texts.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 8192;  // of one piece of work
constexpr int64_t kFeatures = 256;   // drawn at once

PhiloxKey key_of(const DropoutMask& mask) {
  return {static_cast<uint32_t>(mask.seed) ^ static_cast<uint32_t>(mask.seed >> 32),
          static_cast<uint32_t>(stable_hash(mask.name))};
}

// y = x * scale where the word is at least `least`, else 0.
template <class T>
void apply(T* y, const T* x, const uint32_t* words, uint32_t least, Compute<T> scale,
           int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    y[i] = words[i] >= least ? element_of<T>(value_of(x[i]) * scale) : T{0};
}

void report_bad_tokens(Stream& stream, const Tensor& tokens) {
  const int32_t* token = tokens.data<int32_t>();
  for (int64_t row = 0; row < tokens.dim(0); ++row)
    if (token[row] < 0)
      return stream.report({Fault::Usage, "dropout", kBadTokenIndex, {token[row], row}});
}

// As a word of the counter.
uint32_t counter_of(Stream& stream, const Tensor& step) {
  const auto value = static_cast<int64_t>(step.data<double>()[0]);
  if (value < 0) stream.report({Fault::Usage, "dropout", kBadStep, {value}});
  return static_cast<uint32_t>(std::max<int64_t>(0, value));
}

}  // namespace

// Counter (token, feature / 4, step, 0), word feature % 4.
void dropout(Stream& stream, Tensor& y, const Tensor& x, const Tensor& tokens, const Tensor& step,
             const DropoutMask& mask) {
  report_bad_tokens(stream, tokens);
  const int64_t columns = x.dim(1);
  const PhiloxKey key = key_of(mask);
  const uint32_t counter = counter_of(stream, step);
  const auto least = static_cast<uint32_t>(std::min(std::round(mask.p * 0x1p32), 0x1p32 - 1));
  with_float(x.dtype(), [&]<class T>(T) {
    const auto scale = static_cast<Compute<T>>(1 / (1 - mask.p));
    const auto row_of = [&](int64_t row, uint32_t* words) {
      const auto token = static_cast<uint32_t>(std::max(0, tokens.data<int32_t>()[row]));
      for (int64_t column = 0; column < columns; column += kFeatures) {
        const int64_t feature = mask.first_feature + column, skip = feature % 4;
        const int64_t count = std::min(kFeatures, columns - column);
        for (int64_t i = 0; i < skip + count; i += kPhiloxWords)
          philox_four(words + i, token, static_cast<uint32_t>((feature - skip + i) / 4), counter,
                      key);
        const int64_t at = row * columns + column;
        apply(y.data<T>() + at, x.data<T>() + at, words + skip, least, scale, count);
      }
    };
    const int64_t grain = std::max<int64_t>(1, kElements / std::max<int64_t>(1, columns));
    stream.team().for_pieces(x.dim(0), grain, [&](int64_t begin, int64_t end, int) {
      uint32_t words[kFeatures + 2 * kPhiloxWords];
      for (int64_t row = begin; row < end; ++row) row_of(row, words);
    });
  });
}

}  // namespace sextant::cpu
