// A warp has a token. It finds the largest logits one by one; sums over experts have a fixed order.
#include "ops/cuda/moe_route.cuh"

#include "ops/cuda/bad_rows.h"
#include "ops/fault_texts.h"

namespace sextant::cuda {
namespace {

constexpr int64_t kMostExperts = 1 << 16;
constexpr unsigned kAllLanes = 0xffffffff;
constexpr float kTiny = 1e-20F;  // keeps a sum of scores above zero

// The softmax over the chosen ones, summed in their order by every lane.
struct ChosenSoftmax {
  float largest, sum = 0;

  __device__ ChosenSoftmax(const int32_t* picked, int chosen, const float* logits)
      : largest(logits[picked[0]]) {
    for (int j = 1; j < chosen; ++j) largest = fmaxf(largest, logits[picked[j]]);
    for (int j = 0; j < chosen; ++j) sum += expf(logits[picked[j]] - largest);
  }
  __device__ float operator()(float logit) const { return expf(logit - largest) / sum; }
};

// A bit for each of some experts or groups.
__device__ bool has_bit(const uint32_t* bits, int i) {
  return (bits[i / kWarp] >> (i % kWarp) & 1) != 0;
}

// pick(j, i) for the `chosen` largest of value(0) ... value(count - 1), by lane 0; their bits are
// set in `taken`, all others cleared. As on the CPU: the first one that is left if its value is
// NaN, else the largest value that is left, the lower number of equal ones.
template <class Value, class Pick>
__device__ void choose_largest(uint32_t* taken, int chosen, int count, const Value& value,
                               const Pick& pick) {
  for (int word = lane(); word * kWarp < count; word += kWarp) taken[word] = 0;
  __syncwarp();
  for (int j = 0; j < chosen; ++j) {
    int first = count, best = count;  // `count`: none
    float largest = 0;
    for (int i = lane(); i < count; i += kWarp) {
      if (has_bit(taken, i)) continue;
      first = min(first, i);
      const float own = value(i);
      if (own == own && (best == count || own > largest)) {
        best = i;
        largest = own;
      }
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      first = min(first, __shfl_xor_sync(kAllLanes, first, offset));
      const int other = __shfl_xor_sync(kAllLanes, best, offset);
      const float theirs = __shfl_xor_sync(kAllLanes, largest, offset);
      if (other < count &&
          (best == count || theirs > largest || (theirs == largest && other < best))) {
        best = other;
        largest = theirs;
      }
    }
    const float left = value(first);
    if (lane() == 0) {
      const int next = left == left ? best : first;
      pick(j, next);
      taken[next / kWarp] |= 1U << (next % kWarp);
    }
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kRouterThreads)
    route_kernel(int32_t* choice, float* gates, int32_t* counts, const float* logits,
                 int64_t tokens, int experts, int chosen, Router router) {
  __shared__ uint32_t taken[kRouterWarps][kMostExperts / kWarp];
  const int64_t row = first_row();
  if (row >= tokens) return;
  const float* own = logits + row * experts;
  int32_t* picked = choice + row * chosen;
  float* gate = gates + row * chosen;
  if (router == Router::Balanced) {
    for (int j = lane(); j < chosen; j += kWarp)
      picked[j] = static_cast<int32_t>((row * chosen + j) % experts);
  } else {
    choose_largest(
        taken[threadIdx.x / kWarp], chosen, experts, [&](int e) { return own[e]; },
        [&](int j, int e) { picked[j] = e; });
  }
  __syncwarp();
  if (router == Router::SoftmaxBefore) {
    const Softmax softmax(own, experts);
    for (int j = lane(); j < chosen; j += kWarp) gate[j] = softmax(own[picked[j]]);
  } else {
    const ChosenSoftmax softmax(picked, chosen, own);
    for (int j = lane(); j < chosen; j += kWarp) gate[j] = softmax(own[picked[j]]);
  }
  // Whole numbers: the order of these sums does not matter.
  for (int j = lane(); j < chosen; j += kWarp) atomicAdd(counts + picked[j], 1);
}

// What sigmoid routing chooses by.
struct BiasedScores {
  const float *logits, *bias;
  __device__ float operator()(int expert) const {
    return router_sigmoid(logits[expert]) + bias[expert];
  }
  // The sum of the two largest of a group, compared one after another as on the CPU.
  __device__ float of_group(int begin, int size) const {
    float first = (*this)(begin), second = (*this)(begin + 1);
    if (second > first) {
      const float larger = second;
      second = first;
      first = larger;
    }
    for (int e = begin + 2; e < begin + size; ++e) {
      const float next = (*this)(e);
      if (next > first) {
        second = first;
        first = next;
      } else if (next > second) {
        second = next;
      }
    }
    return first + second;
  }
};

// scale / the sum of the chosen scores, summed in their order by every lane, or the scale.
struct SigmoidGates {
  float sum = 0, factor;

  __device__ SigmoidGates(const int32_t* picked, int chosen, const float* logits,
                          const Routing& routing) {
    for (int j = 0; j < chosen; ++j) sum += router_sigmoid(logits[picked[j]]);
    sum = routing.normalize ? sum + kTiny : 1;
    factor = static_cast<float>(routing.scale) / sum;
  }
};

__global__ void __launch_bounds__(kRouterThreads)
    route_sigmoid_kernel(int32_t* choice, float* gates, int32_t* counts, const float* logits,
                         const float* bias, int64_t tokens, int experts, int chosen,
                         Routing routing) {
  __shared__ uint32_t taken[kRouterWarps][kMostExperts / kWarp];
  __shared__ uint32_t
      kept[kRouterWarps][kMostExperts / 2 / kWarp];  // groups of two experts at least
  const int64_t row = first_row();
  if (row >= tokens) return;
  const float* own = logits + row * experts;
  int32_t* picked = choice + row * chosen;
  float* gate = gates + row * chosen;
  const BiasedScores score{own, bias};
  const auto groups = static_cast<int>(routing.groups);
  const int size = experts / groups, warp = static_cast<int>(threadIdx.x) / kWarp;
  if (groups > 1)
    choose_largest(
        kept[warp], static_cast<int>(routing.groups_chosen), groups,
        [&](int group) { return score.of_group(group * size, size); }, [](int, int) {});
  choose_largest(
      taken[warp], chosen, experts,
      [&](int e) { return groups > 1 && !has_bit(kept[warp], e / size) ? kNothing : score(e); },
      [&](int j, int e) { picked[j] = e; });
  __syncwarp();
  const SigmoidGates all(picked, chosen, own, routing);
  for (int j = lane(); j < chosen; j += kWarp) {
    gate[j] = router_sigmoid(own[picked[j]]) * all.factor;
    atomicAdd(counts + picked[j], 1);
  }
}

struct Choice {
  const int32_t* expert;
  int experts, chosen;
  Report report;

  // By one thread of a pair.
  __device__ bool is_valid(int64_t pair) const {
    const auto is_bad = [this](int32_t value) { return value < 0 || value >= experts; };
    if (!is_bad(expert[pair])) return true;
    if (is_first_bad(expert, pair, is_bad)) report(expert[pair], pair / chosen, experts);
    return false;
  }
};

__global__ void __launch_bounds__(kRouterThreads)
    backward_kernel(float* dlogits, const float* dgates, Choice choice, const float* logits,
                    int64_t tokens, Routing routing) {
  const Router router = routing.router;
  const int64_t row = first_row();
  if (row >= tokens) return;
  const int experts = choice.experts, chosen = choice.chosen;
  const float* own = logits + row * experts;
  const float* above = dgates + row * chosen;
  const int32_t* picked = choice.expert + row * chosen;
  float* out = dlogits + row * experts;
  bool is_valid = true;
  for (int j = lane(); j < chosen; j += kWarp)
    is_valid = choice.is_valid(row * chosen + j) && is_valid;
  is_valid = __all_sync(kAllLanes, is_valid) != 0;
  if (!is_valid || router != Router::SoftmaxBefore)
    for (int e = lane(); e < experts; e += kWarp) out[e] = 0;
  if (!is_valid) return;
  float mean = 0;
  if (router == Router::Sigmoid) {
    if (routing.normalize && chosen == 1) return;  // a score divided by itself
    const SigmoidGates all(picked, chosen, own, routing);
    for (int j = 0; j < chosen; ++j) mean += above[j] * router_sigmoid(own[picked[j]]);
    mean = routing.normalize ? mean / all.sum : 0;
    __syncwarp();
    for (int j = lane(); j < chosen; j += kWarp) {
      const float score = router_sigmoid(own[picked[j]]);
      out[picked[j]] = all.factor * (above[j] - mean) * score * (1 - score);
    }
    return;
  }
  if (router == Router::SoftmaxBefore) {
    const Softmax softmax(own, experts);
    for (int j = 0; j < chosen; ++j) mean += above[j] * softmax(own[picked[j]]);
    for (int e = lane(); e < experts; e += kWarp) out[e] = -mean * softmax(own[e]);
    __syncwarp();
    for (int j = lane(); j < chosen; j += kWarp)
      out[picked[j]] += above[j] * softmax(own[picked[j]]);
    return;
  }
  const ChosenSoftmax softmax(picked, chosen, own);
  for (int j = 0; j < chosen; ++j) mean += above[j] * softmax(own[picked[j]]);
  __syncwarp();
  for (int j = lane(); j < chosen; j += kWarp)
    out[picked[j]] = softmax(own[picked[j]]) * (above[j] - mean);
}

}  // namespace

void moe_route(Stream& stream, Tensor& choice, Tensor& gates, Tensor& counts, const Tensor& logits,
               const Tensor& bias, const Routing& routing) {
  check_statistics("moe_route", logits);
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  SXT_CHECK(experts <= kMostExperts, Usage, "moe_route: ", experts, " experts, must be at most ",
            kMostExperts);
  check(cudaMemsetAsync(counts.raw(), 0, static_cast<size_t>(counts.bytes()), queue_of(stream)),
        "moe_route");
  if (routing.router == Router::Sigmoid)
    return launch(stream, "moe_route", route_sigmoid_kernel, grid_of_tokens(tokens), kRouterThreads,
                  choice.data<int32_t>(), gates.data<float>(), counts.data<int32_t>(),
                  logits.data<float>(), bias.data<float>(), tokens, static_cast<int>(experts),
                  static_cast<int>(choice.dim(1)), routing);
  launch(stream, "moe_route", route_kernel, grid_of_tokens(tokens), kRouterThreads,
         choice.data<int32_t>(), gates.data<float>(), counts.data<int32_t>(), logits.data<float>(),
         tokens, static_cast<int>(experts), static_cast<int>(choice.dim(1)), routing.router);
}

void moe_route_backward(Stream& stream, Tensor& dlogits, const Tensor& dgates, const Tensor& choice,
                        const Tensor& logits, const Routing& routing) {
  check_statistics("moe_route_backward", logits);
  const Choice all{choice.data<int32_t>(), static_cast<int>(logits.dim(1)),
                   static_cast<int>(choice.dim(1)),
                   Report(stream, Fault::Internal, "moe_route_backward", kBadExpertOfToken)};
  launch(stream, "moe_route_backward", backward_kernel, grid_of_tokens(logits.dim(0)),
         kRouterThreads, dlogits.data<float>(), dgates.data<float>(), all, logits.data<float>(),
         logits.dim(0), routing);
}

}  // namespace sextant::cuda
