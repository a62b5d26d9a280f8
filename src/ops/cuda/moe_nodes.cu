#include "ops/moe_nodes.h"

#include "ops/cuda/bad_rows.h"
#include "ops/cuda/copy_cells.h"
#include "ops/fault_texts.h"
#include "ops/moe_capacity.h"

namespace sextant::cuda {
namespace {

// A thread has a token.
__global__ void __launch_bounds__(kBlock)
    nodes_kernel(int32_t* nodes, const int32_t* choice, int64_t tokens, int64_t count,
                 int64_t chosen, int64_t experts, Report report) {
  const int64_t token = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  const int64_t each = experts / count;
  const auto is_bad = [=](int32_t expert) {
    return expert != kDropped && (expert < 0 || expert >= experts);
  };
  int32_t* to = nodes + token * count;
  for (int64_t node = 0; node < count; ++node) to[node] = kDropped;
  for (int64_t pair = token * chosen; pair < (token + 1) * chosen; ++pair) {
    const int32_t expert = choice[pair];
    if (expert == kDropped) continue;
    if (is_bad(expert)) {
      if (is_first_bad(choice, pair, is_bad)) report(expert, pair, experts);
      continue;
    }
    to[expert / each] = static_cast<int32_t>(expert / each);
  }
}

__global__ void __launch_bounds__(kBlock)
    local_choice_kernel(int32_t* local, const int32_t* choice, int64_t pairs, Range experts) {
  const int64_t pair = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pair >= pairs) return;
  const int64_t expert = choice[pair];
  local[pair] = expert >= experts.begin && expert < experts.end
                    ? static_cast<int32_t>(expert - experts.begin)
                    : kDropped;
}

// Places of the copies of each token among `rows`; one that is not valid is reported and left out.
struct CopyPlaces {
  const int32_t* place;
  int64_t copies, rows;
  Report report;

  __device__ bool is_bad(int32_t value) const {
    return value != kDropped && (value < 0 || value >= rows);
  }
  // f(pair, row) of each copy; `reports` for one thread of a token.
  template <class F>
  __device__ void for_copies(int64_t token, bool reports, const F& f) const {
    for (int64_t pair = token * copies; pair < (token + 1) * copies; ++pair) {
      const int32_t row = place[pair];
      if (row == kDropped) continue;
      if (!is_bad(row)) {
        f(pair, int64_t{row});
        continue;
      }
      const auto is_bad_place = [this](int32_t value) { return is_bad(value); };
      if (reports && is_first_bad(place, pair, is_bad_place)) report(row, pair, rows);
    }
  }
};

template <class Unit>
__global__ void copy_rows_kernel(Unit* rows, const Unit* x, CopyPlaces places, int64_t tokens,
                                 int64_t units) {
  for_cells(tokens, units, [&](int64_t token, int64_t unit) {
    const Unit value = x[token * units + unit];
    places.for_copies(token, unit == 0,
                      [&](int64_t, int64_t row) { rows[row * units + unit] = value; });
  });
}

template <class T, int N>
__global__ void copy_gated_kernel(T* rows, const T* x, const float* gates, CopyPlaces places,
                                  int64_t tokens, int64_t packs) {
  for_cells(tokens, packs, [&](int64_t token, int64_t pack) {
    float values[N];
    load(values, x + (token * packs + pack) * N);
    places.for_copies(token, pack == 0, [&](int64_t pair, int64_t row) {
      float out[N];
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = gates[pair] * values[i];
      store(rows + (row * packs + pack) * N, out);
    });
  });
}

// A thread has an element of [ranks, experts, nodes].
__global__ void __launch_bounds__(kBlock)
    node_counts_kernel(int32_t* out, const int32_t* counts, int64_t ranks, int64_t nodes,
                       int64_t all, Range experts) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t some = experts.end - experts.begin;
  if (at >= ranks * some * nodes) return;
  const int64_t node = at % nodes, expert = experts.begin + at / nodes % some;
  const int64_t rank = at / nodes / some;
  out[at] = counts[(node * ranks + rank) * all + expert];
}

}  // namespace

void moe_nodes(Stream& stream, Tensor& nodes, const Tensor& choice, int64_t experts) {
  launch(stream, "moe_nodes", nodes_kernel, grid_of(choice.dim(0)), kBlock, nodes.data<int32_t>(),
         choice.data<int32_t>(), choice.dim(0), nodes.dim(1), choice.dim(1), experts,
         Report(stream, Fault::Internal, "moe_nodes", kBadExpertOfPair));
}

void moe_local_choice(Stream& stream, Tensor& local, const Tensor& choice, const Range& experts) {
  launch(stream, "moe_local_choice", local_choice_kernel, grid_of(choice.elements()), kBlock,
         local.data<int32_t>(), choice.data<int32_t>(), choice.elements(), experts);
}

void moe_copy_rows(Stream& stream, Tensor& rows, const Tensor& x, const Tensor& places,
                   const Tensor& gates) {
  constexpr const char* kOp = "moe_copy_rows";
  const int64_t tokens = x.dim(0), width = x.dim(1);
  const CopyPlaces all{places.data<int32_t>(), tokens == 0 ? 0 : places.dim(0) / tokens,
                       rows.dim(0), Report(stream, Fault::Internal, kOp, kBadPlace)};
  if (!gates) {
    const int64_t bytes = width * size_of(x.dtype());
    const int64_t unit = unit_of({bytes}, {rows.raw(), x.raw()});
    with_unit(unit, [&]<class Unit>(Unit) {
      const Cells cells(tokens, bytes / unit);
      launch(stream, kOp, copy_rows_kernel<Unit>, cells.grid, cells.block,
             reinterpret_cast<Unit*>(rows.raw()), reinterpret_cast<const Unit*>(x.raw()), all,
             tokens, bytes / unit);
    });
    return;
  }
  check_statistics(kOp, gates);
  with_compute(kOp, x.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(width, {rows.raw(), x.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const Cells cells(tokens, width / N);
                   launch(stream, kOp, copy_gated_kernel<T, N>, cells.grid, cells.block,
                          rows.data<T>(), x.data<T>(), gates.data<float>(), all, tokens, width / N);
                 });
  });
}

void moe_node_counts(Stream& stream, Tensor& out, const Tensor& counts, const Range& experts) {
  const int64_t ranks = out.dim(0);
  launch(stream, "moe_node_counts", node_counts_kernel, grid_of(out.elements()), kBlock,
         out.data<int32_t>(), counts.data<int32_t>(), ranks, ranks == 0 ? 0 : counts.dim(0) / ranks,
         counts.dim(1), experts);
}

}  // namespace sextant::cuda
