#include "ops/matmul.h"

#include "ops/cpu/gemm.h"

namespace sextant::cpu {

void matmul_in(Stream& stream, Tensor& c, Tensor& workspace, const Tensor& a, Transpose transpose_a,
               const Tensor& b, Transpose transpose_b, const Epilogue& epilogue);
// Of linear.cpp.
void sum_rows(Stream& stream, Tensor& out, const Tensor& x, Write write);

namespace {

const std::byte* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.raw() : nullptr;
}

// The scales of an fp8 operand. `is_transposed`: its lines are the columns in memory.
void set_scales(Operand& operand, const Tensor& x, const Tensor& amax, const ScaleBlock& block,
                bool is_transposed) {
  if (!is_fp8(x.dtype())) return;
  operand.amax = amax.data<float>();
  operand.lines_of_block = is_transposed ? block.columns : block.rows;
  operand.line_blocks = is_transposed ? 1 : amax.dim(1);
  operand.k_blocks = is_transposed ? amax.dim(1) : 1;
}

}  // namespace

template <class T>
Gemm<T> describe(Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
                 Transpose transpose_b, const Epilogue& epilogue) {
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  Gemm<T> out;
  out.m = c.dim(0);
  out.n = c.dim(1);
  out.k = a.dim(ta ? 0 : 1);
  out.c = c.raw();
  out.c_type = c.dtype();
  out.a = {.data = a.raw(),
           .dtype = a.dtype(),
           .line_stride = ta ? 1 : out.k,
           .k_stride = ta ? out.m : 1};
  out.b = {.data = b.raw(),
           .dtype = b.dtype(),
           .line_stride = tb ? out.k : 1,
           .k_stride = tb ? 1 : out.n};
  out.k_of_block = ta ? epilogue.block_a.rows : epilogue.block_a.columns;
  out.k_of_part = ta ? epilogue.block_a.part_rows : 0;
  set_scales(out.a, a, epilogue.amax_a, epilogue.block_a, ta);
  set_scales(out.b, b, epilogue.amax_b, epilogue.block_b, !tb);
  Tensor pre_activation = epilogue.pre_activation;
  out.epilogue = {.write = epilogue.write,
                  .activation = epilogue.activation,
                  .bias = data_or_null(epilogue.bias),
                  .pre_activation = pre_activation ? pre_activation.raw() : nullptr,
                  .backward_of = data_or_null(epilogue.backward_of),
                  .dtype = epilogue_type(c, a, epilogue)};
  return out;
}
template Gemm<float> describe(Tensor&, const Tensor&, Transpose, const Tensor&, Transpose,
                              const Epilogue&);
template Gemm<double> describe(Tensor&, const Tensor&, Transpose, const Tensor&, Transpose,
                               const Epilogue&);

void matmul(Stream& stream, Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, const Epilogue& epilogue) {
  if (a.dtype() == DType::F64)
    gemm(stream, describe<double>(c, a, transpose_a, b, transpose_b, epilogue),
         best_kernels<double>(DType::F64));
  else
    gemm(stream, describe<float>(c, a, transpose_a, b, transpose_b, epilogue),
         best_kernels<float>(a.dtype()));
  Tensor sums = epilogue.sums;
  if (sums) cpu::sum_rows(stream, sums, a, epilogue.write);
}

void matmul_in(Stream& stream, Tensor& c, Tensor&, const Tensor& a, Transpose transpose_a,
               const Tensor& b, Transpose transpose_b, const Epilogue& epilogue) {
  cpu::matmul(stream, c, a, transpose_a, b, transpose_b, epilogue);
}

}  // namespace sextant::cpu
