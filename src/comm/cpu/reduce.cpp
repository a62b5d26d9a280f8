// A block of four vectors is reduced in registers: each input is read once, in rank order, before
// the block is written, so the output may alias an input. Four vectors hide the latency of an
// addition and read whole cache lines.
#include "comm/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "comm/cpu/lanes.h"
#include "comm/cpu/streaming.h"
#include "comm/with_types.h"

namespace sextant {
namespace {

constexpr int kVectors = 4;

// A NaN on either side is kept: it compares false with everything, including itself.
template <ReduceOp kOp, class L>
[[gnu::always_inline]] inline typename L::Vector combine(typename L::Vector a,
                                                         typename L::Vector b) {
  if constexpr (kOp == ReduceOp::Sum) return L::add(a, b);
  if constexpr (kOp == ReduceOp::Max) return ((a > b) | (a != a)) ? a : b;
  if constexpr (kOp == ReduceOp::Min) return ((a < b) | (a != a)) ? a : b;
}

// One block of all inputs; `at(input)` is its address in an input.
template <class L, ReduceOp kOp, Stores kStores, int kCount = kVectors, class At>
[[gnu::always_inline]] inline void reduce_block(typename L::Element* out, size_t inputs, At&& at,
                                                Into into) {
  typename L::Vector sum[kCount];
  const auto* input = at(0);
  for (int v = 0; v < kCount; ++v) sum[v] = L::load(input + v * L::kCount);
  for (size_t k = 1; k < inputs; ++k) {
    input = at(k);
    for (int v = 0; v < kCount; ++v)
      sum[v] = combine<kOp, L>(sum[v], L::load(input + v * L::kCount));
  }
  if (into == Into::Add)
    for (int v = 0; v < kCount; ++v) sum[v] = L::add(L::load(out + v * L::kCount), sum[v]);
  for (int v = 0; v < kCount; ++v) {
    const auto result = L::finish(sum[v]);
    if constexpr (kStores == Stores::Streaming)
      stream_vector(out + v * L::kCount, result);
    else
      std::memcpy(out + v * L::kCount, &result, sizeof result);
  }
}

// Sums of the types of training have forms of their own: streaming stores, and loops for the usual
// numbers of ranks.
template <class T, ReduceOp kOp>
constexpr bool kIsCommon = kOp == ReduceOp::Sum &&
                           (std::is_same_v<T, float> || std::is_same_v<T, bf16> ||
                            std::is_same_v<T, f16>);

// All whole blocks, for a number of inputs known at compile time; returns the elements done.
template <class T, ReduceOp kOp, Stores kStores, size_t kInputs>
int64_t reduce_blocks(T* out, std::span<const std::byte* const> in, int64_t first, int64_t count,
                      Into into) {
  using L = Lanes<T>;
  constexpr int64_t kBlock = kVectors * L::kCount;
  const T* from[kInputs];
  for (size_t k = 0; k < kInputs; ++k) from[k] = reinterpret_cast<const T*>(in[k]) + first;
  int64_t done = 0;
  for (; done + kBlock <= count; done += kBlock)
    reduce_block<L, kOp, kStores>(
        out + done, kInputs, [&](size_t k) { return from[k] + done; }, into);
  return done;
}

template <class T, ReduceOp kOp, Stores kStores>
int64_t reduce_blocks_of_any(T* out, std::span<const std::byte* const> in, int64_t first,
                             int64_t count, Into into) {
  using L = Lanes<T>;
  constexpr int64_t kBlock = kVectors * L::kCount;
  int64_t done = 0;
  for (; done + kBlock <= count; done += kBlock)
    reduce_block<L, kOp, kStores>(
        out + done, in.size(),
        [&](size_t k) { return reinterpret_cast<const T*>(in[k]) + first + done; }, into);
  return done;
}

template <class T, ReduceOp kOp, Stores kStores>
int64_t reduce_whole_blocks(T* out, std::span<const std::byte* const> in, int64_t first,
                            int64_t count, Into into) {
  if constexpr (kIsCommon<T, kOp>) {
    if (in.size() == 2) return reduce_blocks<T, kOp, kStores, 2>(out, in, first, count, into);
    if (in.size() == 4) return reduce_blocks<T, kOp, kStores, 4>(out, in, first, count, into);
    if (in.size() == 8) return reduce_blocks<T, kOp, kStores, 8>(out, in, first, count, into);
  }
  return reduce_blocks_of_any<T, kOp, kStores>(out, in, first, count, into);
}

// Elements first ... first + count - 1 of the inputs. Streaming needs `out` aligned to 32 bytes.
template <class T, ReduceOp kOp, Stores kStores>
void reduce_range(T* out, std::span<const std::byte* const> in, int64_t first, int64_t count,
                  Into into) {
  using L = Lanes<T>;
  int64_t done = reduce_whole_blocks<T, kOp, kStores>(out, in, first, count, into);
  for (; done + L::kCount <= count; done += L::kCount)
    reduce_block<L, kOp, Stores::Cached, 1>(
        out + done, in.size(),
        [&](size_t k) { return reinterpret_cast<const T*>(in[k]) + first + done; }, into);
  if (done == count) return;
  // The remainder goes through arrays of the size of a vector.
  const size_t bytes = static_cast<size_t>(count - done) * sizeof(T);
  T result[L::kCount] = {}, padded[L::kCount] = {};
  std::memcpy(result, out + done, bytes);
  reduce_block<L, kOp, Stores::Cached, 1>(
      result, in.size(),
      [&](size_t k) {
        std::memcpy(padded, reinterpret_cast<const T*>(in[k]) + first + done, bytes);
        return static_cast<const T*>(padded);
      },
      into);
  std::memcpy(out + done, result, bytes);
}

// As many outputs as inputs: each block is reduced once and stored kRanks times. Returns the
// elements done.
template <class T, ReduceOp kOp, size_t kRanks>
int64_t reduce_blocks_to_all(std::span<std::byte* const> out, std::span<const std::byte* const> in,
                             int64_t count) {
  using L = Lanes<T>;
  constexpr int64_t kBlock = kVectors * L::kCount;
  const T* from[kRanks];
  T* to[kRanks];
  for (size_t k = 0; k < kRanks; ++k) {
    from[k] = reinterpret_cast<const T*>(in[k]);
    to[k] = reinterpret_cast<T*>(out[k]);
  }
  int64_t done = 0;
  for (; done + kBlock <= count; done += kBlock) {
    typename L::Vector sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = L::load(from[0] + done + v * L::kCount);
    for (size_t k = 1; k < kRanks; ++k)
      for (int v = 0; v < kVectors; ++v)
        sum[v] = combine<kOp, L>(sum[v], L::load(from[k] + done + v * L::kCount));
    for (size_t k = 0; k < kRanks; ++k)
      for (int v = 0; v < kVectors; ++v) {
        const auto result = L::finish(sum[v]);
        std::memcpy(to[k] + done + v * L::kCount, &result, sizeof result);
      }
  }
  return done;
}

// The remainder after the whole blocks is reduced once and copied.
template <class T, ReduceOp kOp>
void reduce_range_to_all(std::span<std::byte* const> out, std::span<const std::byte* const> in,
                         int64_t count) {
  int64_t done = 0;
  if constexpr (kIsCommon<T, kOp>) {
    done = out.size() == 2   ? reduce_blocks_to_all<T, kOp, 2>(out, in, count)
           : out.size() == 4 ? reduce_blocks_to_all<T, kOp, 4>(out, in, count)
                             : reduce_blocks_to_all<T, kOp, 8>(out, in, count);
  }
  if (done == count) return;
  const auto at = [&](size_t k) { return reinterpret_cast<T*>(out[k]) + done; };
  reduce_range<T, kOp, Stores::Cached>(at(0), in, done, count - done, Into::Replace);
  for (size_t k = 1; k < out.size(); ++k)
    std::memcpy(at(k), at(0), static_cast<size_t>(count - done) * sizeof(T));
}

template <class T, ReduceOp kOp>
void reduce_all(std::byte* out_bytes, std::span<const std::byte* const> in, int64_t count,
                Into into, Stores stores) {
  T* out = reinterpret_cast<T*>(out_bytes);
  // Into::Add reads the output, so it is in the cache anyway.
  if (!kIsCommon<T, kOp> || stores == Stores::Cached || into == Into::Add)
    return reduce_range<T, kOp, Stores::Cached>(out, in, 0, count, into);
  const auto off = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(out_bytes) & 31);
  const int64_t head = std::min(count, off / static_cast<int64_t>(sizeof(T)));
  reduce_range<T, kOp, Stores::Cached>(out, in, 0, head, into);
  if constexpr (kIsCommon<T, kOp>)
    reduce_range<T, kOp, Stores::Streaming>(out + head, in, head, count - head, into);
}

}  // namespace

