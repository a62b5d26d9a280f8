// A variant is an order of the work and a kind of store. Orders: line by line over all buffers, or
// block by block; one-to-one, or one-to-all. Stores: cached, non-temporal (which avoids reading a
// line that will be overwritten), or memcpy's choice.
#include "bench/cpu/collective_floor.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/range.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sextant {
namespace {

constexpr int64_t kBlock = 16384;  // bytes: long runs for memory bandwidth, yet fits a cache
using Vector = long long __attribute__((vector_size(32)));
constexpr int64_t kHalf = sizeof(Vector), kLine = 2 * kHalf;

Vector load(const std::byte* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// A line, as its two halves.
struct Cached {
  static void store(std::byte* to, Vector first, Vector second) {
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + kHalf, &second, sizeof second);
  }
  static void finish() {}
};

#if defined(__x86_64__)
struct Streaming {
  static void store(std::byte* to, Vector first, Vector second) {  // `to` is aligned
    auto* place = reinterpret_cast<__m256i*>(to);
    _mm256_stream_si256(place, reinterpret_cast<__m256i>(first));
    _mm256_stream_si256(place + 1, reinterpret_cast<__m256i>(second));
  }
  static void finish() { _mm_sfence(); }
};
// Loads that the compiler may not drop; nothing is computed.
void load_only(const std::byte* from) {
  const Vector first = load(from), second = load(from + kHalf);
  asm volatile("" ::"x"(first), "x"(second));
}
#else
using Streaming = Cached;
void load_only(const std::byte* from) {
  const Vector first = load(from), second = load(from + kHalf);
  asm volatile("" ::"m"(first), "m"(second));
}
#endif

struct Library : Cached {};  // copies by memcpy

// Calls f(offset) for whole lines of the range that are aligned in `base`, rest(begin, end) for the
// bytes before and after.
template <class F, class Rest>
void for_lines(const std::byte* base, const Range& range, F&& f, Rest&& rest) {
  const auto address = reinterpret_cast<uintptr_t>(base + range.begin);
  const int64_t before = static_cast<int64_t>(-address % kLine);
  int64_t at = std::min(range.begin + before, range.end);
  if (at > range.begin) rest(range.begin, at);
  for (; at + kLine <= range.end; at += kLine) f(at);
  if (at < range.end) rest(at, range.end);
}

template <class Stores>
void copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if constexpr (std::is_same_v<Stores, Library>) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else {
    for_lines(
        to, {0, bytes},
        [&](int64_t at) { Stores::store(to + at, load(from + at), load(from + at + kHalf)); },
        [&](int64_t begin, int64_t end) {
          std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
        });
  }
}

void read_all(const std::byte* from, const Range& range) {
  for_lines(
      from, range, [&](int64_t at) { load_only(from + at); }, [](int64_t, int64_t) {});
}

template <class F>
void for_blocks(const Range& range, F&& f) {
  for (int64_t at = range.begin; at < range.end; at += kBlock)
    f(at, std::min(kBlock, range.end - at));
}

// Reads a part of every buffer, then stores that of the first into all. All buffers are aligned
// like the first.
template <class Stores>
void spread_lines(const RankBuffers& b, const Range& range) {
  std::byte* const* out = b.out.data();
  const int ranks = b.ranks();
  for_lines(
      out[0], range,
      [&](int64_t at) {
        const Vector first = load(out[0] + at), second = load(out[0] + at + kHalf);
        for (int j = 1; j < ranks; ++j) load_only(out[j] + at);
        for (int j = 0; j < ranks; ++j) Stores::store(out[j] + at, first, second);
      },
      [&](int64_t begin, int64_t end) {
        for (int j = 1; j < ranks; ++j)
          std::memcpy(out[j] + begin, out[0] + begin, static_cast<size_t>(end - begin));
      });
}

template <class Stores>
void spread_blocks(const RankBuffers& b, const Range& range) {
  for_blocks(range, [&](int64_t at, int64_t bytes) {
    for (size_t j = 1; j < b.out.size(); ++j) read_all(b.out[j], {at, at + bytes});
    copy<Cached>(b.out[0] + at, b.out[0] + at, bytes);  // read, and written back unchanged
    for (size_t j = 1; j < b.out.size(); ++j) copy<Stores>(b.out[j] + at, b.out[0] + at, bytes);
  });
}

template <class Stores>
void read_lines(const RankBuffers& b, const Range& range, std::byte* out) {
  const std::byte* const* in = b.in.data();
  const int ranks = b.ranks();
  for_lines(
      out, {0, range.size()},
      [&](int64_t at) {
        for (int j = 1; j < ranks; ++j) load_only(in[j] + range.begin + at);
        const std::byte* from = in[0] + range.begin + at;
        Stores::store(out + at, load(from), load(from + kHalf));
      },
      [&](int64_t begin, int64_t end) {
        std::memcpy(out + begin, in[0] + range.begin + begin, static_cast<size_t>(end - begin));
      });
}

template <class Stores>
void read_blocks(const RankBuffers& b, const Range& range, std::byte* out) {
  for_blocks(range, [&](int64_t at, int64_t bytes) {
    for (size_t j = 1; j < b.in.size(); ++j) read_all(b.in[j], {at, at + bytes});
    copy<Stores>(out + at - range.begin, b.in[0] + at, bytes);
  });
}

// One-to-many copy, block by block.
template <class Stores>
void push(const RankBuffers& b, const std::byte* from, const Range& range, int skipped) {
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
  const Range own{rank * part, (rank + 1) * part};
  switch (operation) {
    case Operation::AllReduce:
      second ? spread_blocks<Stores>(b, own) : spread_lines<Stores>(b, own);
      break;
    case Operation::ReduceScatter:
      second ? read_blocks<Stores>(b, own, b.out[self]) : read_lines<Stores>(b, own, b.out[self]);
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
  const bool second = variant % 2 == 1;
  switch (variant / 2) {
    case 0:
      return run<Cached>(operation, second, rank, buffers);
    case 1:
      return run<Streaming>(operation, second, rank, buffers);
    default:
      return run<Library>(operation, second, rank, buffers);
  }
}

}  // namespace sextant
