#include "ops/matmul.h"

namespace sextant {

SXT_BACKENDS(matmul);

namespace {

void check_like_c(const char* name, const Tensor& tensor, const Tensor& c) {
  if (!tensor) return;
  SXT_CHECK(tensor.shape() == c.shape(), Usage, "matmul: ", name, " is ", tensor.shape(),
            ", must be ", c.shape(), " like c");
  SXT_CHECK(tensor.dtype() == c.dtype(), Usage, "matmul: ", name, " is ", name_of(tensor.dtype()),
            ", must be ", name_of(c.dtype()), " like c");
}

void check_epilogue(const Tensor& c, const Epilogue& epilogue) {
  if (epilogue.bias) {
    SXT_CHECK(epilogue.bias.shape() == Shape{c.dim(1)}, Usage, "matmul: bias is ",
              epilogue.bias.shape(), ", must be ", Shape{c.dim(1)}, " for c ", c.shape());
    SXT_CHECK(epilogue.bias.dtype() == c.dtype(), Usage, "matmul: bias is ",
              name_of(epilogue.bias.dtype()), ", must be ", name_of(c.dtype()), " like c");
  }
  check_like_c("pre_activation", epilogue.pre_activation, c);
  check_like_c("backward_of", epilogue.backward_of, c);
  check_like_c("residual", epilogue.residual, c);
  const bool has_activation = epilogue.activation != Activation::None;
  SXT_CHECK(has_activation || !epilogue.pre_activation, Usage,
            "matmul: pre_activation is given without an activation");
  SXT_CHECK(has_activation || !epilogue.backward_of, Usage,
            "matmul: backward_of is given without the activation it is of");
  SXT_CHECK(!(epilogue.pre_activation && epilogue.backward_of), Usage,
            "matmul: pre_activation and backward_of together; give one");
}

}  // namespace

void matmul(Stream& stream, Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, const Epilogue& epilogue) {
  SXT_CHECK(a.shape().dims() == 2 && b.shape().dims() == 2 && c.shape().dims() == 2, Usage,
            "matmul: a ", a.shape(), ", b ", b.shape(), ", c ", c.shape(),
            ": all must have 2 dims");
  SXT_CHECK(c.dtype() == DType::F32 || c.dtype() == DType::F64, Usage, "matmul: c is ",
            name_of(c.dtype()), ", must be f32 or f64");
  SXT_CHECK(a.dtype() == c.dtype() && b.dtype() == c.dtype(), Usage, "matmul: a is ",
            name_of(a.dtype()), ", b is ", name_of(b.dtype()), ", both must be ",
            name_of(c.dtype()), " like c");
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  const int64_t m = a.dim(ta ? 1 : 0), k = a.dim(ta ? 0 : 1);
  const int64_t kb = b.dim(tb ? 1 : 0), n = b.dim(tb ? 0 : 1);
  SXT_CHECK(k == kb, Usage, "matmul: a ", a.shape(), (ta ? " transposed" : ""), " has k=", k,
            " but b ", b.shape(), (tb ? " transposed" : ""), " has k=", kb);
  SXT_CHECK((c.shape() == Shape{m, n}), Usage, "matmul: c is ", c.shape(), ", must be ",
            Shape{m, n});
  check_epilogue(c, epilogue);
  SXT_DISPATCH(stream, matmul(stream, c, a, transpose_a, b, transpose_b, epilogue));
}

}  // namespace sextant
