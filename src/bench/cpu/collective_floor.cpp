// Variants are an order of the work (bit 0) and a kind of store (bit 1). Orders: vector by vector
// over all buffers at once, or block by block; to each his own, or from one to all. Stores: as
// ever, or past the caches, which spares reading a line that will be overwritten.
#include "bench/cpu/collective_floor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/share.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sextant {
namespace {

constexpr int64_t kBlock = 8192;  // bytes: two of them fit a first-level cache
using Vector = long long __attribute__((vector_size(32)));
constexpr int64_t kVector = sizeof(Vector);

Vector load(const std::byte* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Cached {
  static void store(std::byte* to, Vector value) { std::memcpy(to, &value, sizeof value); }
  static void finish() {}
};

#if defined(__x86_64__)
struct Streaming {
  static void store(std::byte* to, Vector value) {  // `to` is aligned
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
  }
  static void finish() { _mm_sfence(); }
};
// The compiler may not drop the load, and nothing is computed with it.
void load_only(const std::byte* from) {
  const Vector value = load(from);
  asm volatile("" ::"x"(value));
}
#else
using Streaming = Cached;
void load_only(const std::byte* from) {
  const Vector value = load(from);
  asm volatile("" ::"m"(value));
}
#endif

bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kVector == 0;
}

// f(offset) for whole vectors of the range that lie aligned in `base`; `rest(begin, end)` for the
// bytes before and after.
template <class F, class Rest>
void for_vectors(const std::byte* base, const Share& range, F&& f, Rest&& rest) {
  int64_t at = range.begin;
  while (at < range.end && !is_aligned(base + at)) ++at;
  if (at > range.begin) rest(range.begin, at);
  for (; at + kVector <= range.end; at += kVector) f(at);
  if (at < range.end) rest(at, range.end);
}

template <class Stores>
void copy(std::byte* to, const std::byte* from, int64_t bytes) {
  for_vectors(
      to, {0, bytes}, [&](int64_t at) { Stores::store(to + at, load(from + at)); },
      [&](int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
      });
}

template <class F>
void for_blocks(const Share& range, F&& f) {
  for (int64_t at = range.begin; at < range.end; at += kBlock)
    f(at, std::min(kBlock, range.end - at));
}

// Every vector moves one buffer on. All buffers are aligned like the first.
template <class Stores>
void rotate_vectors(const RankBuffers& b, const Share& range) {
  std::byte* const* out = b.out.data();
  const int last = b.ranks() - 1;
  for_vectors(
      out[0], range,
      [&](int64_t at) {
        const Vector first = load(out[0] + at);
        for (int j = 0; j < last; ++j) Stores::store(out[j] + at, load(out[j + 1] + at));
        Stores::store(out[last] + at, first);
      },
      [&](int64_t begin, int64_t end) {
        for (int j = 0; j < last; ++j)
          std::swap_ranges(out[j] + begin, out[j] + end, out[j + 1] + begin);
      });
}

template <class Stores>
void rotate_blocks(const RankBuffers& b, const Share& range) {
  alignas(64) std::array<std::byte, kBlock> first;
  const size_t last = b.out.size() - 1;
  for_blocks(range, [&](int64_t at, int64_t bytes) {
    copy<Cached>(first.data(), b.out[0] + at, bytes);
    for (size_t j = 0; j < last; ++j) copy<Stores>(b.out[j] + at, b.out[j + 1] + at, bytes);
    copy<Stores>(b.out[last] + at, first.data(), bytes);
  });
}

template <class Stores>
void read_vectors(const RankBuffers& b, const Share& range, std::byte* out) {
  const std::byte* const* in = b.in.data();
  const int ranks = b.ranks();
  for_vectors(
      out, {0, range.size()},
      [&](int64_t at) {
        for (int j = 1; j < ranks; ++j) load_only(in[j] + range.begin + at);
        Stores::store(out + at, load(in[0] + range.begin + at));
      },
      [&](int64_t begin, int64_t end) {
        std::memcpy(out + begin, in[0] + range.begin + begin, static_cast<size_t>(end - begin));
      });
}

template <class Stores>
void read_blocks(const RankBuffers& b, const Share& range, std::byte* out) {
  for_blocks(range, [&](int64_t at, int64_t bytes) {
    for (size_t j = 1; j < b.in.size(); ++j)
      for_vectors(
          b.in[j], {at, at + bytes}, [&](int64_t i) { load_only(b.in[j] + i); },
          [](int64_t, int64_t) {});
    copy<Stores>(out + at - range.begin, b.in[0] + at, bytes);
  });
}

// From one place to several, block by block.
template <class Stores>
void push(const RankBuffers& b, const std::byte* from, const Share& range, int skipped) {
  for_blocks({0, range.size()}, [&](int64_t at, int64_t bytes) {
    for (int j = 0; j < b.ranks(); ++j)
      if (j != skipped)
        copy<Stores>(b.out[static_cast<size_t>(j)] + range.begin + at, from + at, bytes);
  });
}

template <class Stores>
void run(Operation operation, bool second, int rank, const RankBuffers& b) {
  const auto self = static_cast<size_t>(rank);
  const int ranks = b.ranks();
  const int64_t part = b.bytes / ranks;
  const Share own{rank * part, (rank + 1) * part};
  switch (operation) {
    case Operation::AllReduce:
      second ? rotate_blocks<Stores>(b, own) : rotate_vectors<Stores>(b, own);
      break;
    case Operation::ReduceScatter:
      second ? read_blocks<Stores>(b, own, b.out[self]) : read_vectors<Stores>(b, own, b.out[self]);
      break;
    case Operation::AllGather:
      if (second) {
        push<Stores>(b, b.in[self], own, /*skipped=*/-1);
      } else {
        for (int j = 0; j < ranks; ++j) {
          const int from = (rank + j) % ranks;
          copy<Stores>(b.out[self] + from * part, b.in[static_cast<size_t>(from)], part);
        }
      }
      break;
    case Operation::AllToAll:
      for (int j = 0; j < ranks; ++j) {
        const int from = (rank + j) % ranks;
        copy<Stores>(b.out[self] + from * part, b.in[static_cast<size_t>(from)] + own.begin, part);
      }
      break;
    case Operation::Broadcast:
      if (second) {
        push<Stores>(b, b.out[0] + own.begin, own, /*skipped=*/0);
      } else if (rank != 0) {
        copy<Stores>(b.out[self], b.out[0], b.bytes);
      }
      break;
    default:
      SXT_FAIL(Usage, "no limit is known for ", name_of(operation));
  }
  Stores::finish();
}

}  // namespace

void collective_floor(Operation operation, int variant, int rank, const RankBuffers& buffers) {
  const bool second = (variant & 1) != 0;
  if ((variant & 2) != 0)
    run<Streaming>(operation, second, rank, buffers);
  else
    run<Cached>(operation, second, rank, buffers);
}

}  // namespace sextant
