#pragma once
#include <cstdint>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"
#include "ops/cpu/vector_math.h"

// Loops over contiguous elements, a vector register at a time. The body is written once, for packs:
// what is left at the end comes as a pack padded with zeros, of which only the real lanes are
// stored. So the bits of an element do not depend on where in a loop it falls.
namespace sextant::cpu {

// f(T{}) for a type that an op computes with: f32, f64, bf16 or f16.
template <class F>
void with_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F32:
      return f(float{});
    case DType::F64:
      return f(double{});
    case DType::BF16:
      return f(bf16{});
    case DType::F16:
      return f(f16{});
    default:
      SXT_FAIL(Internal, "an op on ", name_of(dtype));
  }
}

// f(F{}) for a type of statistics: f32 or f64.
template <class F>
void with_statistics(DType dtype, F&& f) {
  if (dtype == DType::F32) return f(float{});
  SXT_CHECK(dtype == DType::F64, Internal, "statistics in ", name_of(dtype));
  f(double{});
}

// f(G{}) for the type of a result that may be as narrow as T or as wide as its Compute, such as a
// gradient.
template <class T, class F>
void with_either(DType dtype, F&& f) {
  if (dtype == kDTypeOf<T>) return f(T{});
  f(Compute<T>{});
}

// f(T{}, R{}) for both.
template <class F>
void with_result(DType dtype, DType result, F&& f) {
  with_float(dtype, [&]<class T>(T) { with_either<T>(result, [&]<class R>(R) { f(T{}, R{}); }); });
}

// A whole pack of elements at `index`. Elements of narrow types are widened and rounded, so packs
// of one loop may come from memory of several types.
struct At {
  int64_t index;
  template <class T>
  VectorOf<T> operator()(const T* from) const {
    return load<VectorOf<T>>(from + index);
  }
  template <class T>
  void put(T* to, VectorOf<T> pack) const {
    store<VectorOf<T>>(to + index, pack);
  }
  static constexpr int64_t lanes() { return kLanes<f32x8>; }  // of floats
};

// The last `count` elements, fewer than a pack.
struct AtTail {
  int64_t index, count;
  template <class T>
  VectorOf<T> operator()(const T* from) const {
    return load_some<VectorOf<T>>(from + index, count);
  }
  template <class T>
  void put(T* to, VectorOf<T> pack) const {
    store_some<VectorOf<T>>(to + index, pack, count);
  }
  int64_t lanes() const { return count; }
  template <class T>
  VectorOf<T> without_padding(VectorOf<T> pack) const {
    for (int64_t lane = count; lane < kLanes<VectorOf<T>>; ++lane) pack[lane] = 0;
    return pack;
  }
};

// f(at) over [begin, end), where at(pointer) reads a pack and at.put(pointer, pack) writes one.
template <class T, class F>
void for_packs(int64_t begin, int64_t end, F&& f) {
  int64_t i = begin;
  for (; i + kLanes<VectorOf<T>> <= end; i += kLanes<VectorOf<T>>) f(At{i});
  if (i < end) f(AtTail{i, end - i});
}

// The lanes of a pack as one sum, halves first.
template <class T>
T sum_lanes(VectorOf<T> pack) {
  for (int64_t width = kLanes<VectorOf<T>> / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) pack[lane] += pack[lane + width];
  return pack[0];
}

// Sum of the packs term(at) over [0, count), in four chains: the order depends on count alone.
template <class T, class Term>
T sum_packs(int64_t count, Term&& term) {
  VectorOf<T> sums[4] = {};
  constexpr int64_t kStep = kLanes<VectorOf<T>>;
  int64_t i = 0;
  for (; i + 4 * kStep <= count; i += 4 * kStep) {
    sums[0] += term(At{i});
    sums[1] += term(At{i + kStep});
    sums[2] += term(At{i + 2 * kStep});
    sums[3] += term(At{i + 3 * kStep});
  }
  for (; i + kStep <= count; i += kStep) sums[0] += term(At{i});
  if (i < count) {
    const AtTail tail{i, count - i};
    sums[1] += tail.without_padding<T>(term(tail));
  }
  return sum_lanes<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// The same for two sums whose terms share their reads.
template <class T>
struct TwoPacks {
  VectorOf<T> first, second;
};
template <class T, class Terms>
std::pair<T, T> two_sums_of_packs(int64_t count, Terms&& terms) {
  VectorOf<T> first[2] = {}, second[2] = {};
  constexpr int64_t kStep = kLanes<VectorOf<T>>;
  const auto join = [&](int chain, const TwoPacks<T>& packs) {
    first[chain] += packs.first;
    second[chain] += packs.second;
  };
  int64_t i = 0;
  for (; i + 2 * kStep <= count; i += 2 * kStep) {
    join(0, terms(At{i}));
    join(1, terms(At{i + kStep}));
  }
  if (i + kStep <= count) {
    join(0, terms(At{i}));
    i += kStep;
  }
  if (i < count) {
    const AtTail tail{i, count - i};
    const TwoPacks<T> packs = terms(tail);
    join(1, {tail.without_padding<T>(packs.first), tail.without_padding<T>(packs.second)});
  }
  return {sum_lanes<T>(first[0] + first[1]), sum_lanes<T>(second[0] + second[1])};
}

// to += from.
template <class To, class From>
void add_row(To* to, const From* from, int64_t count) {
  for_packs<Compute<To>>(0, count,
                         [&](auto at) { at.put(to, at(static_cast<const To*>(to)) + at(from)); });
}

}  // namespace sextant::cpu
