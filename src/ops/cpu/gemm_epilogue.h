#pragma once
// The end of a tile: one pass over its sums, a step at a time on each vector. Compiled once per
// instruction set, as the micro-kernel is; the steps on an element are the same in each.
#include "ops/cpu/gemm.h"
#include "ops/cpu/vector_math.h"

namespace sextant::cpu {

// What the activation of an epilogue does, known while compiling so that its loop has no choices.
enum class Step { None, GeluTanh, GeluExact, GeluTanhBackward, GeluExactBackward };

SXT_INLINE Step step_of(const EpiloguePointers& todo) {
  if (todo.activation == Activation::None) return Step::None;
  const bool tanh = todo.activation == Activation::GeluTanh;
  if (todo.backward_of) return tanh ? Step::GeluTanhBackward : Step::GeluExactBackward;
  return tanh ? Step::GeluTanh : Step::GeluExact;
}

// One vector of sums: `lanes` of it exist, all when kWhole. `at` is its place in c. C: type of c;
// E: type of what the epilogue reads and writes beside c.
template <class V, class C, class E, Step kStep, bool kWhole>
SXT_INLINE void finish_vector(const Gemm<ElementOf<V>>& problem, V value, int64_t at,
                              int64_t column, int64_t lanes) {
  const EpiloguePointers& todo = problem.epilogue;
  const auto read = [lanes](const auto* from) __attribute__((always_inline)) {
    return kWhole ? load<V>(from) : load_some<V>(from, lanes);
  };
  const auto write = [lanes](auto* to, V what) __attribute__((always_inline)) {
    kWhole ? store<V>(to, what) : store_some<V>(to, what, lanes);
  };
  C* c = reinterpret_cast<C*>(problem.c);
  const auto* input = reinterpret_cast<const E*>(todo.backward_of);
  if (todo.bias) value = value + read(reinterpret_cast<const E*>(todo.bias) + column);
  if (todo.pre_activation) write(reinterpret_cast<E*>(todo.pre_activation) + at, value);
  if constexpr (kStep == Step::GeluTanh) value = gelu_tanh(value);
  if constexpr (kStep == Step::GeluExact) value = gelu_exact(value);
  if constexpr (kStep == Step::GeluTanhBackward) value = value * gelu_tanh_grad(read(input + at));
  if constexpr (kStep == Step::GeluExactBackward) value = value * gelu_exact_grad(read(input + at));
  if (todo.write == Write::Add) value = read(static_cast<const C*>(c) + at) + value;
  write(c + at, value);
}

template <class V, class C, class E, Step kStep>
void finish_rows(const Gemm<ElementOf<V>>& problem, const Tile<ElementOf<V>>& tile) {
  const int64_t whole = tile.columns / kLanes<V> * kLanes<V>, rest = tile.columns - whole;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const ElementOf<V>* sums = tile.sums + row * tile.stride;
    const int64_t at = (tile.row + row) * problem.n + tile.column;
    for (int64_t j = 0; j < whole; j += kLanes<V>)
      finish_vector<V, C, E, kStep, true>(problem, load<V>(sums + j), at + j, tile.column + j, 0);
    if (rest > 0)
      finish_vector<V, C, E, kStep, false>(problem, load<V>(sums + whole), at + whole,
                                           tile.column + whole, rest);
  }
}

template <class V, class C, class E>
void finish_step(const Gemm<ElementOf<V>>& problem, const Tile<ElementOf<V>>& tile) {
  switch (step_of(problem.epilogue)) {
    case Step::None:
      return finish_rows<V, C, E, Step::None>(problem, tile);
    case Step::GeluTanh:
      return finish_rows<V, C, E, Step::GeluTanh>(problem, tile);
    case Step::GeluExact:
      return finish_rows<V, C, E, Step::GeluExact>(problem, tile);
    case Step::GeluTanhBackward:
      return finish_rows<V, C, E, Step::GeluTanhBackward>(problem, tile);
    case Step::GeluExactBackward:
      return finish_rows<V, C, E, Step::GeluExactBackward>(problem, tile);
  }
}

template <class V>
void finish_tile(const Gemm<ElementOf<V>>& problem, const Tile<ElementOf<V>>& tile) {
  using T = ElementOf<V>;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (problem.epilogue.dtype == DType::BF16)
      return problem.is_c_of_sums() ? finish_step<V, float, bf16>(problem, tile)
                                    : finish_step<V, bf16, bf16>(problem, tile);
    if (problem.epilogue.dtype == DType::F16)
      return problem.is_c_of_sums() ? finish_step<V, float, f16>(problem, tile)
                                    : finish_step<V, f16, f16>(problem, tile);
  }
  finish_step<V, T, T>(problem, tile);
}

}  // namespace sextant::cpu
