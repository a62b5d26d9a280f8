#pragma once
#include "ops/dispatch.h"

namespace sextant {

enum class Activation { None, GeluTanh, GeluExact };

// Approximate FLOPs per element of an activation or its derivative.
inline constexpr double kActivationFlops = 10;

// Values that exist only while they are read, computed in f32 and rounded to the type of x: x
// itself, activation(x), or x * activation'(backward_of) where that is set.
//   backward_of: of the shape and type of x
struct Activated {
  Activation activation = Activation::None;
  Tensor backward_of = {};
};

// y = x activated; y may be x. On a GPU of bf16 only.
void activate(Stream& stream, Tensor& y, const Tensor& x, const Activated& activated);

}  // namespace sextant
