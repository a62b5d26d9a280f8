#include "ops/cuda/attention_rows.h"

#include "ops/attention_ranges.h"
#include "ops/cuda/attention_tile.cuh"

namespace sextant::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

// One head of one token, a warp's work.
struct HeadOfToken {
  int64_t at = 0;     // its first element in [tokens, heads * head_dim]
  int64_t place = 0;  // in [batch, heads, seq]
  int batch_row = 0;
  __device__ HeadOfToken(int64_t i, int heads, int seq, int dim) {
    const int64_t token = i / heads, head = i % heads;
    batch_row = static_cast<int>(token / seq);
    at = i * dim;
    place = (int64_t{batch_row} * heads + head) * seq + token % seq;
  }
};

// gridDim.x / batch blocks for each row of the batch.
template <class T>
__global__ void __launch_bounds__(kThreads)
    delta_kernel(float* delta, const Result dout, const Result out, const DoneRows done,
                 const int batch, const int heads, const int seq, const int dim) {
  const int batch_row = static_cast<int>(blockIdx.x) % batch;
  if (done.has(batch_row)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = int64_t{batch_row} * seq * heads, last = first + int64_t{seq} * heads;
  const int64_t begin = int64_t{blockIdx.x} / batch * kWarps + threadIdx.x / 32;
  const int64_t step = int64_t{gridDim.x} / batch * kWarps;
  for (int64_t i = first + begin; i < last; i += step) {
    const HeadOfToken head(i, heads, seq, dim);
    float sum = 0;
    for (int column = 2 * lane; column < dim; column += 64) {
      const float2 a = load_pair<T>(dout, head.at + column);
      const float2 b = load_pair<T>(out, head.at + column);
      sum = fmaf(a.y, b.y, fmaf(a.x, b.x, sum));
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
    if (lane == 0) delta[head.place] = sum;
  }
}

// The weights of two parts that both saw something add up to 1.
template <class T>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const Result out, float* lse, const Result out_b, const float* lse_b,
                 const int64_t tokens, const int heads, const int seq, const int dim) {
  const int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (i >= tokens * heads) return;
  const HeadOfToken head(i, heads, seq, dim);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float left = lse[head.place], right = lse_b[head.place];
  __syncwarp();  // all lanes have read lse
  if (right == -INFINITY) return;
  float a = 0, b = 1, both = right;
  if (left != -INFINITY) {
    both = fmaxf(left, right) + log1pf(expf(-fabsf(left - right)));
    a = expf(left - both);
    b = expf(right - both);
  }
  for (int column = 2 * lane; column < dim; column += 64) {
    float2 value = load_pair<T>(out_b, head.at + column);
    if (left != -INFINITY) {
      const float2 own = load_pair<T>(out, head.at + column);
      value = {own.x * a + value.x * b, own.y * a + value.y * b};
    }
    store_pair<T>(out, head.at + column, value);
  }
  if (lane == 0) lse[head.place] = both;
}

Result whole(const Tensor& tensor) {
  return {const_cast<std::byte*>(tensor.raw()), tensor.dtype() == DType::F32, {}};
}

// Calls f(T{}) with the narrow type of two tensors, one of which may be wide; float if both are.
template <class F>
void with_narrow(DType a, DType b, F&& f) {
  const DType dtype = a == DType::F32 ? b : a;
  if (dtype == DType::F32) return f(float{});
  if (dtype == DType::BF16) return f(bf16{});
  return f(f16{});
}

int64_t blocks_of(int64_t rows) {
  return (rows + kWarps - 1) / kWarps;
}

}  // namespace

void check_type(const char* op, DType dtype) {
  SXT_CHECK(dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16, Usage, op, ": ",
            name_of(dtype), " runs on the CPU only");
}

AttentionSizes sizes_of(const Heads& heads, int64_t kv_seq) {
  return {static_cast<int>(heads.batch),   static_cast<int>(heads.kv_heads),
          static_cast<int>(heads.group()), static_cast<int>(heads.seq),
          static_cast<int>(kv_seq),        static_cast<int>(heads.head_dim)};
}

RowLayout query_layout(const Heads& heads) {
  return {heads.seq * heads.qkv_width(), (heads.group() + 2) * heads.head_dim, heads.head_dim,
          heads.qkv_width()};
}

RowLayout fused_kv_layout(const Heads& heads) {
  return {heads.seq * heads.qkv_width(), (heads.group() + 2) * heads.head_dim, 0,
          heads.qkv_width()};
}

RowLayout packed_kv_layout(const Heads& heads, int64_t kv_seq) {
  return {kv_seq * heads.kv_width(), 2 * heads.head_dim, 0, heads.kv_width()};
}

RowLayout out_layout(const Heads& heads) {
  return {heads.seq * heads.out_width(), heads.group() * heads.head_dim, heads.head_dim,
          heads.out_width()};
}

const void* place_in(const Tensor& tensor, int64_t elements) {
  return tensor.raw() + elements * size_of(tensor.dtype());
}

Result result_in(Tensor& tensor, int64_t elements, const RowLayout& layout) {
  return {tensor.raw() + elements * size_of(tensor.dtype()), tensor.dtype() == DType::F32, layout};
}

void write_delta(Stream& stream, float* delta, const Tensor& dout, const Tensor& out,
                 const Heads& heads, const DoneRows& done) {
  constexpr int64_t kFew = 1024;  // blocks, where most rows are expected to be done
  const int64_t all = blocks_of(heads.seq * heads.heads);  // of one row of the batch
  const int64_t few = std::clamp<int64_t>(kFew / std::max<int64_t>(1, heads.batch), 1, all);
  if (heads.batch == 0 || all == 0) return;
  with_narrow(dout.dtype(), out.dtype(), [&]<class T>(T) {
    launch(stream, "attention_delta", delta_kernel<T>,
           heads.batch * (done.lengths == nullptr ? all : few), kThreads, 0, delta, whole(dout),
           whole(out), done, static_cast<int>(heads.batch), static_cast<int>(heads.heads),
           static_cast<int>(heads.seq), static_cast<int>(heads.head_dim));
  });
}

void attention_delta(Stream& stream, Tensor& delta, const Tensor& dout, const Tensor& out,
                     const Heads& heads) {
  check_type("attention_delta", dout.dtype());
  write_delta(stream, delta.data<float>(), dout, out, heads, {});
}

void attention_merge(Stream& stream, Tensor& out, Tensor& lse, const Tensor& out_b,
                     const Tensor& lse_b) {
  check_type("attention_merge", out.dtype());
  if (out.elements() == 0) return;
  const int64_t heads = lse.dim(1);
  with_narrow(out.dtype(), out_b.dtype(), [&]<class T>(T) {
    launch(stream, "attention_merge", merge_kernel<T>, blocks_of(out.dim(0) * heads), kThreads, 0,
           whole(out), lse.data<float>(), whole(out_b), lse_b.data<float>(), out.dim(0),
           static_cast<int>(heads), static_cast<int>(lse.dim(2)),
           static_cast<int>(out.dim(1) / heads));
  });
}

}  // namespace sextant::cuda
