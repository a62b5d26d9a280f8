// Products of fp8. cuBLASLt takes operands with their numbers along k next to each other, sizes
// that are multiples of 16 and scales in an order of its own: operands that lie otherwise are
// transposed into the workspace, scales are put there. Every other product is a kernel of ours,
// which forms the sums of the CPU, bit by bit; it is for odd sizes, and slow.
#include "ops/cuda/element_math.h"
#include "ops/cuda/fp8.cuh"
#include "ops/cuda/product_end.h"
#include "ops/cuda/transpose_bytes.cuh"
#include "ops/matmul_workspace.h"

namespace sextant::cuda {

void matmul_in(Stream& stream, Tensor& c, Tensor& workspace, const Tensor& a, Transpose transpose_a,
               const Tensor& b, Transpose transpose_b, const Epilogue& epilogue);

namespace {

// to[columns, rows] = from[rows, columns], bytes; both sizes are multiples of 16.
__global__ void __launch_bounds__(kBlock)
    transpose_bytes(std::byte* to, const std::byte* from, int64_t rows, int64_t columns) {
  __shared__ ByteTile tile;
  const int64_t row = int64_t{blockIdx.y} * kTileBytes, column = int64_t{blockIdx.x} * kTileBytes;
  const int thread = static_cast<int>(threadIdx.x);
  const int chunk = thread % kTileChunks;
#pragma unroll
  for (int i = thread / kTileChunks; i < kTileBytes; i += kBlock / kTileChunks)
    if (row + i < rows && column + 16 * chunk < columns)
      tile.put(i, chunk,
               *reinterpret_cast<const uint4*>(from + (row + i) * columns + column + 16 * chunk));
  __syncthreads();
  const int group = thread % kTileChunks, word = thread / kTileChunks;
  if (row + 16 * group >= rows || column + 4 * word >= columns) return;
  uint4 out[4];
  tile.take(out, word, group);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<uint4*>(to + (column + 4 * word + i) * rows + row + 16 * group) = out[i];
}

// The scales of an operand from its amax, in the library's order; zeros where that has more.
struct ScaleOrder {
  float* scales;
  const float* amax;
  float largest;
  int64_t lines, k_tiles;      // of the scales
  int64_t amax_width;          // columns of amax
  int64_t tiles_of_amax;       // along k
  bool is_k_down, is_k_major;  // whether k goes down in amax; whether it is innermost in scales
};
__global__ void __launch_bounds__(kBlock)
    order_scales(const ScaleOrder of_a, const ScaleOrder of_b) {
  const ScaleOrder& order = blockIdx.y == 0 ? of_a : of_b;
  const int64_t at = int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (at >= order.lines * order.k_tiles) return;
  const int64_t line = order.is_k_major ? at / order.k_tiles : at % order.lines;
  const int64_t tile = order.is_k_major ? at % order.k_tiles : at / order.lines;
  float scale = 0;
  if (tile < order.tiles_of_amax)
    scale = scale_of(order.amax[order.is_k_down ? tile * order.amax_width + line
                                                : line * order.amax_width + tile],
                     order.largest);
  order.scales[at] = scale;
}

ScaleOrder order_of(const Fp8Workspace::Side& side, std::byte* workspace, const Tensor& x,
                    const Tensor& amax, bool is_k_down) {
  return {.scales = reinterpret_cast<float*>(workspace + side.scales_at),
          .amax = amax.data<float>(),
          .largest = largest_fp8(x.dtype()),
          .lines = side.scale_lines,
          .k_tiles = side.k_tiles,
          .amax_width = amax.dim(1),
          .tiles_of_amax = amax.dim(is_k_down ? 0 : 1),
          .is_k_down = is_k_down,
          .is_k_major = side.scales == Fp8Scales::Blocks};
}

// Also sets where its numbers lie.
Fp8Operand operand_of(Stream& stream, const std::byte*& data, const Fp8Workspace::Side& side,
                      std::byte* workspace, const Tensor& x) {
  const Fp8Operand out{side.scales, x.dtype(),
                       reinterpret_cast<const float*>(workspace + side.scales_at)};
  data = x.raw();
  if (side.copied_bytes == 0) return out;
  std::byte* copy = workspace + side.copied_at;
  launch(stream, "matmul", transpose_bytes,
         dim3(static_cast<unsigned>(ceil_div(x.dim(1), kTileBytes)),
              static_cast<unsigned>(ceil_div(x.dim(0), kTileBytes))),
         kBlock, copy, x.raw(), x.dim(0), x.dim(1));
  data = copy;
  return out;
}

// What the library's kernel left of the end, where it rounded its sums to c's own type.
template <class T, int N>
__global__ void activate_kernel(T* c, T* pre_activation, const T* backward_of,
                                Activation activation, int64_t packs) {
  const int64_t pack = int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (pack >= packs) return;
  float value[N], other[N];
  load(value, c + pack * N);
  if (pre_activation != nullptr) store(pre_activation + pack * N, value);
  const bool is_exact = activation == Activation::GeluExact;
  if (backward_of != nullptr) {
    load(other, backward_of + pack * N);
#pragma unroll
    for (int i = 0; i < N; ++i)
      value[i] *= is_exact ? gelu_exact_grad(other[i]) : gelu_tanh_grad(other[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] = is_exact ? gelu_exact(value[i]) : gelu_tanh(value[i]);
  }
  store(c + pack * N, value);
}

void activate(Stream& stream, Tensor& c, const Epilogue& epilogue) {
  Tensor pre_activation = epilogue.pre_activation;
  with_compute("matmul", c.dtype(), [&]<class T>(T) {
    T* before = pre_activation ? pre_activation.data<T>() : nullptr;
    const T* backward_of = data_or_null<T>(epilogue.backward_of);
    with_pack<T>(can_pack<T>(c.elements(), {c.raw(), before, backward_of}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const int64_t packs = c.elements() / N;
                   launch(stream, "matmul", activate_kernel<T, N>, grid_of(packs), kBlock,
                          c.data<T>(), before, backward_of, epilogue.activation, packs);
                 });
  });
}

// Whether all is done. The library's end where it has one, else a kernel of ours behind it.
bool run_library(Stream& stream, Tensor& c, const Gemm& plain, const Epilogue& epilogue,
                 DType beside) {
  const bool is_narrow = c.dtype() == beside && beside != DType::F32;
  const bool chains = epilogue.write == Write::Chain, adds = epilogue.write == Write::Add;
  const bool has_activation = epilogue.activation != Activation::None;
  Gemm problem = plain;
  problem.beta = epilogue.write == Write::Replace ? 0 : 1;
  Tensor auxiliary = epilogue.backward_of ? epilogue.backward_of : epilogue.pre_activation;
  const auto run = [&](GemmEnd end) {
    problem.end = end;
    problem.bias = epilogue.bias.raw();
    problem.auxiliary = auxiliary.raw();
    if (end == GemmEnd::None || end == GemmEnd::Bias) problem.auxiliary = nullptr;
    if (end == GemmEnd::None) problem.bias = nullptr;
    return are_aligned({problem.c, problem.bias, problem.auxiliary}) && gemm(stream, problem);
  };
  const auto must_run = [&](GemmEnd end) {
    SXT_CHECK(run(end), Failure, "matmul: cuBLASLt has no fp8 kernel for m=", problem.m,
              " n=", problem.n, " k=", problem.k, " in ", name_of(problem.fp8_a.type), " and ",
              name_of(problem.fp8_b.type), " to ", name_of(problem.c_type),
              problem.fp8_a.order == Fp8Scales::One ? "" : " with scales of blocks");
    return true;
  };
  const std::optional<GemmEnd> end = fused_end(beside, epilogue);
  if (end == GemmEnd::None) return must_run(*end);
  const bool is_over_c = auxiliary && auxiliary.raw() == c.raw();
  if (is_narrow && end && !is_over_c && run(*end)) return true;
  if (is_narrow && has_activation && epilogue.write == Write::Replace && !is_over_c) {
    must_run(epilogue.bias ? GemmEnd::Bias : GemmEnd::None);
    activate(stream, c, epilogue);
    return true;
  }
  const bool holds_sums =
      c.dtype() == DType::F32 && !is_over_c && !(adds && has_activation) && !chains;
  if (!holds_sums) return false;
  must_run(GemmEnd::None);
  finish(stream, c, beside, epilogue, {0, c.dim(0), c.data<float>(), false, false});
  return true;
}

// An operand as our kernel reads it: line i, number k at data[i * line_stride + k * k_stride].
template <class Q>
struct Lines {
  const Q* data;
  int64_t count, line_stride, k_stride;
  const float* amax;
  int64_t amax_width;
  Tiles tiles;
  bool is_k_down;

  Lines(const Tensor& x, bool down, const Tensor& scales, const ScaleBlock& block)
      : data(x.data<Q>()),
        count(x.dim(down ? 1 : 0)),
        line_stride(down ? 1 : x.dim(1)),
        k_stride(down ? x.dim(1) : 1),
        amax(scales.data<float>()),
        amax_width(scales.dim(1)),
        tiles(block),
        is_k_down(down) {}
  __device__ float scale(int64_t line, int64_t k) const {
    const int64_t row = is_k_down ? k : line, column = is_k_down ? line : k;
    return scale_of(amax[tiles.row_of(row) * amax_width + tiles.column_of(column)], kLargestFp8<Q>);
  }
};

// The ends of blocks along k: of each part of k on its own. 0: one block.
struct KBlocks {
  int64_t each, part;

  __device__ int64_t end_of(int64_t begin, int64_t k) const {
    if (each == 0) return k;
    const int64_t of_part = part == 0 ? k : (begin / part + 1) * part;
    return min(k, min(begin + each, of_part));
  }
};

constexpr int kSide = 16;  // of the square of sums of a block of threads, and numbers along k

// sums[row, column] = the chain of matmul.h, of rows first ... first + rows - 1 of a.
template <class A, class B>
__global__ void __launch_bounds__(kSide* kSide)
    product_kernel(float* sums, const Lines<A> a, const Lines<B> b, int64_t first, int64_t rows,
                   int64_t k, KBlocks blocks) {
  __shared__ float of_a[kSide][kSide + 1], of_b[kSide][kSide + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t row = int64_t{blockIdx.y} * kSide + y, line = first + row;
  const int64_t column = int64_t{blockIdx.x} * kSide + x;
  const int64_t loaded_b = int64_t{blockIdx.x} * kSide + y;
  const bool has_a = row < rows, has_b = loaded_b < b.count;
  const bool has_one = blocks.each == 0;
  float one_a = 1, one_b = 1;
  if (has_one) {
    one_a = a.scale(0, 0);
    one_b = b.scale(0, 0);
  }
  float total = 0;
  for (int64_t begin = 0; begin < k;) {
    const int64_t end = blocks.end_of(begin, k);
    float sum = 0;
    for (int64_t chunk = begin; chunk < end; chunk += kSide) {
      const int count = static_cast<int>(min(int64_t{kSide}, end - chunk));
      if (x < count) {
        const int64_t at = chunk + x;
        of_a[y][x] = has_a ? widen(a.data[line * a.line_stride + at * a.k_stride]) * one_a : 0;
        of_b[y][x] = has_b ? widen(b.data[loaded_b * b.line_stride + at * b.k_stride]) * one_b : 0;
      }
      __syncthreads();
      for (int i = 0; i < count; ++i) sum = fmaf(of_a[y][i], of_b[x][i], sum);
      __syncthreads();
    }
    if (has_one)
      total = sum;
    else if (has_a && column < b.count)
      total = fmaf(a.scale(line, begin) * b.scale(column, begin), sum, total);
    begin = end;
  }
  if (has_a && column < b.count) sums[row * b.count + column] = total;
}

// Sums in the scratch behind the library's workspace, some rows at a time.
void run_own(Stream& stream, Tensor& c, const Tensor& a, bool ta, const Tensor& b, bool tb,
             const Epilogue& epilogue, DType beside) {
  const std::span<std::byte> scratch = stream.shared_scratch().subspan(kGemmWorkspace);
  auto* sums = reinterpret_cast<float*>(scratch.data());
  const int64_t m = c.dim(0), n = c.dim(1), k = a.dim(ta ? 0 : 1);
  const int64_t fit = static_cast<int64_t>(scratch.size() / sizeof(float)) / n;
  SXT_CHECK(fit > 0, Usage, "matmul: ", n, " columns, must be at most ",
            scratch.size() / sizeof(float));
  const int64_t step = std::min(fit, kMostBlocksY * kSide);
  const KBlocks blocks{ta ? epilogue.block_a.rows : epilogue.block_a.columns,
                       ta ? epilogue.block_a.part_rows : 0};
  with_fp8(a.dtype(), [&]<class A>(A) {
    with_fp8(b.dtype(), [&]<class B>(B) {
      const Lines<A> of_a(a, ta, epilogue.amax_a, epilogue.block_a);
      const Lines<B> of_b(b, !tb, epilogue.amax_b, epilogue.block_b);
      for (int64_t first = 0; first < m; first += step) {
        const int64_t rows = std::min(step, m - first);
        launch(stream, "matmul", product_kernel<A, B>,
               dim3(static_cast<unsigned>(ceil_div(n, kSide)),
                    static_cast<unsigned>(ceil_div(rows, kSide))),
               dim3(kSide, kSide), sums, of_a, of_b, first, rows, k, blocks);
        finish(stream, c, beside, epilogue,
               {first, rows, sums, epilogue.write == Write::Chain, epilogue.write == Write::Add});
      }
    });
  });
}

}  // namespace

void matmul_in(Stream& stream, Tensor& c, Tensor& workspace, const Tensor& a, Transpose transpose_a,
               const Tensor& b, Transpose transpose_b, const Epilogue& epilogue) {
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  const DType beside = epilogue_type(c, a, epilogue);
  with_compute("matmul", beside, []<class T>(T) {});  // refuses others
  if (c.elements() == 0) return;
  const Fp8Workspace plan = fp8_workspace(a, transpose_a, b, transpose_b, epilogue);
  if (plan.k == 0)
    return finish(
        stream, c, beside, epilogue,
        {0, plan.m, nullptr, epilogue.write == Write::Chain, epilogue.write == Write::Add});
  if (plan.is_library && are_aligned({a.raw(), b.raw(), c.raw()})) {
    std::byte* memory = workspace.raw();
    const ScaleOrder of_a = order_of(plan.a, memory, a, epilogue.amax_a, ta);
    const ScaleOrder of_b = order_of(plan.b, memory, b, epilogue.amax_b, !tb);
    const int64_t most = std::max(of_a.lines * of_a.k_tiles, of_b.lines * of_b.k_tiles);
    launch(stream, "matmul", order_scales, dim3(static_cast<unsigned>(ceil_div(most, kBlock)), 2),
           kBlock, of_a, of_b);
    Gemm problem;
    problem.m = plan.m;
    problem.n = plan.n;
    problem.k = problem.a_stride = problem.b_stride = plan.k;
    problem.type = beside;
    problem.c_type = c.dtype();
    problem.fp8_a = operand_of(stream, problem.a, plan.a, memory, a);
    problem.fp8_b = operand_of(stream, problem.b, plan.b, memory, b);
    problem.transpose_b = Transpose::Yes;
    problem.c = c.raw();
    if (run_library(stream, c, problem, epilogue, beside)) return;
  }
  run_own(stream, c, a, ta, b, tb, epilogue, beside);
}

}  // namespace sextant::cuda
