// A warp has a token. It finds the largest logits one by one; sums over experts have a fixed order.
#include "ops/moe_route.h"

#include <limits>

#include "ops/cuda/bad_rows.h"
#include "ops/fault_texts.h"

namespace sextant::cuda {
namespace {

constexpr int kWarps = 4;  // tokens of a block
constexpr int kThreads = kWarps * kWarp;
constexpr int64_t kMostExperts = 1 << 16;
constexpr int64_t kMostPartials = 528;  // blocks whose losses are summed
constexpr unsigned kAllLanes = 0xffffffff;
constexpr float kNothing = -std::numeric_limits<float>::infinity();  // the largest of no logits

__device__ int lane() {
  return static_cast<int>(threadIdx.x) % kWarp;
}
__device__ int64_t first_row() {
  return int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
}
dim3 grid_of_tokens(int64_t tokens) {
  return dim3(static_cast<unsigned>(ceil_div(tokens, kWarps)));
}

// The softmax over all experts of a token; every lane has the same numbers.
struct Softmax {
  float largest = kNothing, sum = 0;

  __device__ Softmax(const float* logits, int experts) {
    for (int e = lane(); e < experts; e += kWarp) largest = fmaxf(largest, logits[e]);
    largest = warp_max(largest);
    for (int e = lane(); e < experts; e += kWarp) sum += expf(logits[e] - largest);
    sum = warp_sum(sum);
  }
  __device__ float operator()(float logit) const { return expf(logit - largest) / sum; }
  __device__ float lse() const { return largest + logf(sum); }
};

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

// As on the CPU: the first expert that is left if its logit is NaN, else the largest logit that is
// left, the lower expert of equal ones.
__device__ void choose_largest(int32_t* picked, int chosen, const float* logits, int experts) {
  __shared__ uint32_t taken_by_warp[kWarps][kMostExperts / kWarp];  // a bit for each expert
  uint32_t* taken = taken_by_warp[threadIdx.x / kWarp];
  for (int word = lane(); word * kWarp < experts; word += kWarp) taken[word] = 0;
  __syncwarp();
  for (int j = 0; j < chosen; ++j) {
    int first = experts, best = experts;  // `experts`: none
    float largest = 0;
    for (int e = lane(); e < experts; e += kWarp) {
      if ((taken[e / kWarp] >> lane() & 1) != 0) continue;
      first = min(first, e);
      const float logit = logits[e];
      if (logit == logit && (best == experts || logit > largest)) {
        best = e;
        largest = logit;
      }
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      first = min(first, __shfl_xor_sync(kAllLanes, first, offset));
      const int other = __shfl_xor_sync(kAllLanes, best, offset);
      const float value = __shfl_xor_sync(kAllLanes, largest, offset);
      if (other < experts &&
          (best == experts || value > largest || (value == largest && other < best))) {
        best = other;
        largest = value;
      }
    }
    const float left = logits[first];
    const int pick = left == left ? best : first;
    if (lane() == 0) {
      picked[j] = pick;
      taken[pick / kWarp] |= 1U << (pick % kWarp);
    }
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kThreads)
    route_kernel(int32_t* choice, float* gates, int32_t* counts, const float* logits,
                 int64_t tokens, int experts, int chosen, Router router) {
  const int64_t row = first_row();
  if (row >= tokens) return;
  const float* own = logits + row * experts;
  int32_t* picked = choice + row * chosen;
  float* gate = gates + row * chosen;
  if (router == Router::Balanced) {
    for (int j = lane(); j < chosen; j += kWarp)
      picked[j] = static_cast<int32_t>((row * chosen + j) % experts);
  } else {
    choose_largest(picked, chosen, own, experts);
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

__global__ void __launch_bounds__(kThreads)
    backward_kernel(float* dlogits, const float* dgates, Choice choice, const float* logits,
                    int64_t tokens, Router router) {
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

// The weight of each expert's probability in the balance loss: E * f / unit tokens.
struct BalanceFactors {
  const int32_t* counts;
  double each;

  BalanceFactors(const Tensor& tokens_of_experts, const RouterUnit& unit)
      : counts(tokens_of_experts.data<int32_t>()),
        each(static_cast<double>(tokens_of_experts.dim(0)) /
             (static_cast<double>(unit.chosen) * static_cast<double>(unit.tokens) *
              static_cast<double>(unit.tokens))) {}
  __device__ double operator()(int expert) const { return each * counts[expert]; }
};

// partial: [blocks, 2], the balance and z losses of the block's tokens
__global__ void __launch_bounds__(kThreads)
    losses_kernel(double* partial, const float* logits, BalanceFactors factor, int64_t tokens,
                  int experts, double unit_tokens) {
  double balance = 0, z = 0;
  for (int64_t row = first_row(); row < tokens; row += int64_t{gridDim.x} * kWarps) {
    const float* own = logits + row * experts;
    const Softmax softmax(own, experts);
    for (int e = lane(); e < experts; e += kWarp)
      balance += factor(e) * static_cast<double>(softmax(own[e]));
    const auto lse = static_cast<double>(softmax.lse());
    if (lane() == 0) z += lse * lse / unit_tokens;
  }
  balance = block_sum(balance);
  z = block_sum(z);
  if (threadIdx.x != 0) return;
  partial[int64_t{blockIdx.x} * 2] = balance;
  partial[int64_t{blockIdx.x} * 2 + 1] = z;
}

__global__ void __launch_bounds__(kBlock)
    fold_losses_kernel(double* sums, const double* partial, int blocks, const int32_t* own,
                       int experts) {
  double balance = 0, z = 0;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kBlock) {
    balance += partial[i * 2];
    z += partial[i * 2 + 1];
  }
  balance = block_sum(balance);
  z = block_sum(z);
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kBlock) sums[2 + e] += own[e];
  if (threadIdx.x != 0) return;
  sums[0] += balance;
  sums[1] += z;
}

__global__ void __launch_bounds__(kThreads)
    losses_backward_kernel(float* dlogits, const float* logits, BalanceFactors factor,
                           int64_t tokens, int experts, double balance_weight, double z_weight,
                           const double* scale) {
  const int64_t row = first_row();
  if (row >= tokens) return;
  const double balance = *scale * balance_weight, z = *scale * z_weight;
  const float* own = logits + row * experts;
  float* out = dlogits + row * experts;
  const Softmax softmax(own, experts);
  double mean = 0;
  for (int e = lane(); e < experts; e += kWarp)
    mean += factor(e) * static_cast<double>(softmax(own[e]));
  mean = warp_sum(mean);
  const double from_z = z * static_cast<double>(softmax.lse());
  for (int e = lane(); e < experts; e += kWarp)
    out[e] += static_cast<float>(static_cast<double>(softmax(own[e])) *
                                 (balance * (factor(e) - mean) + from_z));
}

// Settings refuse it on a GPU.
void check_router(const char* op, Router router) {
  SXT_CHECK(router != Router::Sigmoid, Internal, op, ": sigmoid routing has no kernel on a GPU");
}

}  // namespace

void moe_route(Stream& stream, Tensor& choice, Tensor& gates, Tensor& counts, const Tensor& logits,
               const Tensor&, const Routing& routing) {
  check_router("moe_route", routing.router);
  check_statistics("moe_route", logits);
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  SXT_CHECK(experts <= kMostExperts, Usage, "moe_route: ", experts, " experts, must be at most ",
            kMostExperts);
  check(cudaMemsetAsync(counts.raw(), 0, static_cast<size_t>(counts.bytes()), queue_of(stream)),
        "moe_route");
  launch(stream, "moe_route", route_kernel, grid_of_tokens(tokens), kThreads,
         choice.data<int32_t>(), gates.data<float>(), counts.data<int32_t>(), logits.data<float>(),
         tokens, static_cast<int>(experts), static_cast<int>(choice.dim(1)), routing.router);
}

void moe_route_backward(Stream& stream, Tensor& dlogits, const Tensor& dgates, const Tensor& choice,
                        const Tensor& logits, const Routing& routing) {
  check_router("moe_route_backward", routing.router);
  check_statistics("moe_route_backward", logits);
  const Choice all{choice.data<int32_t>(), static_cast<int>(logits.dim(1)),
                   static_cast<int>(choice.dim(1)),
                   Report(stream, Fault::Internal, "moe_route_backward", kBadExpertOfToken)};
  launch(stream, "moe_route_backward", backward_kernel, grid_of_tokens(logits.dim(0)), kThreads,
         dlogits.data<float>(), dgates.data<float>(), all, logits.data<float>(), logits.dim(0),
         routing.router);
}

void moe_losses(Stream& stream, Tensor& sums, const Tensor& logits, const Tensor& counts,
                const Tensor& own, const RouterUnit& unit, Router router) {
  check_router("moe_losses", router);
  check_statistics("moe_losses", logits);
  const int64_t tokens = logits.dim(0);
  const auto experts = static_cast<int>(logits.dim(1));
  auto* partial = reinterpret_cast<double*>(stream.shared_scratch().data());
  const int64_t blocks = std::min(ceil_div(tokens, kWarps), kMostPartials);
  launch(stream, "moe_losses", losses_kernel, static_cast<unsigned>(blocks), kThreads, partial,
         logits.data<float>(), BalanceFactors(counts, unit), tokens, experts,
         static_cast<double>(unit.tokens));
  launch(stream, "moe_losses", fold_losses_kernel, 1, kBlock, sums.data<double>(), partial,
         static_cast<int>(blocks), own.data<int32_t>(), experts);
}

void moe_losses_backward(Stream& stream, Tensor& dlogits, const Tensor& logits,
                         const Tensor& counts, const RouterUnit& unit,
                         const RouterLossWeights& weights, const Tensor& scale, Router router) {
  check_router("moe_losses_backward", router);
  check_statistics("moe_losses_backward", logits);
  launch(stream, "moe_losses_backward", losses_backward_kernel, grid_of_tokens(logits.dim(0)),
         kThreads, dlogits.data<float>(), logits.data<float>(), BalanceFactors(counts, unit),
         logits.dim(0), static_cast<int>(logits.dim(1)), weights.balance,
         weights.z * 2 / static_cast<double>(unit.tokens), scale.data<double>());
}

}  // namespace sextant::cuda
