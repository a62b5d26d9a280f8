#include "ops/rmsnorm.h"

#include "ops/cuda/row_norm.h"

namespace sextant::cuda {
namespace {

template <class T>
struct Forward {
  T* y;
  float* inv_rms;
  T* x;
  const T* residual;
  const T* weight;
  int64_t rows;
  int columns;
  float eps;
};

template <class T, int N, int kHeld>
using ForwardQueue = RowQueue<T, N, kHeld, 2, 1>;

template <class T, int N, int kHeld>
__global__ void __launch_bounds__(RowShape::most_threads(kHeld)) forward_kernel(Forward<T> p) {
  enum { kX, kResidual };
  ForwardQueue<T, N, kHeld> rows(shared_memory(), {p.x, p.residual}, {nullptr}, p.rows, p.columns);
  const RowPart<T, N, kHeld> weight(p.weight, p.columns / N, true);
  rows.each_row([&](int64_t row, bool is_there) {
    float squares = 0;
    rows.each([&](int column, int pack) {
      float x[N];
      if (p.residual != nullptr)
        rows.add(x, kX, p.x, kResidual, column, pack);
      else
        rows.get(x, kX, column, pack);
#pragma unroll
      for (int i = 0; i < N; ++i) squares += x[i] * x[i];
    });
    const float inv = 1 / sqrtf(row_sum(squares) / static_cast<float>(p.columns) + p.eps);
    rows.each([&](int column, int pack) {
      float x[N], w[N];
      rows.get(x, kX, column, pack);
      weight.get(w, column, pack);
#pragma unroll
      for (int i = 0; i < N; ++i) w[i] = x[i] * inv * w[i];
      store(p.y + row * p.columns + column, w);
    });
    if (is_there && threadIdx.x == 0) p.inv_rms[row] = inv;
  });
}

template <class T>
struct Backward {
  T* dx;
  const T* dy;
  const T* x;
  const float* inv_rms;
  const T* weight;
  const T* residual;
  float* partial;  // [blocks, columns]
  int64_t rows;
  int columns;
};

template <class T, int N, int kHeld>
using BackwardQueue = RowQueue<T, N, kHeld, 3, 1>;

// With g = dy * weight and n = x * inv_rms: dx = inv_rms * (g - n * mean(g n)). dx may be the
// residual.
template <class T, int N, int kHeld>
__global__ void __launch_bounds__(RowShape::most_threads(kHeld), RowShape::least_blocks(kHeld))
    backward_kernel(Backward<T> p) {
  enum { kDy, kX, kResidual };
  BackwardQueue<T, N, kHeld> rows(shared_memory(), {p.dy, p.x, p.residual}, {p.inv_rms}, p.rows,
                                  p.columns);
  const RowPart<T, N, kHeld> weight(p.weight, p.columns / N, true);
  ColumnSums<N, kHeld> dweight(p.partial + int64_t{blockIdx.x} * p.columns, p.columns);
  rows.each_row([&](int64_t row, bool) {
    const float inv = rows.number(0);
    float sum = 0;
    rows.each([&](int column, int pack) {
      float x[N], d[N], w[N];
      rows.get(x, kX, column, pack);
      rows.get(d, kDy, column, pack);
      weight.get(w, column, pack);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += d[i] * w[i] * (x[i] * inv);
    });
    const float mean_gn = row_sum(sum) / static_cast<float>(p.columns);
    rows.each([&](int column, int pack) {
      float x[N], d[N], w[N], out[N] = {}, dn[N];
      rows.get(x, kX, column, pack);
      rows.get(d, kDy, column, pack);
      weight.get(w, column, pack);
      if (p.residual != nullptr) rows.get(out, kResidual, column, pack);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float n = x[i] * inv;
        dn[i] = d[i] * n;
        out[i] += inv * (d[i] * w[i] - n * mean_gn);
      }
      dweight.add(column, dn, pack);
      store(p.dx + row * p.columns + column, out);
    });
  });
  dweight.finish(reinterpret_cast<float*>(shared_memory()));
}

}  // namespace

void rmsnorm(Stream& stream, Tensor& y, Tensor& inv_rms, Tensor& x, const Tensor& residual,
             const Tensor& weight, double eps) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  with_compute("rmsnorm", x.dtype(), [&]<class T>(T) {
    const Forward<T> p{.y = y.data<T>(),
                       .inv_rms = inv_rms.data<float>(),
                       .x = x.data<T>(),
                       .residual = data_or_null<T>(residual),
                       .weight = weight.data<T>(),
                       .rows = rows,
                       .columns = static_cast<int>(columns),
                       .eps = static_cast<float>(eps)};
    with_row_shape<T, 8, 4>(
        can_pack<T>(columns, {y.raw(), x.raw(), residual.raw(), weight.raw()}), columns,
        [&]<int N, int kHeld>(std::integral_constant<int, N>, std::integral_constant<int, kHeld>,
                              const RowShape& shape) {
          using Rows = ForwardQueue<T, N, kHeld>;
          launch_rows<Rows>(stream, "rmsnorm", forward_kernel<T, N, kHeld>,
                            shape.blocks_for(rows, Rows::shared_bytes(shape)), shape, p);
        });
  });
}

void rmsnorm_backward(Stream& stream, Tensor& dx, Tensor& dweight, const Tensor& dy,
                      const Tensor& x, const Tensor& inv_rms, const Tensor& weight,
                      const Tensor& residual, Write write_dw) {
  constexpr const char* kOp = "rmsnorm_backward";
  const int64_t rows = x.dim(0), columns = x.dim(1);
  auto* partial = reinterpret_cast<float*>(stream.shared_scratch().data());
  with_compute(kOp, x.dtype(), [&]<class T>(T) {
    const Backward<T> p{.dx = dx.data<T>(),
                        .dy = dy.data<T>(),
                        .x = x.data<T>(),
                        .inv_rms = inv_rms.data<float>(),
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
          partials = partials_of(stream, ceil_div(rows, shape.height), columns,
                                 RowShape::most_partials(kHeld));
          launch_rows<BackwardQueue<T, N, kHeld>>(stream, kOp, backward_kernel<T, N, kHeld>,
                                                  partials, shape, p);
        });
    with_either<T>(kOp, dweight.dtype(), [&]<class G>(G) {
      fold<G>(stream, kOp, dweight.data<G>(), nullptr, partial, partials, columns, write_dw);
    });
  });
}

}  // namespace sextant::cuda
