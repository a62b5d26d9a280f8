#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Routing of tokens to experts (mixture of experts). All math is in the type of the logits.
//   SoftmaxAfter   the `chosen` largest logits, gates = their softmax
//   SoftmaxBefore  softmax over all experts, gates = its `chosen` largest values, not renormalised
//   Balanced       choice j of token t is expert (t * chosen + j) % experts, whatever the logits;
//                  gates = softmax of the logits of the chosen ones. For measurements.
//   Sigmoid        scores = sigmoid(logits), the `chosen` largest of scores + bias (DeepSeek-V3);
//                  gates = scale * the scores of the chosen ones, divided by their sum if
//                  `normalize`. With `groups` above 1 the experts are in groups of equal size, and
//                  only those of `groups_chosen` groups are eligible: the groups whose two largest
//                  biased scores have the largest sum.
// Equal logits: the lower expert first.
enum class Router : uint8_t { SoftmaxAfter, SoftmaxBefore, Balanced, Sigmoid };

// The fields after `router` are those of Sigmoid.
struct Routing {
  Router router = Router::SoftmaxAfter;
  int64_t groups = 1, groups_chosen = 1;
  bool normalize = true;
  double scale = 1;
};

// Chooses experts for each token and counts the tokens of each expert.
//   logits: [tokens, experts], f32 or f64
//   choice: i32 [tokens, chosen], most probable first   gates: [tokens, chosen]
//   counts: i32 [experts]
//   bias: of Sigmoid, [experts], in the type of the logits; else empty
void moe_route(Stream& stream, Tensor& choice, Tensor& gates, Tensor& counts, const Tensor& logits,
               const Tensor& bias, const Routing& routing);
// dlogits from dgates; the choice itself has no gradient.
void moe_route_backward(Stream& stream, Tensor& dlogits, const Tensor& dgates, const Tensor& choice,
                        const Tensor& logits, const Routing& routing);

// Auxiliary losses of the router over a unit of `unit_tokens` tokens, of which a rank has some:
//   balance = E * sum over experts of f * P,   f = count / (chosen * unit_tokens), a constant,
//                                              P = sum over tokens of softmax(logits) /
//                                              unit_tokens, of Sigmoid: of scores / sum of the
//                                              scores
//   z       = sum over tokens of lse(logits)^2 / unit_tokens
// The losses of the ranks that share a unit add up to the unit's. The counts can be those of other
// tokens than the unit's, as a load error (router_bias.h) of `load_tokens` tokens:
// E * f = 1 + error / (chosen * load_tokens).
struct RouterUnit {
  int64_t tokens = 0, chosen = 0;
  int64_t load_tokens = 0;  // of counts that are a load error
};
// sums += {balance, z, tokens of each expert} of these tokens.
//   sums: f64 [2 + experts]   logits: [tokens, experts]   own: i32 [experts], of these tokens
//   counts: i32 [experts], over the unit; or a load error in the type of the logits
void moe_losses(Stream& stream, Tensor& sums, const Tensor& logits, const Tensor& counts,
                const Tensor& own, const RouterUnit& unit, Router router);
// dlogits += scale * (balance weight * d balance + z weight * d z).   scale: [1], f64
struct RouterLossWeights {
  double balance = 0, z = 0;
  friend bool operator==(const RouterLossWeights&, const RouterLossWeights&) = default;
};
void moe_losses_backward(Stream& stream, Tensor& dlogits, const Tensor& logits,
                         const Tensor& counts, const RouterUnit& unit,
                         const RouterLossWeights& weights, const Tensor& scale, Router router);

}  // namespace sextant