void reduce_into(std::byte* out, std::span<const std::byte* const> in, int64_t count, DType dtype,
                 ReduceOp reduce_op, Into into, Stores stores) {
  SXT_CHECK(!in.empty(), Internal, "a reduction of nothing");
  with_types(dtype, reduce_op,
             [&]<class T, ReduceOp kOp>() { reduce_all<T, kOp>(out, in, count, into, stores); });
}

void reduce_to_all(std::span<std::byte* const> out, std::span<const std::byte* const> in,
                   int64_t count, DType dtype, ReduceOp reduce_op) {
  SXT_CHECK(out.size() == in.size() && has_reduce_to_all(static_cast<int>(out.size())), Internal,
            "a reduction of ", in.size(), " into ", out.size());
  with_types(dtype, reduce_op,
             [&]<class T, ReduceOp kOp>() { reduce_range_to_all<T, kOp>(out, in, count); });
}

// Streaming copies go tile by tile: memory is faster with all reads of a tile before its writes
// than with reads and writes interleaved.
void copy_into(std::byte* out, const std::byte* in, int64_t bytes, Stores stores, Source source) {
  if (out == in || bytes == 0) return;
  if (stores == Stores::Cached) return copy_bytes(out, in, bytes);
  if (source == Source::Cache) return stream_bytes(out, in, bytes);
  constexpr int64_t kTile = 4 << 10;
  for (int64_t begin = 0; begin < bytes; begin += kTile) {
    const int64_t length = std::min(kTile, bytes - begin);
    for (int64_t line = 0; line < length; line += 64) __builtin_prefetch(in + begin + line);
    stream_bytes(out + begin, in + begin, length);
  }
}

void finish_stores() {
  end_streaming();
}

}  // namespace sextant
