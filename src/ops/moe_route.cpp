#include "ops/moe_route.h"

#include "ops/check.h"

namespace sextant {
namespace {

constexpr double kExpFlops = 10;  // of a softmax, per logit

void check_logits(std::string_view op, const Tensor& logits) {
  SXT_CHECK(logits && (logits.dtype() == DType::F32 || logits.dtype() == DType::F64), Usage, op,
            ": logits is ", name_of(logits.dtype()), " ", logits.shape(), ", must be f32 or f64");
  check_dims(op, "logits", logits, 2);
}

void check_choice(std::string_view op, const Tensor& choice, const Tensor& gates,
                  const Tensor& logits) {
  check_logits(op, logits);
  check_dims(op, "choice", choice, 2);
  const int64_t chosen = choice.dim(1);
  SXT_CHECK(chosen >= 1 && chosen <= logits.dim(1), Usage, op, ": ", chosen, " of ", logits.dim(1),
            " experts chosen, must be 1 to ", logits.dim(1));
  check_tensor(op, "choice", choice, DType::I32, {logits.dim(0), chosen});
  check_tensor(op, "gates", gates, logits.dtype(), choice.shape());
}

void check_routing(std::string_view op, const Tensor& logits, const Tensor& choice,
                   const Routing& routing) {
  if (routing.router != Router::Sigmoid) return;
  const int64_t experts = logits.dim(1), groups = routing.groups;
  SXT_CHECK(groups >= 1 && experts % groups == 0, Usage, op, ": ", groups, " groups of ", experts,
            " experts, must divide them");
  SXT_CHECK(groups == 1 || experts / groups > 1, Usage, op, ": groups of one expert, need two");
  SXT_CHECK(routing.groups_chosen >= 1 && routing.groups_chosen <= groups &&
                routing.groups_chosen * (experts / groups) >= choice.dim(1),
            Usage, op, ": ", routing.groups_chosen, " of ", groups, " groups chosen for ",
            choice.dim(1), " experts");
}

void check_unit(std::string_view op, const Tensor& logits, const Tensor& counts,
                const RouterUnit& unit) {
  check_logits(op, logits);
  const bool is_load = unit.load_tokens > 0;
  check_tensor(op, "counts", counts, is_load ? logits.dtype() : DType::I32, {logits.dim(1)});
  SXT_CHECK(unit.tokens >= logits.dim(0) && unit.chosen >= 1, Usage, op, ": a unit of ",
            unit.tokens, " tokens with ", unit.chosen, " experts each, of which ", logits.dim(0),
            " are here");
}

}  // namespace

SXT_BACKENDS(moe_route)
SXT_BACKENDS(moe_route_backward)
SXT_BACKENDS(moe_losses)
SXT_BACKENDS(moe_losses_backward)

void moe_route(Stream& stream, Tensor& choice, Tensor& gates, Tensor& counts, const Tensor& logits,
               const Tensor& bias, const Routing& routing) {
  check_choice("moe_route", choice, gates, logits);
  check_routing("moe_route", logits, choice, routing);
  check_tensor("moe_route", "counts", counts, DType::I32, {logits.dim(1)});
  if (routing.router == Router::Sigmoid)
    check_tensor("moe_route", "bias", bias, logits.dtype(), {logits.dim(1)});
  SXT_DISPATCH(stream,
               Work("moe_route")
                   .writes(choice, gates, counts)
                   .reads(logits, bias)
                   .flops(kExpFlops * logits.elements()),
               moe_route(stream, choice, gates, counts, logits, bias, routing));
}

void moe_route_backward(Stream& stream, Tensor& dlogits, const Tensor& dgates, const Tensor& choice,
                        const Tensor& logits, const Routing& routing) {
  check_choice("moe_route_backward", choice, dgates, logits);
  check_tensor("moe_route_backward", "dlogits", dlogits, logits.dtype(), logits.shape());
  SXT_DISPATCH(stream,
               Work("moe_route_backward")
                   .writes(dlogits)
                   .reads(dgates, choice, logits)
                   .flops(kExpFlops * logits.elements()),
               moe_route_backward(stream, dlogits, dgates, choice, logits, routing));
}

void moe_losses(Stream& stream, Tensor& sums, const Tensor& logits, const Tensor& counts,
                const Tensor& own, const RouterUnit& unit, Router router) {
  check_unit("moe_losses", logits, counts, unit);
  check_tensor("moe_losses", "own", own, DType::I32, {logits.dim(1)});
  check_tensor("moe_losses", "sums", sums, DType::F64, {2 + counts.dim(0)});
  SXT_DISPATCH(stream,
               Work("moe_losses")
                   .writes(sums)
                   .reads(sums, logits, counts, own)
                   .flops(kExpFlops * logits.elements()),
               moe_losses(stream, sums, logits, counts, own, unit, router));
}

void moe_losses_backward(Stream& stream, Tensor& dlogits, const Tensor& logits,
                         const Tensor& counts, const RouterUnit& unit,
                         const RouterLossWeights& weights, const Tensor& scale, Router router) {
  check_unit("moe_losses_backward", logits, counts, unit);
  check_tensor("moe_losses_backward", "dlogits", dlogits, logits.dtype(), logits.shape());
  check_tensor("moe_losses_backward", "scale", scale, DType::F64, {1});
  SXT_DISPATCH(stream,
               Work("moe_losses_backward")
                   .writes(dlogits)
                   .reads(dlogits, logits, counts, scale)
                   .flops(kExpFlops * logits.elements()),
               moe_losses_backward(stream, dlogits, logits, counts, unit, weights, scale, router));
}

}  // namespace sextant
