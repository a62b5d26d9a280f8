// Products are rounded before they are added (__fmul_rn), as on the CPU: an update in f32 has the
// same bits there.
#include "ops/sgd.h"

#include "ops/cuda/part_list.h"
#include "ops/cuda/typed.h"

namespace sextant::cuda {
namespace {

constexpr int kElements = 4;  // of a thread at a time
constexpr int64_t kPerBlock = kBlock * kElements * 4;

struct Part {
  Typed weight, velocity, gradient;
  float* master;
  int64_t count;
  double decay;
  bool is_packed;
};
using Parts = PartList<Part, 64>;

struct Factors {
  float keep, rate, scale, momentum;
};

template <int N>
__device__ void update(const Part& part, const Factors& k, int64_t at) {
  float change[N], w[N];
  part.gradient.load(change, at);
  if (part.master != nullptr)
    load(w, part.master + at);
  else
    part.weight.load(w, at);
#pragma unroll
  for (int i = 0; i < N; ++i) change[i] = __fmul_rn(change[i], k.scale);
  if (part.velocity.data != nullptr) {
    float speed[N];
    part.velocity.load(speed, at);
#pragma unroll
    for (int i = 0; i < N; ++i) change[i] += __fmul_rn(speed[i], k.momentum);
    part.velocity.store(at, change);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) w[i] = __fmul_rn(w[i], k.keep) - __fmul_rn(change[i], k.rate);
  if (part.master != nullptr) store(part.master + at, w);
  part.weight.store(at, w);
}

__global__ void __launch_bounds__(kBlock)
    sgd_kernel(const double* scalars, float momentum, const __grid_constant__ Parts list) {
  if (scalars[static_cast<int>(UpdateScalar::Apply)] == 0) return;
  const int block = static_cast<int>(blockIdx.x), number = list.part_of(block);
  const Part& part = list.parts[number];
  const double rate = scalars[static_cast<int>(UpdateScalar::LearningRate)];
  const Factors factors{static_cast<float>(1 - rate * part.decay), static_cast<float>(rate),
                        static_cast<float>(scalars[static_cast<int>(UpdateScalar::GradientScale)]),
                        momentum};
  const int64_t begin = int64_t{block - list.first_block[number]} * kPerBlock;
  const int64_t end = min(begin + kPerBlock, part.count);
  const int64_t packed = part.is_packed ? end / kElements * kElements : begin;
#pragma unroll 2
  for (int64_t at = begin + threadIdx.x * kElements; at < packed; at += kBlock * kElements)
    update<kElements>(part, factors, at);
  for (int64_t at = packed + threadIdx.x; at < end; at += kBlock) update<1>(part, factors, at);
}

Part describe(const SgdPart& from) {
  Part part{};
  part.weight = Typed("sgd", from.weight);
  part.velocity = Typed("sgd", from.velocity);
  part.gradient = Typed("sgd", from.gradient);
  part.master = const_cast<float*>(data_or_null<float>(from.master));
  part.count = from.weight.elements();
  part.decay = from.weight_decay;
  part.is_packed = part.weight.has_packs(kElements) && part.velocity.has_packs(kElements) &&
                   part.gradient.has_packs(kElements) && are_aligned({part.master});
  return part;
}

}  // namespace

void sgd(Stream& stream, std::span<const SgdPart> parts, const Tensor& scalars, double momentum) {
  for_lists<Parts>(parts, kPerBlock, INT32_MAX, describe, [&](const Parts& list) {
    launch(stream, "sgd", sgd_kernel, static_cast<unsigned>(list.blocks()), kBlock,
           scalars.data<double>(), static_cast<float>(momentum), list);
  });
}

}  // namespace sextant::cuda
