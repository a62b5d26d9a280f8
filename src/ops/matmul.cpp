#include "ops/matmul.h"

#include <utility>

#include "ops/check.h"
#include "ops/matmul_workspace.h"

namespace sextant {

SXT_BACKENDS(matmul);
// Of fp8, in a workspace; the CPU needs none.
void matmul_in(Stream& stream, Tensor& c, Tensor& workspace, const Tensor& a, Transpose transpose_a,
               const Tensor& b, Transpose transpose_b, const Epilogue& epilogue);
SXT_BACKENDS(matmul_in);

namespace {

void check_epilogue(const Tensor& c, DType dtype, const Epilogue& epilogue) {
  if (epilogue.bias) check_tensor("matmul", "bias", epilogue.bias, dtype, Shape{c.dim(1)});
  const auto check_like_c = [&](const char* name, const Tensor& tensor) {
    if (tensor) check_tensor("matmul", name, tensor, dtype, c.shape());
  };
  check_like_c("pre_activation", epilogue.pre_activation);
  check_like_c("backward_of", epilogue.backward_of);
  const bool has_activation = epilogue.activation != Activation::None;
  SXT_CHECK(has_activation || !epilogue.pre_activation, Usage,
            "matmul: pre_activation is given without an activation");
  SXT_CHECK(has_activation || !epilogue.backward_of, Usage,
            "matmul: backward_of is given without the activation it was the input of");
  SXT_CHECK(!(epilogue.pre_activation && epilogue.backward_of), Usage,
            "matmul: pre_activation and backward_of are both given, must be one of them");
}

// Two for each term of a sum; at its end one for each of bias, Add and the product with a
// derivative, kActivationFlops for an activation.
// One for each term of `sums`.
double flops_of(const Tensor& c, int64_t k, const Epilogue& epilogue) {
  double each = 2.0 * k;
  if (epilogue.bias) each += 1;
  if (epilogue.activation != Activation::None) each += kActivationFlops;
  if (epilogue.backward_of) each += 1;
  if (epilogue.write == Write::Add) each += 1;
  return each * c.elements() + (epilogue.sums ? 1.0 * k * c.dim(0) : 0);
}

Work work_of(const Tensor& c, const Tensor& a, const Tensor& b, int64_t k,
             const Epilogue& epilogue) {
  Work work("matmul");
  work.writes(c, epilogue.pre_activation, epilogue.sums)
      .reads(a, b, epilogue.bias, epilogue.backward_of);
  work.reads(epilogue.amax_a, epilogue.amax_b);
  if (epilogue.write != Write::Replace) work.reads(c, epilogue.sums);
  return work.flops(flops_of(c, k, epilogue));
}

// Rows and rows of a part of the blocks along k.
std::pair<int64_t, int64_t> blocks_of_k(const ScaleBlock& block, bool is_k_down) {
  return is_k_down ? std::pair{block.rows, block.part_rows} : std::pair{block.columns, int64_t{0}};
}

void check_fp8(const Tensor& a, bool ta, const Tensor& b, bool tb, const Epilogue& epilogue) {
  SXT_CHECK(is_fp8(b.dtype()), Usage, "matmul: b is ", name_of(b.dtype()),
            " with a in fp8, must be f8e4m3 or f8e5m2");
  check_tensor("matmul", "amax_a", epilogue.amax_a, DType::F32, epilogue.block_a.grid(a.shape()));
  check_tensor("matmul", "amax_b", epilogue.amax_b, DType::F32, epilogue.block_b.grid(b.shape()));
  const auto of_a = blocks_of_k(epilogue.block_a, ta), of_b = blocks_of_k(epilogue.block_b, !tb);
  SXT_CHECK(of_a == of_b, Usage, "matmul: scales of a are for ", of_a.first,
            " elements along k (parts of ", of_a.second, "), of b for ", of_b.first, " (parts of ",
            of_b.second, "), must be the same");
  const bool has_one = epilogue.block_a == ScaleBlock{} && epilogue.block_b == ScaleBlock{};
  SXT_CHECK(has_one || of_a.first > 0, Usage,
            "matmul: scales of blocks of lines need blocks along k");
  if (!has_one) check_write("matmul", epilogue.write);
}

}  // namespace

DType epilogue_type(const Tensor& c, const Tensor& a, const Epilogue& epilogue) {
  if (!is_fp8(a.dtype())) return a.dtype();
  for (const Tensor* tensor : {&epilogue.bias, &epilogue.pre_activation, &epilogue.backward_of})
    if (*tensor) return tensor->dtype();
  return c.dtype();
}

void matmul(Stream& stream, Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, const Epilogue& epilogue) {
  const bool fp8 = a && is_fp8(a.dtype());
  if (!fp8) check_float("matmul", "a", a);
  check_dims("matmul", "a", a, 2);
  check_dims("matmul", "b", b, 2);
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  const int64_t m = a.dim(ta ? 1 : 0), k = a.dim(ta ? 0 : 1), n = b.dim(tb ? 0 : 1);
  if (fp8) check_fp8(a, ta, b, tb, epilogue);
  check_tensor("matmul", "b", b, fp8 ? b.dtype() : a.dtype(), tb ? Shape{n, k} : Shape{k, n});
  const DType beside = epilogue_type(c, a, epilogue);
  if (fp8) check_float("matmul", "c", c);
  check_gradient("matmul", "c", c, beside, Shape{m, n});
  SXT_CHECK(c.raw() != a.raw() && c.raw() != b.raw(), Usage,
            "matmul: c is also an operand, must be apart from a and b");
  check_epilogue(c, beside, epilogue);
  if (epilogue.sums) {
    SXT_CHECK(ta && !fp8, Usage, "matmul: sums of rows need a transposed a that is not fp8");
    check_gradient("matmul", "sums", epilogue.sums, a.dtype(), Shape{m});
  }
  if (!fp8) {
    SXT_DISPATCH(stream, work_of(c, a, b, k, epilogue),
                 matmul(stream, c, a, transpose_a, b, transpose_b, epilogue));
    return;
  }
  Tensor workspace;
  if (stream.device().modelled() == DeviceKind::Cuda)
    if (const int64_t bytes = fp8_workspace(a, transpose_a, b, transpose_b, epilogue).bytes;
        bytes > 0)
      workspace = stream.arena().allocate(Category::Workspace, DType::F8E4M3, {bytes});
  SXT_DISPATCH(stream, work_of(c, a, b, k, epilogue).writes(workspace),
               matmul_in(stream, c, workspace, a, transpose_a, b, transpose_b, epilogue));
}

}  // namespace sextant
