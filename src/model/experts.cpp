#include "model/experts.h"

#include <utility>

#include "base/error.h"
#include "ops/add.h"
#include "ops/cast.h"
#include "ops/linear.h"
#include "ops/moe_capacity.h"
#include "ops/moe_permute.h"
#include "ops/swiglu.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// A bug, for tests: the tokens of the first two experts go to each other's.
void swap_experts(Stream& stream, Tensor& choice, Tensor& counts) {
  std::vector<int32_t> experts(static_cast<size_t>(choice.elements()));
  std::vector<int32_t> tokens(static_cast<size_t>(counts.elements()));
  copy_to_host<int32_t>(stream, experts, choice);
  copy_to_host<int32_t>(stream, tokens, counts);
  for (int32_t& expert : experts)
    if (expert < 2) expert = 1 - expert;
  if (tokens.size() > 1) std::swap(tokens[0], tokens[1]);
  copy_from_host<int32_t>(stream, choice, experts);
  copy_from_host<int32_t>(stream, counts, tokens);
}

}  // namespace

Experts::Experts(const ExpertsParts& parts) : parts_(parts) {}

std::vector<Param*> Experts::params() {
  std::vector<Param*> params;
  for (Param* param : {parts_.norm.weight, parts_.router, parts_.router_bias, parts_.router_load,
                       parts_.gate_up.weight, parts_.down.weight, parts_.shared_up.weight,
                       parts_.shared_down.weight})
    if (param != nullptr) params.push_back(param);
  return params;
}

// The value in the type of the logits; empty without a parameter.
Tensor Experts::precise(Stream& stream, const Param* param) const {
  if (param == nullptr) return {};
  const Tensor& value = param->value;
  if (value.dtype() == parts_.norm.statistics) return value;
  Tensor precise = allocate_activation(stream, parts_.norm.statistics, value.shape());
  cast(stream, precise, value, Rounding::NearestEven, 0, 0);
  return precise;
}

bool Experts::is_limited(const Micro& micro) const {
  return parts_.experts->has_limit() && micro.cache == nullptr &&
         parts_.routing.router != Router::Balanced;
}

// Ranks that share the micro-batch gather their choices, so that the same ones are dropped in every
// layout. With InjectionKind::LocalCapacity a rank counts its own only.
Tensor Experts::within_capacity(Stream& stream, const Micro& micro, const Tensor& choice) const {
  const bool is_local = is_injected(InjectionKind::LocalCapacity);
  const bool is_split = parts_.context->part().degree > 1 && !is_local;
  Tensor all = is_local ? choice : parts_.ranks->enter(stream, choice);
  if (is_split) all = parts_.context->all_gather(stream, all, micro.batch);
  Tensor kept = allocate_activation(stream, DType::I32, all.shape());
  moe_limit(stream, kept, all, parts_.experts->capacity_of_expert(choice.elements()), experts());
  if (is_split) kept = parts_.context->own_tokens(stream, kept, micro.batch);
  if (is_local) return kept;
  const Range own = parts_.ranks->own(kept.dim(0));
  return kept.slice(own.begin, own.end);
}

// Fills the slots from Logits to Offsets, and Chosen.
void Experts::route(Stream& stream, const Micro& micro, Saved& saved) const {
  const Tensor& normed = saved[Slot::Normed];
  const int64_t tokens = normed.rows();
  const DType statistics = parts_.norm.statistics;
  saved[Slot::Logits] = allocate_activation(stream, statistics, {tokens, experts()});
  linear(stream, saved[Slot::Logits], normed, parts_.router->value, {});
  saved[Slot::Choice] = allocate_activation(stream, DType::I32, {tokens, parts_.chosen});
  saved[Slot::Gates] = allocate_activation(stream, statistics, {tokens, parts_.chosen});
  Tensor counts = allocate_activation(stream, DType::I32, {experts()});
  moe_route(stream, saved[Slot::Choice], saved[Slot::Gates], counts, saved[Slot::Logits],
            precise(stream, parts_.router_bias), parts_.routing);
  if (is_injected(InjectionKind::SwappedExpert)) swap_experts(stream, saved[Slot::Choice], counts);
  if (micro.chosen_experts != nullptr) follow_choices(stream, micro, saved, counts);
  Tensor kept = saved[Slot::Choice], kept_counts = counts;
  if (is_limited(micro)) {
    saved[Slot::Chosen] = counts;
    kept = within_capacity(stream, micro, saved[Slot::Choice]);
    kept_counts = allocate_activation(stream, DType::I32, {experts()});
    moe_count(stream, kept_counts, kept);
  }
  saved[Slot::Places] = allocate_activation(stream, DType::I32, {tokens * parts_.chosen});
  moe_places(stream, saved[Slot::Places], kept, kept_counts);
  saved[Slot::Counts] = parts_.experts->all_gather_counts(stream, kept_counts);
  parts_.exchange->route(stream, exchange_slots(saved), kept, parts_.name);
  saved[Slot::Unit] = unit_counts(stream, micro, saved[Slot::Choice], counts);
  const Range own = parts_.experts->own();
  saved[Slot::Offsets] = allocate_activation(stream, DType::I32, {own.size() + 1});
  moe_offsets(stream, saved[Slot::Offsets], saved[Slot::Counts], own);
}

