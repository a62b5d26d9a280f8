#pragma once
#include "ops/matmul.h"

namespace sextant {

// y = x * weight^T with an epilogue for bias and activation.
//   x: [rows, in]   weight: [out, in]   y: [rows, out]
void linear(Stream& stream, Tensor& y, const Tensor& x, const Tensor& weight,
            const Epilogue& epilogue);

// Input gradient: dx = dy * weight; with epilogue.backward_of also the backward of the activation
// before this layer.
//   dy: [rows, out]   dx: [rows, in]
void linear_backward_input(Stream& stream, Tensor& dx, const Tensor& dy, const Tensor& weight,
                           const Epilogue& epilogue);

// Weight gradient: dweight = dy^T * x and, unless dbias is empty, dbias = sum of the rows of dy, in
// row order. `scales`: of fp8 dy and x, as a and b of Epilogue. Only these may be given transposed,
// dy without dbias: sum_turned_tiles makes that.
//   dweight: [out, in]   dbias: [out]   dy: [rows, out], or [out, rows] with Transpose::Yes; x too
void linear_backward_weight(Stream& stream, Tensor& dweight, Tensor& dbias, const Tensor& dy,
                            const Tensor& x, Write write, const Epilogue& scales = {},
                            Transpose turned_dy = Transpose::No,
                            Transpose turned_x = Transpose::No);

}  // namespace sextant
