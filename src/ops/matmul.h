#pragma once
#include "ops/dispatch.h"

namespace sextant {

enum class Transpose { No, Yes };
enum class Activation { None, GeluTanh, GeluExact };

// Approximate FLOPs per element of an activation or its derivative.
inline constexpr double kActivationFlops = 10;

// Applied to each finished element, in this order; empty tensors are skipped.
//   value = sum over k (one chain of fused multiply-adds in ascending k, from 0 or, with
//           Write::Chain, from c)
//   value += bias[column]
//   pre_activation[row, column] = value;  value = activation(value)     when activation is set and
//                                                                      backward_of is not
//   value *= activation'(backward_of[row, column])                      when backward_of is set
//   c = value, or c += value with Write::Add
struct Epilogue {
  Write write = Write::Replace;
  Activation activation = Activation::None;
  Tensor bias = {};            // [n]
  Tensor pre_activation = {};  // [m, n], written
  Tensor backward_of = {};     // [m, n], read: pre-activation of the activation to backpropagate
};

// c[m, n] = op(a) * op(b). a, b, bias, pre_activation and backward_of are of one type; c is of that
// type, or of f32 where that is narrower. All is computed in f32 (f64 of f64) and rounded when it
// is written: the activation of a narrow type takes the value before its rounding. The bits of an
// element depend only on k and the values of its row of a and column of b, not on m, n, its
// position or the number of threads.
//   a: [m, k], or [k, m] with Transpose::Yes     b: [k, n], or [n, k] with Transpose::Yes
void matmul(Stream& stream, Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, const Epilogue& epilogue);

}  // namespace sextant
