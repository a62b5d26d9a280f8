// Losses of the router. A warp has a token; sums over experts and tokens have a fixed order.
#include "ops/cuda/moe_route.cuh"

namespace sextant::cuda {
namespace {

constexpr int64_t kMostPartials = 528;  // blocks whose losses are summed

// The probability of each expert in the balance loss. The z-loss is of the softmax for every
// router.
struct Probabilities {
  Softmax softmax;
  bool is_sigmoid;
  float scores = 0;

  __device__ Probabilities(const float* logits, int experts, Router router)
      : softmax(logits, experts), is_sigmoid(router == Router::Sigmoid) {
    if (!is_sigmoid) return;
    for (int e = lane(); e < experts; e += kWarp) scores += router_sigmoid(logits[e]);
    scores = warp_sum(scores);
  }
  __device__ double operator()(float logit) const {
    return static_cast<double>(is_sigmoid ? router_sigmoid(logit) / scores : softmax(logit));
  }
  // The gradient of a logit, as on the CPU.
  __device__ double gradient(float logit, double from_balance, double from_z) const {
    const auto own = static_cast<double>(softmax(logit));
    if (!is_sigmoid) return own * (from_balance + from_z);
    return (*this)(logit) * (1 - static_cast<double>(router_sigmoid(logit))) * from_balance +
           own * from_z;
  }
};

// The weight of each expert's probability in the balance loss: E * f / unit tokens.
struct BalanceFactors {
  const int32_t* counts;
  const float* errors;  // in place of counts
  double tokens, each;

  BalanceFactors(const Tensor& load, const RouterUnit& unit)
      : counts(unit.load_tokens > 0 ? nullptr : load.data<int32_t>()),
        errors(unit.load_tokens > 0 ? load.data<float>() : nullptr),
        tokens(static_cast<double>(unit.tokens)) {
    const auto chosen = static_cast<double>(unit.chosen);
    each = counts == nullptr ? 1 / (chosen * static_cast<double>(unit.load_tokens))
                             : static_cast<double>(load.dim(0)) / (chosen * tokens * tokens);
  }
  __device__ double operator()(int expert) const {
    if (counts != nullptr) return each * counts[expert];
    return (1 + each * static_cast<double>(errors[expert])) / tokens;
  }
};

// partial: [blocks, 2], the balance and z losses of the block's tokens
__global__ void __launch_bounds__(kRouterThreads)
    losses_kernel(double* partial, const float* logits, BalanceFactors factor, int64_t tokens,
                  int experts, Router router) {
  double balance = 0, z = 0;
  for (int64_t row = first_row(); row < tokens; row += int64_t{gridDim.x} * kRouterWarps) {
    const float* own = logits + row * experts;
    const Probabilities probability(own, experts, router);
    for (int e = lane(); e < experts; e += kWarp) balance += factor(e) * probability(own[e]);
    const auto lse = static_cast<double>(probability.softmax.lse());
    if (lane() == 0) z += lse * lse / factor.tokens;
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

__global__ void __launch_bounds__(kRouterThreads)
    losses_backward_kernel(float* dlogits, const float* logits, BalanceFactors factor,
                           int64_t tokens, int experts, double balance_weight, double z_weight,
                           const double* scale, Router router) {
  const int64_t row = first_row();
  if (row >= tokens) return;
  const double balance = *scale * balance_weight, z = *scale * z_weight;
  const float* own = logits + row * experts;
  float* out = dlogits + row * experts;
  const Probabilities probability(own, experts, router);
  double mean = 0;
  for (int e = lane(); e < experts; e += kWarp) mean += factor(e) * probability(own[e]);
  mean = warp_sum(mean);
  const double from_z = z * static_cast<double>(probability.softmax.lse());
  for (int e = lane(); e < experts; e += kWarp)
    out[e] +=
        static_cast<float>(probability.gradient(own[e], balance * (factor(e) - mean), from_z));
}

}  // namespace

void moe_losses(Stream& stream, Tensor& sums, const Tensor& logits, const Tensor& counts,
                const Tensor& own, const RouterUnit& unit, Router router) {
  check_statistics("moe_losses", logits);
  const int64_t tokens = logits.dim(0);
  const auto experts = static_cast<int>(logits.dim(1));
  auto* partial = reinterpret_cast<double*>(stream.shared_scratch().data());
  const int64_t blocks = std::min(ceil_div(tokens, kRouterWarps), kMostPartials);
  launch(stream, "moe_losses", losses_kernel, static_cast<unsigned>(blocks), kRouterThreads,
         partial, logits.data<float>(), BalanceFactors(counts, unit), tokens, experts, router);
  launch(stream, "moe_losses", fold_losses_kernel, 1, kBlock, sums.data<double>(), partial,
         static_cast<int>(blocks), own.data<int32_t>(), experts);
}

void moe_losses_backward(Stream& stream, Tensor& dlogits, const Tensor& logits,
                         const Tensor& counts, const RouterUnit& unit,
                         const RouterLossWeights& weights, const Tensor& scale, Router router) {
  check_statistics("moe_losses_backward", logits);
  launch(stream, "moe_losses_backward", losses_backward_kernel, grid_of_tokens(logits.dim(0)),
         kRouterThreads, dlogits.data<float>(), logits.data<float>(), BalanceFactors(counts, unit),
         logits.dim(0), static_cast<int>(logits.dim(1)), weights.balance,
         weights.z * 2 / static_cast<double>(unit.tokens), scale.data<double>(), router);
}

}  // namespace sextant::cuda