// Memory for what the experts of this rank compute.
Tensor Experts::arrived(Stream& stream, const Saved& saved, int64_t width) const {
  return parts_.experts->arrived(stream, saved[Slot::Normed].dtype(), saved[Slot::Rows].dim(0),
                                 saved[Slot::Places].dim(0), width);
}

ExpertRows Experts::rows_of(const Saved& saved) const {
  return {saved[Slot::Offsets], parts_.experts->capacity(saved[Slot::Places].dim(0))};
}

void Experts::gate(Stream& stream, Saved& saved) const {
  saved[Slot::Active] = arrived(stream, saved, ffn());
  swiglu(stream, saved[Slot::Active], saved[Slot::Wide]);
}

void Experts::gate_shared(Stream& stream, Saved& saved) const {
  const Tensor& wide = saved[Slot::SharedWide];
  saved[Slot::SharedActive] =
      allocate_activation(stream, wide, {wide.rows(), parts_.shared_down.in()});
  swiglu(stream, saved[Slot::SharedActive], wide);
}

// Of this rank's tokens, dropped choices included.
Tensor Experts::own_counts(const Saved& saved) const {
  if (saved[Slot::Chosen]) return saved[Slot::Chosen];
  const int64_t source = parts_.experts->source();
  return saved[Slot::Counts].slice(source, source + 1).view({experts()});
}

// Beside each exchange the shared experts run, if there are some.
void Experts::dispatch(Stream& stream, const Micro& micro, Hidden& x, Saved& saved,
                       When when) const {
  saved[Slot::Normed] = parts_.norm.forward(stream, x, norm_slots(saved));
  route(stream, micro, saved);
  parts_.exchange->start_dispatch(stream, saved[Slot::Normed], saved[Slot::Gates],
                                  exchange_slots(saved), parts_.name, when);
  if (!has_shared()) return;
  saved[Slot::SharedNormed] = saved[Slot::Normed];
  saved[Slot::SharedWide] =
      parts_.shared_up.forward_column(stream, operand(saved, Slot::SharedNormed), *parts_.ranks);
  gate_shared(stream, saved);
}

void Experts::compute(Stream& stream, Saved& saved, Return what, When when) const {
  saved[Slot::Rows] = parts_.exchange->end_dispatch(stream, exchange_slots(saved));
  saved[Slot::Wide] = arrived(stream, saved, 2 * ffn());
  parts_.gate_up.forward(stream, saved[Slot::Wide], operand(saved, Slot::Rows), rows_of(saved));
  gate(stream, saved);
  Tensor out = arrived(stream, saved, hidden());
  parts_.down.forward(stream, out, operand(saved, Slot::Active), rows_of(saved));
  parts_.exchange->start_combine(stream, std::move(out), exchange_slots(saved), what, when);
  if (has_shared() && what == Return::Sums)
    saved[Slot::SharedSum] =
        parts_.shared_down.forward_row(stream, operand(saved, Slot::SharedActive), *parts_.ranks);
}

// What the layer adds to the residual.
Tensor Experts::combine(Stream& stream, const Micro& micro, Saved& saved) const {
  Tensor sum = allocate_activation(stream, saved[Slot::Normed], saved[Slot::Normed].shape());
  parts_.exchange->end_combine(stream, sum, saved[Slot::Gates], exchange_slots(saved));
  if (is_injected(InjectionKind::LostToken)) {
    Tensor lost = sum.slice(0, 1);
    fill_zero(stream, lost);
  }
  if (micro.routing) add_routing(stream, micro, saved);
  if (has_shared()) add(stream, sum, sum, std::exchange(saved[Slot::SharedSum], Tensor()));
  parts_.dropout.forward(stream, micro, *parts_.ranks, sum);
  return sum;
}

Hidden Experts::forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) {
  dispatch(stream, micro, x, saved, when_shared());
  compute(stream, saved, Return::Sums, when_shared());
  return {std::move(x.residual), combine(stream, micro, saved)};
}

