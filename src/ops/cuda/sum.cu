#include "ops/sum.h"

#include "ops/cuda/part_list.h"
#include "tensor/convert.h"

namespace sextant::cuda {
namespace {

enum class Term { Value, Square };

struct Part {
  const void* data;
  int64_t count;
  DType type;
};
using Parts = PartList<Part, 64>;

template <class T>
__device__ double as_double(T x) {
  if constexpr (kIsNarrow<T>) {
    return widen(x);
  } else {
    return x;
  }
}

template <Term kTerm>
__device__ double term_of(double x) {
  return kTerm == Term::Square ? x * x : x;
}

// This thread's share of [0, count), at most kSumBlock elements.
template <Term kTerm, class T>
__device__ double share(const T* x, int count) {
  constexpr int N = kPack<T>;
  double sums[N] = {};
  const bool is_aligned = reinterpret_cast<uintptr_t>(x) % 16 == 0;
  const int packs = is_aligned ? count / N : 0;
#pragma unroll 4
  for (int pack = static_cast<int>(threadIdx.x); pack < packs; pack += kBlock) {
    const auto values = *reinterpret_cast<const Pack<T, N>*>(x + pack * N);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += term_of<kTerm>(as_double(values.values[i]));
  }
  for (int i = packs * N + static_cast<int>(threadIdx.x); i < count; i += kBlock)
    sums[0] += term_of<kTerm>(as_double(x[i]));
#pragma unroll
  for (int width = N / 2; width > 0; width /= 2)
#pragma unroll
    for (int i = 0; i < width; ++i) sums[i] += sums[i + width];
  return sums[0];
}

template <Term kTerm>
__device__ double share(const void* data, DType type, int64_t first, int count) {
  switch (type) {
    case DType::F64:
      return share<kTerm>(static_cast<const double*>(data) + first, count);
    case DType::BF16:
      return share<kTerm>(static_cast<const bf16*>(data) + first, count);
    case DType::F16:
      return share<kTerm>(static_cast<const f16*>(data) + first, count);
    case DType::F8E4M3:
      return share<kTerm>(static_cast<const f8e4m3*>(data) + first, count);
    case DType::F8E5M2:
      return share<kTerm>(static_cast<const f8e5m2*>(data) + first, count);
    default:
      return share<kTerm>(static_cast<const float*>(data) + first, count);
  }
}

// of_blocks[block] = sum over kSumBlock elements of its part.
template <Term kTerm>
__global__ void __launch_bounds__(kBlock)
    sum_blocks(double* of_blocks, const __grid_constant__ Parts list) {
  const int block = static_cast<int>(blockIdx.x), number = list.part_of(block);
  const Part& part = list.parts[number];
  const int64_t first = int64_t{block - list.first_block[number]} * kSumBlock;
  const int count = static_cast<int>(min(kSumBlock, part.count - first));
  const double sum = block_sum(share<kTerm>(part.data, part.type, first, count));
  if (threadIdx.x == 0) of_blocks[block] = sum;
}

// of_parts[part] = sum of its blocks.
__global__ void __launch_bounds__(kBlock)
    sum_parts(double* of_parts, const double* of_blocks, const __grid_constant__ Parts list) {
  double mine = 0;
  for (int block = list.first_block[blockIdx.x] + static_cast<int>(threadIdx.x);
       block < list.first_block[blockIdx.x + 1]; block += kBlock)
    mine += of_blocks[block];
  const double sum = block_sum(mine);
  if (threadIdx.x == 0) of_parts[blockIdx.x] = sum;
}

// out = the sums of the parts, added in their order, from 0 or from out on.
__global__ void add_parts(double* out, const double* of_parts, int count, Write write) {
  double sum = write == Write::Add ? *out : 0;
#pragma unroll 16  // the loads of a round are in flight together
  for (int part = 0; part < count; ++part) sum += of_parts[part];
  *out = sum;
}

template <Term kTerm>
void sum_all(Stream& stream, const char* op, Tensor& out, std::span<const Tensor> x, Write write) {
  const std::span<std::byte> scratch = stream.shared_scratch();
  auto* of_parts = reinterpret_cast<double*>(scratch.data());
  double* of_blocks = of_parts + Parts::kMost;
  const int64_t most = static_cast<int64_t>(scratch.size() / sizeof(double)) - Parts::kMost;
  const auto describe = [](const Tensor& one) {
    return Part{one.raw(), one.elements(), one.dtype()};
  };
  for_lists<Parts>(x, kSumBlock, most, describe, [&](const Parts& list) {
    launch(stream, op, sum_blocks<kTerm>, static_cast<unsigned>(list.blocks()), kBlock, of_blocks,
           list);
    launch(stream, op, sum_parts, static_cast<unsigned>(list.count), kBlock, of_parts, of_blocks,
           list);
    launch(stream, op, add_parts, 1, 1, out.data<double>(), of_parts, list.count, write);
    write = Write::Add;
  });
}

}  // namespace

void sum(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  sum_all<Term::Value>(stream, "sum", out, {&x, 1}, write);
}

void sum_of_squares(Stream& stream, Tensor& out, std::span<const Tensor> x) {
  if (x.empty())
    check(cudaMemsetAsync(out.raw(), 0, static_cast<size_t>(out.bytes()), queue_of(stream)),
          "sum_of_squares");
  sum_all<Term::Square>(stream, "sum_of_squares", out, x, Write::Replace);
}

}  // namespace sextant::cuda
