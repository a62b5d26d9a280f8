#pragma once
#include "ops/activation.h"
#include "ops/quantize.h"

namespace sextant {

enum class Transpose { No, Yes };

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
  // [m], written by `write` as c is: the sum over k of each row of op(a), which is transposed. The
  // bias gradient beside a weight gradient. Not of fp8.
  Tensor sums = {};
  // Of fp8 operands: the largest absolute values of the blocks of a and b, as they lie in memory.
  Tensor amax_a = {}, amax_b = {};
  ScaleBlock block_a = {}, block_b = {};
};

// c[m, n] = op(a) * op(b). a, b, bias, pre_activation and backward_of are of one type; c is of that
// type, or of f32 where that is narrower. All is computed in f32 (f64 of f64) and rounded when it
// is written: the activation of a narrow type takes the value before its rounding. The bits of an
// element depend only on k and the values of its row of a and column of b, not on m, n, its
// position or the number of threads.
//
// a and b may both be fp8, each of either type. With one scale each (fp8_scale), an element times
// its scale, rounded to f32, is the number that is multiplied. With scales per block of k, the same
// blocks in both, the value before bias is
//   sum over blocks in ascending k: total = fma(scale_a * scale_b, sum of the block, total), from 0
// where the sum of a block is the chain of fused multiply-adds over the fp8 numbers from 0, and the
// product of the scales is rounded to f32; Write::Chain is then not possible. c, bias,
// pre_activation and backward_of are then of one type of f32, bf16 or f16; c may also be f32.
//   a: [m, k], or [k, m] with Transpose::Yes     b: [k, n], or [n, k] with Transpose::Yes
void matmul(Stream& stream, Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, const Epilogue& epilogue);

// The type of bias, pre_activation and backward_of in such a product.
DType epilogue_type(const Tensor& c, const Tensor& a, const Epilogue& epilogue);

}  // namespace sextant
