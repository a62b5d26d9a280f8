// A block of elements is folded in a local array that stays in the first cache: each input is read
// once, in rank order, in loops that become vector instructions, and only the finished block is
// written, so that the output may be one of the inputs.
#include "comm/fold.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "comm/cpu/streaming.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

constexpr int64_t kBlock = 256;  // elements

// In what a type is folded.
template <class T>
struct WideOf {
  using Type = T;
};
template <>
struct WideOf<bf16> {
  using Type = float;
};
template <>
struct WideOf<f16> {
  using Type = float;
};

template <class T>
using Wide = typename WideOf<T>::Type;

template <class T>
[[gnu::always_inline]] inline Wide<T> load(T x) {
  if constexpr (kIsNarrow<T>)
    return widen(x);
  else
    return x;
}

template <class W>
[[gnu::always_inline]] inline W add(W a, W b) {  // integers wrap around
  if constexpr (std::is_integral_v<W>) {
    using Unsigned = std::make_unsigned_t<W>;
    return static_cast<W>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

// A NaN on either side is kept: it compares false with everything, itself too.
template <Fold kFold, class W>
[[gnu::always_inline]] inline W combine(W a, W b) {
  if constexpr (kFold == Fold::Sum) return add(a, b);
  if constexpr (kFold == Fold::Max) return a > b || a != a ? a : b;
  if constexpr (kFold == Fold::Min) return a < b || a != a ? a : b;
}

// The inputs' elements first ... first + length - 1, folded.
template <class T, Fold kFold>
[[gnu::always_inline]] inline void fold_block(Wide<T>* sum, std::span<const std::byte* const> in,
                                              int64_t first, int64_t length) {
  const T* a = reinterpret_cast<const T*>(in[0]) + first;
  if (in.size() == 1) {
    for (int64_t i = 0; i < length; ++i) sum[i] = load(a[i]);
    return;
  }
  const T* b = reinterpret_cast<const T*>(in[1]) + first;
  for (int64_t i = 0; i < length; ++i) sum[i] = combine<kFold>(load(a[i]), load(b[i]));
  for (size_t k = 2; k < in.size(); ++k) {
    const T* c = reinterpret_cast<const T*>(in[k]) + first;
    for (int64_t i = 0; i < length; ++i) sum[i] = combine<kFold>(sum[i], load(c[i]));
  }
}

template <class T>
[[gnu::always_inline]] inline void write_block(T* out, const Wide<T>* sum, int64_t length,
                                               Stores stores) {
  const T* result = nullptr;
  alignas(64) T rounded[kBlock];
  if constexpr (kIsNarrow<T>) {
    for (int64_t i = 0; i < length; ++i) rounded[i] = round_nearest<T>(sum[i]);
    result = rounded;
  } else {
    result = sum;
  }
  const auto bytes = static_cast<size_t>(length) * sizeof(T);
  if (stores == Stores::Streaming)
    stream_bytes(reinterpret_cast<std::byte*>(out), reinterpret_cast<const std::byte*>(result),
                 static_cast<int64_t>(bytes));
  else
    std::memcpy(out, result, bytes);
}

template <class T, Fold kFold>
void fold_all(std::byte* out_bytes, std::span<const std::byte* const> in, int64_t count, Into into,
              Stores stores) {
  T* out = reinterpret_cast<T*>(out_bytes);
  alignas(64) Wide<T> sum[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t length = std::min(kBlock, count - first);
    // A length the compiler knows makes loops without ends to tidy up.
    if (length == kBlock)
      fold_block<T, kFold>(sum, in, first, kBlock);
    else
      fold_block<T, kFold>(sum, in, first, length);
    if (into == Into::Add)
      for (int64_t i = 0; i < length; ++i) sum[i] = add(load(out[first + i]), sum[i]);
    write_block(out + first, sum, length, stores);
  }
  if (stores == Stores::Streaming) end_streaming();
}

template <class T>
void fold_as(std::byte* out, std::span<const std::byte* const> in, int64_t count, Fold fold,
             Into into, Stores stores) {
  switch (fold) {
    case Fold::Sum:
      return fold_all<T, Fold::Sum>(out, in, count, into, stores);
    case Fold::Max:
      return fold_all<T, Fold::Max>(out, in, count, into, stores);
    case Fold::Min:
      return fold_all<T, Fold::Min>(out, in, count, into, stores);
  }
}

}  // namespace

void fold_into(std::byte* out, std::span<const std::byte* const> in, int64_t count, DType dtype,
               Fold fold, Into into, Stores stores) {
  SXT_CHECK(!in.empty(), Internal, "a fold of nothing");
  switch (dtype) {
    case DType::F64:
      return fold_as<double>(out, in, count, fold, into, stores);
    case DType::F32:
      return fold_as<float>(out, in, count, fold, into, stores);
    case DType::BF16:
      return fold_as<bf16>(out, in, count, fold, into, stores);
    case DType::F16:
      return fold_as<f16>(out, in, count, fold, into, stores);
    case DType::I32:
      return fold_as<int32_t>(out, in, count, fold, into, stores);
    case DType::I64:
      return fold_as<int64_t>(out, in, count, fold, into, stores);
    default:
      SXT_FAIL(Internal, "a fold of ", name_of(dtype));
  }
}

// By tiles when it streams: reads of a tile first and writes after them suit the memory better than
// both by turns.
void copy_into(std::byte* out, const std::byte* in, int64_t bytes, Stores stores) {
  if (out == in || bytes == 0) return;
  if (stores == Stores::Cached) {
    std::memcpy(out, in, static_cast<size_t>(bytes));
    return;
  }
  constexpr int64_t kTile = 4 << 10;
  for (int64_t begin = 0; begin < bytes; begin += kTile) {
    const int64_t length = std::min(kTile, bytes - begin);
    for (int64_t line = 0; line < length; line += 64) __builtin_prefetch(in + begin + line);
    stream_bytes(out + begin, in + begin, length);
  }
  end_streaming();
}

}  // namespace sextant
