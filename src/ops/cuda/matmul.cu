// The product is cuBLASLt's. What can be fused into it is: a bias, GELU by tanh with or without its
// input kept, and its backward. Everything else, as odd sizes, GELU itself or Write::Add with an
// activation, is an element-wise kernel on sums in f32: those of c itself where c is f32, else some
// rows at a time in the shared scratch, where they stay in the second-level cache.
#include "ops/matmul.h"

#include "ops/cuda/element_math.h"
#include "ops/cuda/kernel.h"
#include "ops/cuda/product_end.h"

namespace sextant::cuda {
namespace {

// The end of `rows` rows of c that the library does not do, in the order of Epilogue.
template <class T, class C>
struct End {
  C* c;
  const float* sums;  // [rows, n]; null: 0
  const T* bias;
  T* pre_activation;
  const T* backward_of;
  Activation activation;
  bool starts_from_c, adds;
  int64_t rows, packs;  // of N columns
};

__device__ float activated(Activation activation, float x) {
  return activation == Activation::GeluTanh ? gelu_tanh(x) : gelu_exact(x);
}
__device__ float derivative(Activation activation, float x) {
  return activation == Activation::GeluTanh ? gelu_tanh_grad(x) : gelu_exact_grad(x);
}

template <class T, class C, int N>
__global__ void end_kernel(End<T, C> end) {
  for_cells(end.rows, end.packs, [&](int64_t row, int64_t pack) {
    const int64_t at = (row * end.packs + pack) * N;
    float value[N] = {}, other[N], before[N] = {};
    if (end.sums != nullptr) load(value, end.sums + at);
    if (end.starts_from_c || end.adds) load(before, end.c + at);
    if (end.starts_from_c)
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] += before[i];
    if (end.bias != nullptr) {
      load(other, end.bias + pack * N);
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] += other[i];
    }
    if (end.pre_activation != nullptr) store(end.pre_activation + at, value);
    if (end.backward_of != nullptr) {
      load(other, end.backward_of + at);
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] *= derivative(end.activation, other[i]);
    } else if (end.activation != Activation::None) {
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] = activated(end.activation, value[i]);
    }
    if (end.adds)
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] += before[i];
    store(end.c + at, value);
  });
}

template <class T, class C>
void finish_rows(Stream& stream, Tensor& c, const Epilogue& epilogue, const Rows& rows) {
  const int64_t n = c.dim(1), at = rows.first * n;
  Tensor pre_activation = epilogue.pre_activation;
  const T* backward_of = data_or_null<T>(epilogue.backward_of);
  End<T, C> end{.c = c.data<C>() + at,
                .sums = rows.sums,
                .bias = data_or_null<T>(epilogue.bias),
                .pre_activation = pre_activation ? pre_activation.data<T>() + at : nullptr,
                .backward_of = backward_of != nullptr ? backward_of + at : nullptr,
                .activation = epilogue.activation,
                .starts_from_c = rows.starts_from_c,
                .adds = rows.adds,
                .rows = rows.count,
                .packs = 0};
  const bool is_packed =
      can_pack<T>(n, {end.c, end.sums, end.bias, end.pre_activation, end.backward_of});
  with_pack<T>(is_packed, [&]<int N>(std::integral_constant<int, N>) {
    end.packs = n / N;
    const Cells cells(rows.count, end.packs);
    launch(stream, "matmul", end_kernel<T, C, N>, cells.grid, cells.block, end);
  });
}

}  // namespace

void finish(Stream& stream, Tensor& c, DType type, const Epilogue& epilogue, const Rows& rows) {
  with_compute("matmul", type, [&]<class T>(T) {
    with_either<T>("matmul", c.dtype(),
                   [&]<class C>(C) { finish_rows<T, C>(stream, c, epilogue, rows); });
  });
}

std::optional<GemmEnd> fused_end(DType type, const Epilogue& epilogue) {
  const bool has_bias = static_cast<bool>(epilogue.bias);
  if (epilogue.activation == Activation::None) return has_bias ? GemmEnd::Bias : GemmEnd::None;
  if (epilogue.activation != Activation::GeluTanh || epilogue.write == Write::Add ||
      type == DType::F32)
    return {};
  if (epilogue.backward_of) return has_bias ? std::nullopt : std::optional(GemmEnd::GeluBackward);
  if (epilogue.pre_activation) return has_bias ? GemmEnd::GeluAuxBias : GemmEnd::GeluAux;
  return has_bias ? GemmEnd::GeluBias : GemmEnd::Gelu;
}

