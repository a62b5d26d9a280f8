// One short pass over the tile per step: the tile is in the first-level cache, and a pass for a
// step that is not asked for costs nothing.
#include "ops/cpu/gemm_epilogue.h"

#include "ops/cpu/vector_math.h"

namespace sextant::cpu {
namespace {

// f(sum vector, offset in c, column in c, lanes that exist) for every vector of the tile.
template <class T, class F>
[[gnu::always_inline]] inline void for_vectors(const Gemm<T>& problem, const Tile<T>& tile, F f) {
  using V = VectorOf<T>;
  for (int64_t row = 0; row < tile.rows; ++row) {
    T* sums = tile.sums + row * tile.stride;
    const int64_t offset = (tile.row + row) * problem.n + tile.column;
    for (int64_t j = 0; j < tile.columns; j += kLanes<V>)
      store<V>(sums + j, f(load<V>(sums + j), offset + j, tile.column + j, tile.columns - j));
  }
}

template <class T>
void activate(const Gemm<T>& problem, const Tile<T>& tile) {
  using V = VectorOf<T>;
  if (problem.epilogue.activation == Activation::GeluTanh)
    for_vectors(problem, tile, [](V sum, int64_t, int64_t, int64_t) { return gelu_tanh(sum); });
  else
    for_vectors(problem, tile, [](V sum, int64_t, int64_t, int64_t) { return gelu_exact(sum); });
}

template <class T>
void multiply_by_slope(const Gemm<T>& problem, const Tile<T>& tile) {
  using V = VectorOf<T>;
  const T* x = problem.epilogue.backward_of;
  if (problem.epilogue.activation == Activation::GeluTanh)
    for_vectors(problem, tile, [x](V sum, int64_t at, int64_t, int64_t lanes) {
      return sum * gelu_tanh_grad(load_some<V>(x + at, lanes));
    });
  else
    for_vectors(problem, tile, [x](V sum, int64_t at, int64_t, int64_t lanes) {
      return sum * gelu_exact_grad(load_some<V>(x + at, lanes));
    });
}

}  // namespace

template <class T>
void finish_tile(const Gemm<T>& problem, const Tile<T>& tile) {
  using V = VectorOf<T>;
  const EpiloguePointers<T>& todo = problem.epilogue;
  if (todo.bias)
    for_vectors(problem, tile, [&](V sum, int64_t, int64_t column, int64_t lanes) {
      return sum + load_some<V>(todo.bias + column, lanes);
    });
  if (todo.pre_activation)
    for_vectors(problem, tile, [&](V sum, int64_t at, int64_t, int64_t lanes) {
      store_some<V>(todo.pre_activation + at, sum, lanes);
      return sum;
    });
  if (todo.backward_of)
    multiply_by_slope(problem, tile);
  else if (todo.activation != Activation::None)
    activate(problem, tile);
  if (todo.residual)
    for_vectors(problem, tile, [&](V sum, int64_t at, int64_t, int64_t lanes) {
      return sum + load_some<V>(todo.residual + at, lanes);
    });
  const bool add = todo.write == Write::Add;
  for_vectors(problem, tile, [&](V sum, int64_t at, int64_t, int64_t lanes) {
    if (add) sum = load_some<V>(problem.c + at, lanes) + sum;
    store_some<V>(problem.c + at, sum, lanes);
    return sum;
  });
}

template void finish_tile(const Gemm<float>&, const Tile<float>&);
template void finish_tile(const Gemm<double>&, const Tile<double>&);

}  // namespace sextant::cpu
