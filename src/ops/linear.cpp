#include "ops/linear.h"

#include "ops/check.h"

namespace sextant {

void linear(Stream& stream, Tensor& y, const Tensor& x, const Tensor& weight,
            const Epilogue& epilogue) {
  matmul(stream, y, x, Transpose::No, weight, Transpose::Yes, epilogue);
}

void linear_backward_input(Stream& stream, Tensor& dx, const Tensor& dy, const Tensor& weight,
                           const Epilogue& epilogue) {
  matmul(stream, dx, dy, Transpose::No, weight, Transpose::No, epilogue);
}

// out[column] = sum of the rows of x, one chain of additions in row order. An element times its
// block's scale, rounded to f32, is a term.   x: [rows, columns]
void sum_fp8_rows(Stream& stream, Tensor& out, const Tensor& x, const Tensor& amax,
                  const ScaleBlock& block, Write write);
SXT_BACKENDS(sum_fp8_rows);

void linear_backward_weight(Stream& stream, Tensor& dweight, Tensor& dbias, const Tensor& dy,
                            const Tensor& x, Write write, const Epilogue& scales,
                            Transpose turned_dy, Transpose turned_x) {
  check_dims("linear_backward_weight", "dy", dy, 2);
  const bool is_turned = turned_dy == Transpose::Yes;
  SXT_CHECK(is_fp8(dy.dtype()) || (!is_turned && turned_x == Transpose::No), Usage,
            "linear_backward_weight: dy or x is transposed in ", name_of(dy.dtype()),
            ", only fp8 may be");
  if (dbias) {
    SXT_CHECK(!is_turned, Usage,
              "linear_backward_weight: dbias of a transposed dy, sum_turned_tiles has its sums");
    check_tensor("linear_backward_weight", "dbias", dbias, dweight.dtype(), Shape{dy.dim(1)});
  }
  Epilogue epilogue = scales;
  epilogue.write = write;
  if (!is_fp8(dy.dtype())) epilogue.sums = dbias;
  matmul(stream, dweight, dy, is_turned ? Transpose::No : Transpose::Yes, x, turned_x, epilogue);
  if (!dbias || !is_fp8(dy.dtype())) return;
  SXT_DISPATCH(stream,
               Work("sum_fp8_rows")
                   .writes(dbias)
                   .reads(dy, scales.amax_a, write == Write::Replace ? Tensor() : dbias)
                   .flops(2.0 * dy.elements()),
               sum_fp8_rows(stream, dbias, dy, scales.amax_a, scales.block_a, write));
}

}  // namespace sextant
