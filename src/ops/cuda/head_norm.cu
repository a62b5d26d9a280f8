// A head of a token is a row of head_dim elements of qkv, of whatever kind: queries and keys are
// normed, values are copied.
#include "ops/head_norm.h"

#include "ops/cuda/row_norm.h"

namespace sextant::cuda {
namespace {

enum class Kind { Query, Key, Value };

struct Layout {
  int64_t rows;  // heads of all tokens
  int columns;   // head_dim
  int group;     // query heads of one key-value head

  __device__ Kind kind(int64_t row) const {
    const auto place = static_cast<int>(row % (group + 2));
    return place < group ? Kind::Query : place == group ? Kind::Key : Kind::Value;
  }
  // Where the statistics of a query or key lie.
  __device__ int64_t statistics(int64_t row) const { return row - row / (group + 2); }
};

Layout describe(const Heads& heads) {
  return {heads.tokens() * heads.kv_heads * (heads.group() + 2), static_cast<int>(heads.head_dim),
          static_cast<int>(heads.group())};
}

template <class T, int N, int kHeld>
__global__ void __launch_bounds__(RowShape::most_threads(kHeld))
    forward_kernel(T* y, float* inv_rms, const T* qkv, const T* q_weight, const T* k_weight,
                   Layout layout, float eps) {
  for_rows(layout.rows, [&](int64_t row, bool is_there) {
    const int64_t at = row * layout.columns;
    const Kind kind = layout.kind(row);
    const RowPart<T, N, kHeld> part(qkv + at, layout.columns / N, is_there);
    float squares = 0;
    part.each([&](int, const float(&values)[N], int) {
#pragma unroll
      for (int i = 0; i < N; ++i) squares += values[i] * values[i];
    });
    const float inv = 1 / sqrtf(row_sum(squares) / static_cast<float>(layout.columns) + eps);
    const T* weight = kind == Kind::Query ? q_weight : k_weight;
    part.each([&](int column, const float(&values)[N], int) {
      if (kind == Kind::Value) return store(y + at + column, values);
      float w[N];
      load(w, weight + column);
#pragma unroll
      for (int i = 0; i < N; ++i) w[i] = values[i] * inv * w[i];
      store(y + at + column, w);
    });
    if (is_there && threadIdx.x == 0 && kind != Kind::Value) inv_rms[layout.statistics(row)] = inv;
  });
}

template <class T>
struct Backward {
  T* dqkv;
  const T* dy;
  const T* qkv;
  const float* inv_rms;
  const T* q_weight;
  const T* k_weight;
  float* partial;  // [blocks, 2, columns]: of queries, of keys
};

// With n = x * inv: dx = inv * (w dy - n mean(w dy n)), dw += dy n. dqkv may be dy.
template <class T, int N, int kHeld>
__global__ void __launch_bounds__(RowShape::most_threads(kHeld))
    backward_kernel(Backward<T> p, Layout layout) {
  const int columns = layout.columns;
  float* partial = p.partial + int64_t{blockIdx.x} * 2 * columns;
  ColumnSums<N, kHeld> of_queries(partial, columns), of_keys(partial + columns, columns);
  for_rows(layout.rows, [&](int64_t row, bool is_there) {
    const int64_t at = row * columns;
    const Kind kind = layout.kind(row);
    const bool is_normed = is_there && kind != Kind::Value;
    const RowPart<T, N, kHeld> own(p.qkv + at, columns / N, is_normed);
    const RowPart<T, N, kHeld> above(p.dy + at, columns / N, is_there);
    const float inv = is_normed ? p.inv_rms[layout.statistics(row)] : 0;
    const T* weight = kind == Kind::Query ? p.q_weight : p.k_weight;
    float sum = 0;
    own.each([&](int column, const float(&x)[N], int pack) {
      float d[N], w[N];
      above.get(d, column, pack);
      load(w, weight + column);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += d[i] * w[i] * (x[i] * inv);
    });
    const float mean = row_sum(sum) / static_cast<float>(columns);
    own.each([&](int column, const float(&x)[N], int pack) {
      float d[N], w[N], dn[N];
      above.get(d, column, pack);
      load(w, weight + column);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float n = x[i] * inv;
        dn[i] = d[i] * n;
        w[i] = inv * (d[i] * w[i] - n * mean);
      }
      if (kind == Kind::Query)
        of_queries.add(column, dn, pack);
      else
        of_keys.add(column, dn, pack);
      store(p.dqkv + at + column, w);
    });
    if (kind == Kind::Value && p.dqkv != p.dy)
      above.each([&](int column, const float(&d)[N], int) { store(p.dqkv + at + column, d); });
  });
  __shared__ float shared[ColumnSums<N, kHeld>::kShared];
  of_queries.finish(shared);
  of_keys.finish(shared);
}

}  // namespace

void head_norm(Stream& stream, Tensor& y, Tensor& inv_rms, const Tensor& qkv,
               const Tensor& q_weight, const Tensor& k_weight, const Heads& heads, double eps) {
  const Layout layout = describe(heads);
  with_compute("head_norm", qkv.dtype(), [&]<class T>(T) {
    with_row_shape<T, 4, 2>(
        can_pack<T>(layout.columns, {y.raw(), qkv.raw(), q_weight.raw(), k_weight.raw()}),
        layout.columns,
        [&]<int N, int kHeld>(std::integral_constant<int, N>, std::integral_constant<int, kHeld>,
                              const RowShape& shape) {
          launch(stream, "head_norm", forward_kernel<T, N, kHeld>,
                 static_cast<unsigned>(ceil_div(layout.rows, shape.height)), shape.block(),
                 y.data<T>(), inv_rms.data<float>(), qkv.data<T>(), q_weight.data<T>(),
                 k_weight.data<T>(), layout, static_cast<float>(eps));
        });
  });
}

void head_norm_backward(Stream& stream, Tensor& dqkv, Tensor& dq_weight, Tensor& dk_weight,
                        const Tensor& dy, const Tensor& qkv, const Tensor& inv_rms,
                        const Tensor& q_weight, const Tensor& k_weight, const Heads& heads,
                        Write write_dw) {
  constexpr const char* kOp = "head_norm_backward";
  const Layout layout = describe(heads);
  const int64_t columns = layout.columns;
  auto* partial = reinterpret_cast<float*>(stream.shared_scratch().data());
  with_compute(kOp, qkv.dtype(), [&]<class T>(T) {
    const Backward<T> p{.dqkv = dqkv.data<T>(),
                        .dy = dy.data<T>(),
                        .qkv = qkv.data<T>(),
                        .inv_rms = inv_rms.data<float>(),
                        .q_weight = q_weight.data<T>(),
                        .k_weight = k_weight.data<T>(),
                        .partial = partial};
    int64_t partials = 0;
    with_row_shape<T, 4, 2>(
        can_pack<T>(columns, {dqkv.raw(), dy.raw(), qkv.raw(), q_weight.raw(), k_weight.raw()}),
        columns,
        [&]<int N, int kHeld>(std::integral_constant<int, N>, std::integral_constant<int, kHeld>,
                              const RowShape& shape) {
          partials = partials_of(stream, ceil_div(layout.rows, shape.height), 2 * columns);
          launch(stream, kOp, backward_kernel<T, N, kHeld>, static_cast<unsigned>(partials),
                 shape.block(), p, layout);
        });
    with_either<T>(kOp, dq_weight.dtype(), [&]<class G>(G) {
      fold(stream, kOp, dq_weight.data<G>(), dk_weight.data<G>(), partial, partials, columns,
           write_dw);
    });
  });
}

}  // namespace sextant::cuda
