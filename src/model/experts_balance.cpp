// The auxiliary losses of routers and the load of their experts.
#include <algorithm>

#include "model/experts.h"
#include "ops/moe_capacity.h"
#include "ops/router_bias.h"
#include "tensor/copy.h"

namespace sextant {

// The tokens of this rank that belong to a unit.
Range Experts::own_rows(const Micro& micro, int64_t unit) const {
  const Range own = parts_.ranks->own(micro.size());
  if (parts_.unit != BalanceUnit::Sequence) return {0, own.size()};
  const Range rows = overlap({unit * micro.seq, (unit + 1) * micro.seq}, own);
  return rows.size() == 0 ? Range{} : Range{rows.begin - own.begin, rows.end - own.begin};
}

// By unit, [units * experts].
Tensor Experts::own_unit_counts(Stream& stream, const Micro& micro, const Tensor& choice) const {
  Tensor all = allocate_activation(stream, DType::I32, {units_of(micro) * experts()});
  for (int64_t unit = 0; unit < units_of(micro); ++unit) {
    Tensor counts = all.slice(unit * experts(), (unit + 1) * experts());
    const Range rows = own_rows(micro, unit);
    if (rows.size() == 0)
      fill_zero(stream, counts);
    else
      moe_count(stream, counts, choice.slice(rows.begin, rows.end));
  }
  return all;
}

// Over the ranks that share the micro-batch; `counts` are this rank's over all units.
Tensor Experts::unit_counts(Stream& stream, const Micro& micro, const Tensor& choice,
                            const Tensor& counts) const {
  if (parts_.unit == BalanceUnit::Global) return {};
  Tensor unit = counts;
  if (parts_.unit == BalanceUnit::Sequence) {
    unit = own_unit_counts(stream, micro, choice);
  } else if (has_shared_units()) {
    unit = allocate_activation(stream, DType::I32, {experts()});
    copy(stream, unit, counts);
  }
  if (!has_shared_units()) return unit;
  parts_.ranks->sum_tokens(stream, unit);
  parts_.context->sum_tokens(stream, unit);
  return unit;
}

RouterUnit Experts::unit_of(const Micro& micro) const {
  const int64_t tokens = micro.size() * parts_.context->part().degree / units_of(micro);
  return {tokens, parts_.chosen, parts_.unit == BalanceUnit::Global ? parts_.step_tokens : 0};
}

void Experts::add_routing(Stream& stream, const Micro& micro, const Saved& saved) const {
  const Tensor row = micro.routing.slice(parts_.row, parts_.row + 1).view({micro.routing.dim(1)});
  Tensor sums = row.slice(0, 2 + experts());
  const bool is_by_sequence = parts_.unit == BalanceUnit::Sequence;
  const Tensor own = !is_by_sequence      ? own_counts(saved)
                     : has_shared_units() ? own_unit_counts(stream, micro, saved[Slot::Choice])
                                          : saved[Slot::Unit];
  const Tensor load = precise(stream, parts_.router_load);
  for (int64_t unit = 0; unit < units_of(micro); ++unit) {
    const Range rows = own_rows(micro, unit), part{unit * experts(), (unit + 1) * experts()};
    if (rows.size() == 0) continue;
    moe_losses(stream, sums, saved[Slot::Logits].slice(rows.begin, rows.end),
               load ? load : saved[Slot::Unit].slice(part.begin, part.end),
               own.slice(part.begin, part.end), unit_of(micro), parts_.routing.router);
  }
  if (!is_limited(micro)) return;
  Tensor dropped = row.slice(2 + experts(), 3 + experts());
  moe_count_dropped(stream, dropped, saved[Slot::Places]);
}

void Experts::add_losses_backward(Stream& stream, const Micro& micro, Tensor& dlogits,
                                  const Saved& saved) const {
  const Tensor load = precise(stream, parts_.router_load);
  for (int64_t unit = 0; unit < units_of(micro); ++unit) {
    const Range rows = own_rows(micro, unit);
    if (rows.size() == 0) continue;
    Tensor part = dlogits.slice(rows.begin, rows.end);
    moe_losses_backward(
        stream, part, saved[Slot::Logits].slice(rows.begin, rows.end),
        load ? load : saved[Slot::Unit].slice(unit * experts(), (unit + 1) * experts()),
        unit_of(micro), parts_.losses, micro.scalars.aux_loss_weight, parts_.routing.router);
  }
}

// With InjectionKind::LocalLoad the tokens of one rank alone count.
void Experts::add_load_error(Stream& stream, const Saved& saved, Param& sum) const {
  const Tensor own = own_counts(saved);
  const Write write = sum.next_write();
  if (parts_.inject.kind == InjectionKind::LocalLoad &&
      parts_.world_rank != std::max(0, parts_.inject.rank)) {
    if (write == Write::Replace) fill_zero(stream, sum.grad);
    return;
  }
  router_load_error(stream, sum.grad, own, write);
}

}  // namespace sextant
