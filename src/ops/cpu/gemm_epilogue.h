#pragma once
#include "ops/cpu/gemm.h"

namespace sextant::cpu {

// A tile of finished sums and its place in c. `sums` has room for whole vectors in each row.
template <class T>
struct Tile {
  T* sums;
  int64_t stride;         // between rows of sums
  int64_t row, column;    // of its first element in c
  int64_t rows, columns;  // of it that exist in c
};

// Does to the tile what Epilogue says, in its order, and writes c.
template <class T>
void finish_tile(const Gemm<T>& problem, const Tile<T>& tile);

}  // namespace sextant::cpu