namespace {

// Whether all is done. With an end, c has the type of the operands, and everything is aligned.
bool run_fused(Stream& stream, Gemm problem, const Epilogue& epilogue) {
  const std::optional<GemmEnd> end = fused_end(problem.type, epilogue);
  if (!end) return false;
  problem.end = *end;
  problem.beta = epilogue.write == Write::Replace ? 0 : 1;
  Tensor auxiliary = epilogue.backward_of ? epilogue.backward_of : epilogue.pre_activation;
  problem.bias = epilogue.bias.raw();
  problem.auxiliary = auxiliary.raw();
  constexpr int64_t kColumns = 8;  // the library wants rows of 16 bytes at least
  const bool is_aligned =
      problem.n % kColumns == 0 && problem.auxiliary != problem.c &&
      are_aligned({problem.a, problem.b, problem.c, problem.bias, problem.auxiliary});
  if (problem.end != GemmEnd::None && (problem.c_type != problem.type || !is_aligned)) return false;
  return gemm(stream, problem);
}

void run_plain(Stream& stream, const Gemm& problem) {
  SXT_CHECK(gemm(stream, problem), Failure, "matmul: cuBLASLt has no kernel for m=", problem.m,
            " n=", problem.n, " k=", problem.k, " in ", name_of(problem.type), " and ",
            name_of(problem.c_type));
}

// Sums in the scratch behind the library's workspace, some rows at a time.
void run_in_parts(Stream& stream, Tensor& c, const Gemm& whole, const Epilogue& epilogue) {
  const std::span<std::byte> scratch = stream.shared_scratch().subspan(kGemmWorkspace);
  const int64_t fit = static_cast<int64_t>(scratch.size() / sizeof(float)) / whole.n;
  SXT_CHECK(fit > 0, Usage, "matmul: ", whole.n, " columns, must be at most ",
            scratch.size() / sizeof(float));
  const int64_t step = fit >= 16 ? fit / 16 * 16 : fit;  // parts of a transposed a stay aligned
  for (int64_t first = 0; first < whole.m; first += step) {
    Gemm part = whole;
    part.m = std::min(step, whole.m - first);
    part.a +=
        first * (whole.transpose_a == Transpose::Yes ? 1 : whole.a_stride) * size_of(whole.type);
    part.c = scratch.data();
    part.c_type = DType::F32;
    run_plain(stream, part);
    finish(stream, c, whole.type, epilogue,
           {first, part.m, reinterpret_cast<const float*>(scratch.data()),
            epilogue.write == Write::Chain, epilogue.write == Write::Add});
  }
}

Gemm describe(Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
              Transpose transpose_b) {
  Gemm problem;
  problem.m = c.dim(0);
  problem.n = c.dim(1);
  problem.k = a.dim(transpose_a == Transpose::Yes ? 0 : 1);
  problem.type = a.dtype();
  problem.c_type = c.dtype();
  problem.a = a.raw();
  problem.b = b.raw();
  problem.c = c.raw();
  problem.transpose_a = transpose_a;
  problem.transpose_b = transpose_b;
  problem.a_stride = a.dim(1);
  problem.b_stride = b.dim(1);
  return problem;
}

// All of the epilogue but `sums`.
void multiply(Stream& stream, Tensor& c, const Gemm& product, const Epilogue& epilogue) {
  if (product.m == 0 || product.n == 0) return;
  const bool chains = epilogue.write == Write::Chain, adds = epilogue.write == Write::Add;
  if (product.k == 0)
    return finish(stream, c, product.type, epilogue, {0, product.m, nullptr, chains, adds});
  if (run_fused(stream, product, epilogue)) return;
  const bool holds_sums = c.dtype() == DType::F32 && epilogue.backward_of.raw() != c.raw() &&
                          !(adds && epilogue.activation != Activation::None);
  if (!holds_sums) return run_in_parts(stream, c, product, epilogue);
  Gemm problem = product;
  problem.beta = epilogue.write == Write::Replace ? 0 : 1;
  run_plain(stream, problem);
  finish(stream, c, product.type, epilogue, {0, product.m, c.data<float>(), false, false});
}

// The library can add up the rows of op(a) while it multiplies them.
bool can_sum(const Gemm& product, const Epilogue& epilogue) {
  constexpr int64_t kColumns = 8;  // as in run_fused
  return epilogue.write == Write::Replace && epilogue.activation == Activation::None &&
         !epilogue.bias && epilogue.sums.dtype() == product.c_type && product.type != DType::F32 &&
         product.k > 0 && product.m % kColumns == 0 && product.n % kColumns == 0 &&
         are_aligned({product.a, product.b, product.c, epilogue.sums.raw()});
}

}  // namespace

// Of linear.cu.
void sum_rows(Stream& stream, Tensor& out, const Tensor& x, Write write);

void matmul(Stream& stream, Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, const Epilogue& epilogue) {
  with_compute("matmul", a.dtype(), []<class T>(T) {});  // refuses others
  const Gemm product = describe(c, a, transpose_a, b, transpose_b);
  Tensor sums = epilogue.sums;
  if (!sums) return multiply(stream, c, product, epilogue);
  const auto in_two = [&] {
    multiply(stream, c, product, epilogue);
    sum_rows(stream, sums, a, epilogue.write);
  };
  if (can_sum(product, epilogue) && product.m > 0 && product.n > 0) {
    Gemm with_sums = product;
    with_sums.end = GemmEnd::SumsOfA;
    with_sums.bias = sums.raw();
    if (gemm_if_faster(stream, with_sums, in_two)) return;
  }
  in_two();
}

}  // namespace sextant::cuda