Hidden Experts::forward_phase(Stream& stream, const Micro& micro, Phase phase, Hidden x,
                              Saved& saved) {
  if (phase == Phase::Dispatch) dispatch(stream, micro, x, saved, When::Later);
  if (phase == Phase::Compute) compute(stream, saved, Return::Sums, When::Later);
  if (phase == Phase::Combine) x.update = combine(stream, micro, saved);
  return x;
}

void Experts::discard_activations(Keep keep, Saved& saved) {
  SXT_CHECK(keep != Keep::Outside, Internal, "only attention keeps what is outside its core");
  if (keep == Keep::Input) saved.clear_but(Slot::X);
  if (keep == Keep::Nothing) saved.clear();
  if (keep == Keep::Products)
    saved[Slot::Normed] = saved[Slot::SharedNormed] = saved[Slot::Active] =
        saved[Slot::SharedActive] = Tensor();
}

Hidden Experts::recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved) {
  if (keep == Keep::Products) {
    saved[Slot::Normed] = parts_.norm.recompute(stream, norm_slots(saved));
    gate(stream, saved);
    parts_.down.requantize(stream, operand(saved, Slot::Active), rows_of(saved));
    if (!has_shared()) return x;
    saved[Slot::SharedNormed] = saved[Slot::Normed];
    parts_.shared_up.requantize(stream, operand(saved, Slot::SharedNormed));
    gate_shared(stream, saved);
    parts_.shared_down.requantize(stream, operand(saved, Slot::SharedActive));
    return x;
  }
  if (keep == Keep::Input) x = {saved[Slot::X]};
  dispatch(stream, micro, x, saved, when_shared());
  compute(stream, saved, Return::OutputsAlone, When::Now);
  end_recompute(stream, saved);
  return {};
}

void Experts::end_recompute(Stream& stream, Saved& saved) const {
  parts_.exchange->end_outputs(exchange_slots(saved));
  if (has_shared()) parts_.shared_down.quantize_input(stream, operand(saved, Slot::SharedActive));
}

Hidden Experts::recompute_phase(Stream& stream, const Micro& micro, Phase phase, Keep keep,
                                Hidden x, Saved& saved) {
  if (phase == Phase::Dispatch) {
    if (keep == Keep::Input) x = {saved[Slot::X]};
    dispatch(stream, micro, x, saved, When::Later);
  }
  if (phase == Phase::Compute) compute(stream, saved, Return::OutputsAlone, When::Later);
  if (phase == Phase::Combine) end_recompute(stream, saved);
  return {};
}

// The gradient of the logits in the type of the weights; it replaces them.
Tensor Experts::route_backward(Stream& stream, const Micro& micro, const Tensor& dgates,
                               Saved& saved) const {
  Tensor dlogits = allocate_activation(stream, saved[Slot::Logits], saved[Slot::Logits].shape());
  moe_route_backward(stream, dlogits, dgates, saved[Slot::Choice], saved[Slot::Logits],
                     parts_.routing);
  if (parts_.losses != RouterLossWeights{}) add_losses_backward(stream, micro, dlogits, saved);
  if (is_injected(InjectionKind::CutRouter)) fill_zero(stream, dlogits);
  const DType compute_type = parts_.router->value.dtype();
  if (dlogits.dtype() != compute_type) {
    Tensor narrow = allocate_activation(stream, compute_type, dlogits.shape());
    cast(stream, narrow, dlogits, Rounding::NearestEven, 0, 0);
    dlogits = std::move(narrow);
  }
  saved[Slot::Logits] = dlogits;
  saved[Slot::Choice] = saved[Slot::Gates] = saved[Slot::Unit] = Tensor();
  return dlogits;
}

// The gradient of what the shared experts took. Afterwards Slot::SharedWide holds its own.
Tensor Experts::shared_backward(Stream& stream, const Tensor& dy, Saved& saved) const {
  const Tensor dactive = parts_.shared_down.backward_input_row(
      stream, operand(saved, Slot::SharedDy), dy, *parts_.ranks);
  swiglu_backward(stream, saved[Slot::SharedWide], dactive, saved[Slot::SharedWide]);
  return parts_.shared_up.backward_input_column(stream, operand(saved, Slot::SharedWide),
                                                *parts_.ranks);
}

// Afterwards Slot::Wide holds its own gradient, Slot::Returned that of the experts' outputs.
Tensor Experts::backward_input(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved) {
  dispatch_backward(stream, micro, dy, saved, when_shared());
  compute_backward(stream, saved, When::Now);
  return combine_backward(stream, micro, dy, saved);
}

Tensor Experts::backward(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved) {
  dispatch_backward(stream, micro, dy, saved, when_shared());
  compute_backward(stream, saved, When::Later);
  expert_gradients(stream, saved);
  Tensor dx = combine_backward(stream, micro, dy, saved);
  other_gradients(stream, saved);
  return dx;
}

