#include "ops/matmul.h"

#include "ops/cpu/gemm.h"

namespace sextant::cpu {
namespace {

const std::byte* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.raw() : nullptr;
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
  out.a = {a.raw(), a.dtype(), ta ? 1 : out.k, ta ? out.m : 1};
  out.b = {b.raw(), b.dtype(), tb ? out.k : 1, tb ? 1 : out.n};
  Tensor pre_activation = epilogue.pre_activation;
  out.epilogue = {.write = epilogue.write,
                  .activation = epilogue.activation,
                  .bias = data_or_null(epilogue.bias),
                  .pre_activation = pre_activation ? pre_activation.raw() : nullptr,
                  .backward_of = data_or_null(epilogue.backward_of)};
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
}

}  // namespace sextant::cpu
