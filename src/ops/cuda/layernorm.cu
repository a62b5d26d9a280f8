#include "ops/layernorm.h"

#include "ops/cuda/row_norm.h"

namespace sextant::cuda {
namespace {

template <class T>
struct Forward {
  T* y;
  float* mean;
  float* inv_std;
  T* x;
  const T* residual;
  const T* weight;
  const T* bias;
  int64_t rows;
  int columns;
  float eps;
};

template <class T, int N, int kHeld>
__global__ void __launch_bounds__(RowShape::most_threads(kHeld)) forward_kernel(Forward<T> p) {
  for_rows(p.rows, [&](int64_t row, bool is_there) {
    T* x = p.x + row * p.columns;
    RowPart<T, N, kHeld> part(x, p.columns / N, is_there);
    if (p.residual != nullptr) part.add(x, p.residual + row * p.columns);
    float sum = 0, squares = 0;
    part.each([&](int, const float(&values)[N], int) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum += values[i];
    });
    const float mean = row_sum(sum) / static_cast<float>(p.columns);
    part.each([&](int, const float(&values)[N], int) {
#pragma unroll
      for (int i = 0; i < N; ++i) squares += (values[i] - mean) * (values[i] - mean);
    });
    const float inv = 1 / sqrtf(row_sum(squares) / static_cast<float>(p.columns) + p.eps);
    part.each([&](int column, const float(&values)[N], int) {
      float w[N], b[N];
      load(w, p.weight + column);
      load(b, p.bias + column);
#pragma unroll
      for (int i = 0; i < N; ++i) b[i] += (values[i] - mean) * inv * w[i];
      store(p.y + row * p.columns + column, b);
    });
    if (is_there && threadIdx.x == 0) {
      p.mean[row] = mean;
      p.inv_std[row] = inv;
    }
  });
}

template <class T>
struct Backward {
  T* dx;
  const T* dy;
  const T* x;
  const float* mean;
  const float* inv_std;
  const T* weight;
  const T* residual;
  float* partial;  // [blocks, 2, columns]: of the weight, of the bias
  int64_t rows;
  int columns;
};

// With g = dy * weight and n = (x - mean) * inv_std: dx = inv_std * (g - mean(g) - n * mean(g n)).
// Of a row x and dy are held; dx may be the residual.
template <class T, int N, int kHeld>
__global__ void __launch_bounds__(RowShape::most_threads(kHeld)) backward_kernel(Backward<T> p) {
  float* partial = p.partial + int64_t{blockIdx.x} * 2 * p.columns;
  ColumnSums<N, kHeld> dweight(partial, p.columns), dbias(partial + p.columns, p.columns);
  for_rows(p.rows, [&](int64_t row, bool is_there) {
    const int64_t at = row * p.columns;
    const RowPart<T, N, kHeld> normed(p.x + at, p.columns / N, is_there);
    const RowPart<T, N, kHeld> above(p.dy + at, p.columns / N, is_there);
    const float mean = is_there ? p.mean[row] : 0, inv = is_there ? p.inv_std[row] : 0;
    float mean_g = 0, mean_gn = 0;
    normed.each([&](int column, const float(&x)[N], int pack) {
      float d[N], w[N];
      above.get(d, column, pack);
      load(w, p.weight + column);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        mean_g += d[i] * w[i];
        mean_gn += d[i] * w[i] * ((x[i] - mean) * inv);
      }
    });
    row_sums(mean_g, mean_gn);
    mean_g /= static_cast<float>(p.columns);
    mean_gn /= static_cast<float>(p.columns);
    normed.each([&](int column, const float(&x)[N], int pack) {
      float d[N], w[N], out[N] = {}, dn[N];
      above.get(d, column, pack);
      load(w, p.weight + column);
      if (p.residual != nullptr) load(out, p.residual + at + column);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float n = (x[i] - mean) * inv;
        dn[i] = d[i] * n;
        out[i] += inv * (d[i] * w[i] - mean_g - n * mean_gn);
      }
      dweight.add(column, dn, pack);
      dbias.add(column, d, pack);
      store(p.dx + at + column, out);
    });
  });
  __shared__ float shared[ColumnSums<N, kHeld>::kShared];
  dweight.finish(shared);
  dbias.finish(shared);
}

}  // namespace

void layernorm(Stream& stream, Tensor& y, Tensor& mean, Tensor& inv_std, Tensor& x,
               const Tensor& residual, const Tensor& weight, const Tensor& bias, double eps) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  with_compute("layernorm", x.dtype(), [&]<class T>(T) {
    const Forward<T> p{.y = y.data<T>(),
                       .mean = mean.data<float>(),
                       .inv_std = inv_std.data<float>(),
                       .x = x.data<T>(),
                       .residual = data_or_null<T>(residual),
                       .weight = weight.data<T>(),
                       .bias = bias.data<T>(),
                       .rows = rows,
                       .columns = static_cast<int>(columns),
                       .eps = static_cast<float>(eps)};
    with_row_shape<T, 8, 4>(
        can_pack<T>(columns, {y.raw(), x.raw(), residual.raw(), weight.raw(), bias.raw()}), columns,
        [&]<int N, int kHeld>(std::integral_constant<int, N>, std::integral_constant<int, kHeld>,
                              const RowShape& shape) {
          launch(stream, "layernorm", forward_kernel<T, N, kHeld>,
                 static_cast<unsigned>(ceil_div(rows, shape.height)), shape.block(), p);
        });
  });
}

void layernorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, Tensor& dbias,
                        const Tensor& dy, const Tensor& x, const Tensor& mean,
                        const Tensor& inv_std, const Tensor& weight, const Tensor& residual,
                        Write write_dw) {
  constexpr const char* kOp = "layernorm_backward";
  const int64_t rows = x.dim(0), columns = x.dim(1);
  auto* partial = reinterpret_cast<float*>(stream.shared_scratch().data());
  with_compute(kOp, x.dtype(), [&]<class T>(T) {
    const Backward<T> p{.dx = dx.data<T>(),
                        .dy = dy.data<T>(),
                        .x = x.data<T>(),
                        .mean = mean.data<float>(),
                        .inv_std = inv_std.data<float>(),
                        .weight = weight.data<T>(),
                        .residual = data_or_null<T>(residual),
                        .partial = partial,
                        .rows = rows,
                        .columns = static_cast<int>(columns)};
    int64_t partials = 0;
    with_row_shape<T, 4, 2>(
        can_pack<T>(columns, {dx.raw(), dy.raw(), x.raw(), residual.raw(), weight.raw()}), columns,
        [&]<int N, int kHeld>(std::integral_constant<int, N>, std::integral_constant<int, kHeld>,
                              const RowShape& shape) {
          partials = partials_of(stream, ceil_div(rows, shape.height), 2 * columns);
          launch(stream, kOp, backward_kernel<T, N, kHeld>, static_cast<unsigned>(partials),
                 shape.block(), p);
        });
    with_either<T>(kOp, dweight.dtype(), [&]<class G>(G) {
      fold(stream, kOp, dweight.data<G>(), partial, partials, 2 * columns, columns, write_dw);
      fold(stream, kOp, dbias.data<G>(), partial + columns, partials, 2 * columns, columns,
           write_dw);
    });
  });
}

}  // namespace sextant::cuda
