// One pass over all tensors of a part, four elements of a thread at a time. Products are rounded
// before they are added (__fmul_rn), as on the CPU: an update in f32 has the same bits there.
#include "ops/adamw.h"

#include <cmath>

#include "ops/cuda/draw.h"
#include "ops/cuda/part_list.h"
#include "ops/cuda/typed.h"
#include "tensor/convert.h"

namespace sextant::cuda {
namespace {

constexpr int kElements = 4;  // of a thread at a time
constexpr int64_t kPerBlock = kBlock * kElements * 4;

struct Part {
  Typed weight, first, second, gradient;
  float* master;
  int64_t count;
  PhiloxKey key;       // of stochastic rounding
  ElementIndex index;  // likewise
  double decay;
  bool is_packed;
};
using Parts = PartList<Part, 96>;

struct Factors {
  float keep, beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root, eps, scale;
  uint32_t step;
};

// Which tensor of a parameter is rounded: each has draws of its own (ops/cpu/rounding.h).
enum class Rounded : uint32_t { Weight, FirstMoment, SecondMoment };

__device__ Factors make_factors(const double* scalars, const AdamWSettings& settings,
                                double decay) {
  const double lr = scalars[static_cast<int>(UpdateScalar::LearningRate)];
  return {static_cast<float>(1 - lr * decay),
          static_cast<float>(settings.beta1),
          static_cast<float>(1 - settings.beta1),
          static_cast<float>(settings.beta2),
          static_cast<float>(1 - settings.beta2),
          static_cast<float>(lr / scalars[static_cast<int>(UpdateScalar::Correction1)]),
          static_cast<float>(1 / sqrt(scalars[static_cast<int>(UpdateScalar::Correction2)])),
          static_cast<float>(settings.eps),
          static_cast<float>(scalars[static_cast<int>(UpdateScalar::GradientScale)]),
          static_cast<uint32_t>(scalars[static_cast<int>(UpdateScalar::Step)])};
}

// Word e % 4 of counter (high and low word of e / 4, step, 0) for N elements from e on.
template <int N>
__device__ void draw(uint32_t (&words)[N], PhiloxKey key, uint64_t element, uint32_t step) {
  const uint64_t block = element / 4;
  const std::array<uint32_t, 4> four =
      philox({static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(block), step, 0}, key);
  if constexpr (N == 1) {
    words[0] = word_of(four, element % 4);
  } else {
    static_assert(N == 4);
#pragma unroll
    for (int i = 0; i < N; ++i) words[i] = four[i];
  }
}

template <class T, int N>
__device__ void store_by_chance(T* to, const float (&from)[N], const uint32_t (&words)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = round_stochastic<T>(from[i], words[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Narrow types are rounded stochastically.
template <int N>
__device__ void put(const Typed& to, int64_t at, const float (&from)[N], const Part& part,
                    uint32_t step, Rounded what) {
  if (to.type == DType::F32) return to.store(at, from);
  uint32_t words[N];
  draw(words, {part.key[0], part.key[1] + static_cast<uint32_t>(what) * 0x9E3779B9u},
       static_cast<uint64_t>(part.index(at)), step);
  if (to.type == DType::BF16)
    store_by_chance(static_cast<bf16*>(to.data) + at, from, words);
  else
    store_by_chance(static_cast<f16*>(to.data) + at, from, words);
}

template <int N>
__device__ void update(const Part& part, const Factors& k, int64_t at) {
  float g[N], m[N], v[N], w[N];
  part.gradient.load(g, at);
  part.first.load(m, at);
  part.second.load(v, at);
  if (part.master != nullptr)
    load(w, part.master + at);
  else
    part.weight.load(w, at);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    g[i] = __fmul_rn(g[i], k.scale);
    m[i] = __fmul_rn(m[i], k.beta1) + __fmul_rn(g[i], k.one_minus_beta1);
    v[i] = __fmul_rn(v[i], k.beta2) + __fmul_rn(__fmul_rn(g[i], g[i]), k.one_minus_beta2);
    const float denominator = __fmul_rn(sqrtf(v[i]), k.root) + k.eps;
    w[i] = __fmul_rn(w[i], k.keep) - __fmul_rn(m[i] / denominator, k.rate);
  }
  put(part.first, at, m, part, k.step, Rounded::FirstMoment);
  put(part.second, at, v, part, k.step, Rounded::SecondMoment);
  if (part.master != nullptr) {
    store(part.master + at, w);
    part.weight.store(at, w);  // to nearest
  } else {
    put(part.weight, at, w, part, k.step, Rounded::Weight);
  }
}

__global__ void __launch_bounds__(kBlock)
    adamw_kernel(const double* scalars, AdamWSettings settings,
                 const __grid_constant__ Parts list) {
  if (scalars[static_cast<int>(UpdateScalar::Apply)] == 0) return;
  const int block = static_cast<int>(blockIdx.x), number = list.part_of(block);
  const Part& part = list.parts[number];
  __shared__ Factors factors;
  if (threadIdx.x == 0) factors = make_factors(scalars, settings, part.decay);
  __syncthreads();
  const int64_t begin = int64_t{block - list.first_block[number]} * kPerBlock;
  const int64_t end = min(begin + kPerBlock, part.count);
  const int64_t packed = part.is_packed ? end / kElements * kElements : begin;
#pragma unroll 2
  for (int64_t at = begin + threadIdx.x * kElements; at < packed; at += kBlock * kElements)
    update<kElements>(part, factors, at);
  for (int64_t at = packed + threadIdx.x; at < end; at += kBlock) update<1>(part, factors, at);
}

// Whether the draws of every kElements elements come from one counter.
bool are_drawn_together(const ElementIndex& index) {
  return (index.first + index.offset) % kElements == 0 &&
         (index.width == index.stride ||
          (index.offset % kElements == 0 && index.width % kElements == 0 &&
           index.stride % kElements == 0));
}

Part describe(const AdamWPart& from, const AdamWSettings& settings) {
  Part part{};
  part.weight = Typed("adamw", from.weight);
  part.first = Typed("adamw", from.first_moment);
  part.second = Typed("adamw", from.second_moment);
  part.gradient = Typed("adamw", from.gradient);
  part.master = const_cast<float*>(data_or_null<float>(from.master));
  part.count = from.weight.elements();
  part.key = {static_cast<uint32_t>(settings.seed) ^ static_cast<uint32_t>(settings.seed >> 32),
              static_cast<uint32_t>(from.name)};
  part.index = from.index;
  part.decay = from.weight_decay;
  const bool is_drawn =
      part.first.type != DType::F32 || (part.weight.type != DType::F32 && part.master == nullptr);
  part.is_packed = part.weight.has_packs(kElements) && part.first.has_packs(kElements) &&
                   part.second.has_packs(kElements) && part.gradient.has_packs(kElements) &&
                   are_aligned({part.master}) && (!is_drawn || are_drawn_together(from.index));
  return part;
}

}  // namespace

void adamw(Stream& stream, std::span<const AdamWPart> parts, const Tensor& scalars,
           const AdamWSettings& settings) {
  for_lists<Parts>(
      parts, kPerBlock, INT32_MAX, [&](const AdamWPart& part) { return describe(part, settings); },
      [&](const Parts& list) {
        launch(stream, "adamw", adamw_kernel, static_cast<unsigned>(list.blocks()), kBlock,
               scalars.data<double>(), settings, list);
      });
}

}  // namespace sextant::cuda
