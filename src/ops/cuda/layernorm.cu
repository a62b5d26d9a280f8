#include "ops/layernorm.h"

#include "ops/cuda/row_queue.h"

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
using ForwardQueue = RowQueue<T, N, kHeld, 2, 1>;

template <class T, int N, int kHeld, int kThreads>
__global__ void __launch_bounds__(kThreads, least_blocks(kThreads)) forward_kernel(Forward<T> p) {
  enum { kX, kResidual };
  ForwardQueue<T, N, kHeld> rows(shared_memory(), {p.x, p.residual}, {nullptr}, p.rows, p.columns);
  RowGroup group(p.columns, rows.columns_of_thread());
  const RowPart<T, N, kHeld> weight(p.weight, p.columns / N, true);
  const RowPart<T, N, kHeld> bias(p.bias, p.columns / N, true);
  rows.each_row([&](int64_t row, bool is_there) {
    Kept<N, kHeld> kept;
    const auto read = [&](float(&x)[N], int column, int pack) {
      kept.get(x, pack, [&](float(&to)[N]) { rows.get(to, kX, column, pack); });
    };
    float sum = 0, squares = 0;
    rows.each([&](int column, int pack) {
      float x[N];
      rows.get(x, kX, column, pack);
      if (p.residual != nullptr) {
        float other[N];
        rows.get(other, kResidual, column, pack);
        add_rounded<T>(x, other);
        store(p.x + row * p.columns + column, x);
      }
      kept.put(pack, x);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += x[i];
    });
    const float mean_of_warp = group.mean_of_warp(sum);
    rows.each([&](int column, int pack) {
      float x[N];
      read(x, column, pack);
#pragma unroll
      for (int i = 0; i < N; ++i) squares += (x[i] - mean_of_warp) * (x[i] - mean_of_warp);
    });
    const Moments all = group.moments(mean_of_warp, squares);
    const float inv = 1 / sqrtf(all.squares / static_cast<float>(p.columns) + p.eps);
    rows.each([&](int column, int pack) {
      float x[N], w[N], b[N];
      read(x, column, pack);
      weight.get(w, column, pack);
      bias.get(b, column, pack);
#pragma unroll
      for (int i = 0; i < N; ++i) b[i] += (x[i] - all.mean) * inv * w[i];
      store(p.y + row * p.columns + column, b);
    });
    if (is_there && threadIdx.x == 0) {
      p.mean[row] = all.mean;
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

template <class T, int N, int kHeld>
using BackwardQueue = RowQueue<T, N, kHeld, 3, 2>;

// Threads of a block, so few that the two sums of their columns stay in registers.
constexpr int kBackwardThreads = 896;

// With g = dy * weight and n = (x - mean) * inv_std: dx = inv_std * (g - mean(g) - n * mean(g n)).
// dx may be the residual.
template <class T, int N, int kHeld, int kThreads>
__global__ void __launch_bounds__(kThreads) backward_kernel(Backward<T> p) {
  enum { kDy, kX, kResidual };
  BackwardQueue<T, N, kHeld> rows(shared_memory(), {p.dy, p.x, p.residual}, {p.mean, p.inv_std},
                                  p.rows, p.columns);
  RowGroup group(p.columns, rows.columns_of_thread());
  const RowPart<T, N, kHeld> weight(p.weight, p.columns / N, true);
  float* partial = p.partial + int64_t{blockIdx.x} * 2 * p.columns;
  ColumnSums<N, kHeld> dweight(partial, p.columns), dbias(partial + p.columns, p.columns);
  rows.each_row([&](int64_t row, bool) {
    const float mean = rows.number(0), inv = rows.number(1);
    float sums[2] = {};  // of g, of g n
    rows.each([&](int column, int pack) {
      float x[N], d[N], w[N];
      rows.get(x, kX, column, pack);
      rows.get(d, kDy, column, pack);
      weight.get(w, column, pack);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float g = d[i] * w[i];
        sums[0] += g;
        sums[1] += g * (x[i] - mean);
      }
    });
    group.sum(sums);
    const float mean_g = sums[0] / static_cast<float>(p.columns);
    const float mean_gn = sums[1] * inv / static_cast<float>(p.columns);
    rows.each([&](int column, int pack) {
      float x[N], d[N], w[N], out[N] = {};
      rows.get(x, kX, column, pack);
      rows.get(d, kDy, column, pack);
      weight.get(w, column, pack);
      if (p.residual != nullptr) rows.get(out, kResidual, column, pack);
      dbias.add(column, d, pack);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float n = (x[i] - mean) * inv;
        out[i] += inv * (d[i] * w[i] - mean_g - n * mean_gn);
        d[i] *= n;
      }
      store(p.dx + row * p.columns + column, out);
      dweight.add(column, d, pack);
    });
  });
  auto* shared = reinterpret_cast<float*>(shared_memory());
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
    with_group_shape<T, 2>(
        can_pack<T>(columns, {y.raw(), x.raw(), residual.raw(), weight.raw(), bias.raw()}), columns,
        kBlock,
        [&]<int N, int kHeld>(std::integral_constant<int, N>, std::integral_constant<int, kHeld>,
                              const GroupShape& shape) {
          using Rows = ForwardQueue<T, N, kHeld>;
          constexpr int kFew = kHeld == 1 ? kBlock : GroupShape::kMostThreads;
          const auto kernel = shape.width <= kFew
                                  ? forward_kernel<T, N, kHeld, kFew>
                                  : forward_kernel<T, N, kHeld, GroupShape::kMostThreads>;
          launch_rows<Rows>(stream, "layernorm", kernel,
                            blocks_of_rows<Rows>("layernorm", kernel, shape, rows), shape, p);
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
    with_group_shape<T, 1>(
        can_pack<T>(columns, {dx.raw(), dy.raw(), x.raw(), residual.raw(), weight.raw()}), columns,
        kBackwardThreads,
        [&]<int N, int kHeld>(std::integral_constant<int, N>, std::integral_constant<int, kHeld>,
                              const GroupShape& shape) {
          partials =
              partials_of(stream, ceil_div(rows, shape.height), 2 * columns, kMultiprocessors);
          launch_rows<BackwardQueue<T, N, kHeld>>(
              stream, kOp,
              shape.width <= kBackwardThreads
                  ? backward_kernel<T, N, kHeld, kBackwardThreads>
                  : backward_kernel<T, N, kHeld, GroupShape::kMostThreads>,
              partials, shape, p);
        });
    with_either<T>(kOp, dweight.dtype(), [&]<class G>(G) {
      fold(stream, kOp, dweight.data<G>(), dbias.data<G>(), partial, partials, columns, write_dw);
    });
  });
}

}  // namespace sextant::cuda
