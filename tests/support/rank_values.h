#pragma once
#include <cstdint>
#include <vector>

#include "comm/call.h"
#include "tensor/convert.h"

namespace sextant {

// Elements that ranks give to collectives, and what must come out, computed plainly.

// Small whole numbers: any op of a few ranks of them is exact in every type.
inline double rank_value(int rank, int64_t element) {
  return static_cast<double>((rank * 7 + element * 3) % 13 - 6);
}

template <class T>
T value_as(double x) {
  if constexpr (kIsNarrow<T>)
    return round_nearest<T>(x);
  else
    return static_cast<T>(x);
}

template <class T>
double value_of(T x) {
  if constexpr (kIsNarrow<T>)
    return static_cast<double>(widen(x));
  else
    return static_cast<double>(x);
}

template <class T>
std::vector<T> rank_values(int rank, int64_t begin, int64_t end) {
  std::vector<T> values;
  for (int64_t i = begin; i < end; ++i) values.push_back(value_as<T>(rank_value(rank, i)));
  return values;
}

inline double reduced_value(int ranks, int64_t element, ReduceOp op) {
  double result = rank_value(0, element);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = rank_value(rank, element);
    if (op == ReduceOp::Sum) result += next;
    if (op == ReduceOp::Max && next > result) result = next;
    if (op == ReduceOp::Min && next < result) result = next;
  }
  return result;
}

// Parts of which some are empty.
inline std::vector<int64_t> uneven_sizes(int ranks, int64_t unit) {
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank)
    sizes.push_back(rank % 3 == 1 ? 0 : unit * (rank + 1) + rank);
  return sizes;
}

inline int64_t sum_of(const std::vector<int64_t>& sizes) {
  int64_t sum = 0;
  for (const int64_t size : sizes) sum += size;
  return sum;
}

}  // namespace sextant