Tensor Experts::backward_phase(Stream& stream, const Micro& micro, Phase phase, Pass pass,
                               const Tensor& dy, Saved& saved) {
  const bool is_whole = pass == Pass::Backward;  // with weight gradients
  if (phase == Phase::Dispatch) dispatch_backward(stream, micro, dy, saved, When::Later);
  if (phase == Phase::Compute) {
    compute_backward(stream, saved, When::Later);
    if (is_whole) expert_gradients(stream, saved);
  }
  if (phase != Phase::Combine) return {};
  Tensor dx = combine_backward(stream, micro, dy, saved);
  if (is_whole) other_gradients(stream, saved);
  return dx;
}

void Experts::dispatch_backward(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved,
                                When when) const {
  saved[Slot::GateGradients] =
      allocate_activation(stream, saved[Slot::Gates], saved[Slot::Gates].shape());
  const Tensor branch_dy = parts_.dropout.backward(stream, micro, *parts_.ranks, dy);
  parts_.exchange->start_dispatch_backward(stream, saved[Slot::GateGradients], branch_dy,
                                           saved[Slot::Gates], exchange_slots(saved), when);
  if (has_shared()) saved[Slot::SharedSum] = shared_backward(stream, branch_dy, saved);
}

// When it returns, all that expert_gradients needs is there.
void Experts::compute_backward(Stream& stream, Saved& saved, When when) const {
  saved[Slot::Returned] = parts_.exchange->end_dispatch_backward(stream, saved[Slot::GateGradients],
                                                                 exchange_slots(saved));
  {
    Tensor dactive = arrived(stream, saved, ffn());
    parts_.down.backward_input(stream, dactive, operand(saved, Slot::Returned), rows_of(saved));
    swiglu_backward(stream, saved[Slot::Wide], dactive, saved[Slot::Wide]);
  }
  Tensor drows = arrived(stream, saved, hidden());
  parts_.gate_up.backward_input(stream, drows, operand(saved, Slot::Wide), rows_of(saved));
  parts_.exchange->start_combine_backward(stream, std::move(drows), exchange_slots(saved), when);
}

Tensor Experts::combine_backward(Stream& stream, const Micro& micro, const Tensor& dy,
                                 Saved& saved) const {
  Tensor dnormed = allocate_activation(stream, saved[Slot::Normed], saved[Slot::Normed].shape());
  parts_.exchange->end_combine_backward(stream, dnormed, exchange_slots(saved));
  const Tensor dlogits =
      route_backward(stream, micro, std::exchange(saved[Slot::GateGradients], Tensor()), saved);
  linear_backward_input(stream, dnormed, dlogits, parts_.router->value, {.write = Write::Add});
  if (has_shared()) add(stream, dnormed, dnormed, std::exchange(saved[Slot::SharedSum], Tensor()));
  for (Param* sum : {parts_.router_bias, parts_.router_load})
    if (sum != nullptr) add_load_error(stream, saved, *sum);
  for (const Slot done : {Slot::Counts, Slot::Places, Slot::Chosen, Slot::Crossing, Slot::Local,
                          Slot::NodeCounts, Slot::NodeGates})
    saved[done] = Tensor();
  return parts_.norm.backward(stream, dnormed, dy, norm_slots(saved));
}

void Experts::backward_weight(Stream& stream, const Micro&, Saved& saved) {
  expert_gradients(stream, saved);
  other_gradients(stream, saved);
}

void Experts::expert_gradients(Stream& stream, Saved& saved) const {
  const Tensor& offsets = saved[Slot::Offsets];
  parts_.down.backward_weight(stream, operand(saved, Slot::Returned), operand(saved, Slot::Active),
                              offsets);
  parts_.gate_up.backward_weight(stream, operand(saved, Slot::Wide), operand(saved, Slot::Rows),
                                 offsets);
  for (const Slot done : {Slot::Returned, Slot::ReturnedAmax, Slot::Active, Slot::ActiveAmax,
                          Slot::Wide, Slot::WideAmax, Slot::Rows, Slot::RowsAmax})
    saved[done] = Tensor();
}

// Of the router and the shared experts.
void Experts::other_gradients(Stream& stream, Saved& saved) const {
  Tensor none;
  linear_backward_weight(stream, parts_.router->grad, none, saved[Slot::Logits],
                         saved[Slot::Normed], parts_.router->next_write());
  if (has_shared()) {
    parts_.shared_down.backward_weight(stream, operand(saved, Slot::SharedDy),
                                       operand(saved, Slot::SharedActive));
    parts_.shared_up.backward_weight_column(stream, operand(saved, Slot::SharedWide),
                                            operand(saved, Slot::SharedNormed), *parts_.ranks);
  }
  saved.clear();
}

}  // namespace sextant
