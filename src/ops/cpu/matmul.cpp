#include "ops/matmul.h"

#include "ops/cpu/gemm.h"

namespace sextant::cpu {
namespace {

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.data<T>() : nullptr;
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
  out.c = c.data<T>();
  out.a = ta ? Operand<T>{a.data<T>(), 1, out.m} : Operand<T>{a.data<T>(), out.k, 1};
  out.b = tb ? Operand<T>{b.data<T>(), out.k, 1} : Operand<T>{b.data<T>(), 1, out.n};
  Tensor pre_activation = epilogue.pre_activation;
  out.epilogue = {.write = epilogue.write,
                  .activation = epilogue.activation,
                  .bias = data_or_null<T>(epilogue.bias),
                  .pre_activation = pre_activation ? pre_activation.data<T>() : nullptr,
                  .backward_of = data_or_null<T>(epilogue.backward_of)};
  return out;
}
template Gemm<float> describe(Tensor&, const Tensor&, Transpose, const Tensor&, Transpose,
                              const Epilogue&);
template Gemm<double> describe(Tensor&, const Tensor&, Transpose, const Tensor&, Transpose,
                               const Epilogue&);

void matmul(Stream& stream, Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, const Epilogue& epilogue) {
  if (c.dtype() == DType::F32)
    gemm(stream, describe<float>(c, a, transpose_a, b, transpose_b, epilogue),
         best_kernels<float>());
  else
    gemm(stream, describe<double>(c, a, transpose_a, b, transpose_b, epilogue),
         best_kernels<double>());
}

}  // namespace sextant::cpu
