#pragma once
#include <string>

#include "fault/inject.h"
#include "model/dropout.h"
#include "model/expert_linear.h"
#include "model/linear.h"
#include "model/norm.h"
#include "ops/moe_route.h"
#include "parallel/context_ranks.h"
#include "parallel/expert_exchange.h"

namespace sextant {

// The tokens of the balance loss: BalanceScope of the configuration.
enum class BalanceUnit : uint8_t { Sequence, Micro, Global };

struct ExpertsParts {
  std::string name;
  Norm norm;
  Param* router;       // [experts, hidden]
  Param* router_bias;  // [experts], of a sigmoid router; else null
  Param* router_load;  // [experts], of BalanceUnit::Global; else null
  // Of this rank's experts, or its parts of them: [own * 2 * ffn, hidden], [own * hidden, ffn].
  ExpertLinear gate_up, down;
  const TensorRanks* ranks;     // sequence parallel: this rank has its own tokens
  const ContextRanks* context;  // its own part of the sequences
  const ExpertRanks* experts;
  const ExpertExchange* exchange;  // of these ranks
  Linear shared_up = {},
         shared_down = {};  // shared experts as one gated MLP; without weights: none
  Routing routing = {};
  int64_t chosen = 1;             // experts of a token
  RouterLossWeights losses = {};  // in the training loss
  BalanceUnit unit = BalanceUnit::Micro;
  int64_t step_tokens = 0;  // of the global batch
  int64_t row = 0;          // of Micro::routing
  Injection inject = {};
  int world_rank = 0;
  Dropout dropout = {};
};

// Mixture of experts: x + dropout(shared(norm(x)) + sum over the chosen experts of
// gate * expert(norm(x))), an expert being down(silu(gate) * up). The gradient of a router's bias
// and load is the load error of this rank's tokens. The unit of the auxiliary losses is a sequence
// or the micro-batch: ranks that share it (sequence, context parallel) sum the counts of their
// tokens. With BalanceUnit::Global the load is that of the last step. Dropless, or
// with a capacity of the experts (ExpertRanks::has_limit): each computes the first so many choices
// of a micro-batch, in the order of its tokens; generation is always dropless.
class Experts final : public Layer {
 public:
  explicit Experts(const ExpertsParts& parts);

  std::vector<Param*> params() override;
  Hidden forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) override;
  Tensor backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                        Saved& saved) override;
  void backward_weight(Stream& stream, const Micro& micro, Saved& saved) override;
  // Weight gradients of experts are computed while gradients of their inputs travel.
  Tensor backward(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved) override;
  Hidden forward_phase(Stream& stream, const Micro& micro, Phase phase, Hidden x,
                       Saved& saved) override;
  Hidden recompute_phase(Stream& stream, const Micro& micro, Phase phase, Keep keep, Hidden x,
                         Saved& saved) override;
  Tensor backward_phase(Stream& stream, const Micro& micro, Phase phase, Pass pass,
                        const Tensor& dy, Saved& saved) override;
  void discard_activations(Keep keep, Saved& saved) override;
  // Returns no y: the next layer keeps its own x.
  Hidden recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved) override;

 private:
  // Counts: of the ranks that share the experts, Unit: of the units of the micro-batch. Rows: what
  // arrived for this rank's experts. Returned: their outputs, back at this rank's tokens, or with
  // nodes at the copies that it passed on; in backward the gradient of the outputs. Logits: after
  // backward_input their gradient. SharedNormed: Normed for the shared experts, in fp8 its
  // quantised form. SharedSum and GateGradients only within a pass: what the shared experts give,
  // or in backward their input gradient, and the gradient of the gates.
  enum class Slot {
    X,
    Mean,
    Inverse,
    Normed,
    Logits,
    Choice,
    Gates,
    Places,
    Counts,
    Unit,
    Offsets,
    Rows,
    RowsAmax,
    Wide,
    WideAmax,
    Active,
    ActiveAmax,
    Returned,
    ReturnedAmax,
    SharedNormed,
    SharedNormedAmax,
    SharedWide,
    SharedWideAmax,
    SharedActive,
    SharedActiveAmax,
    SharedDy,
    SharedDyAmax,
    Chosen,  // tokens of this rank by expert, dropped ones too; empty if none can be
    // ExpertNodes::Slots:
    Crossing,
    Local,
    NodeCounts,
    NodeGates,
    SharedSum,
    GateGradients,
    Count
  };
  static Norm::Slots norm_slots(Saved& saved) {
    return {saved[Slot::X], saved[Slot::Mean], saved[Slot::Inverse]};
  }
  // An operand of a product and, in fp8, its scales.
  static OperandSlots operand(Saved& saved, Slot values) {
    return {saved[values], saved[static_cast<Slot>(static_cast<int>(values) + 1)]};
  }
  static ExpertExchange::Slots exchange_slots(Saved& saved) {
    return {saved[Slot::Places],
            saved[Slot::Counts],
            saved[Slot::Returned],
            {saved[Slot::Crossing], saved[Slot::Local], saved[Slot::NodeCounts],
             saved[Slot::NodeGates], saved[Slot::Returned]},
            saved.sizes(),
            saved.flight()};
  }
  using Return = ExpertExchange::Return;
  // The phases of forward and of recomputation; `when`: of the exchange that begins at their end.
  void dispatch(Stream& stream, const Micro& micro, Hidden& x, Saved& saved, When when) const;
  void compute(Stream& stream, Saved& saved, Return what, When when) const;
  Tensor combine(Stream& stream, const Micro& micro, Saved& saved) const;
  void end_recompute(Stream& stream, Saved& saved) const;
  // Those of backward.
  void dispatch_backward(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved,
                         When when) const;
  void compute_backward(Stream& stream, Saved& saved, When when) const;
  Tensor combine_backward(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved) const;
  // Of an exchange of a whole pass: beside it the shared experts run.
  When when_shared() const { return has_shared() ? When::Later : When::Now; }
  void expert_gradients(Stream& stream, Saved& saved) const;
  void other_gradients(Stream& stream, Saved& saved) const;
  void route(Stream& stream, const Micro& micro, Saved& saved) const;
  void follow_choices(Stream& stream, const Micro& micro, Saved& saved, Tensor& counts) const;
  bool is_limited(const Micro& micro) const;
  Tensor within_capacity(Stream& stream, const Micro& micro, const Tensor& choice) const;
  Tensor own_counts(const Saved& saved) const;
  void add_routing(Stream& stream, const Micro& micro, const Saved& saved) const;
  void gate(Stream& stream, Saved& saved) const;
  void gate_shared(Stream& stream, Saved& saved) const;
  Tensor shared_backward(Stream& stream, const Tensor& dy, Saved& saved) const;
  void add_load_error(Stream& stream, const Saved& saved, Param& sum) const;
  Tensor precise(Stream& stream, const Param* param) const;
  bool has_shared() const { return parts_.shared_up.weight != nullptr; }
  int64_t units_of(const Micro& micro) const {
    return parts_.unit == BalanceUnit::Sequence ? micro.batch : 1;
  }
  Range own_rows(const Micro& micro, int64_t unit) const;
  bool has_shared_units() const {
    return parts_.ranks->is_sequence_parallel() || parts_.context->part().degree > 1;
  }
  Tensor own_unit_counts(Stream& stream, const Micro& micro, const Tensor& choice) const;
  Tensor unit_counts(Stream& stream, const Micro& micro, const Tensor& choice,
                     const Tensor& counts) const;
  RouterUnit unit_of(const Micro& micro) const;
  void add_losses_backward(Stream& stream, const Micro& micro, Tensor& dlogits,
                           const Saved& saved) const;
  Tensor route_backward(Stream& stream, const Micro& micro, const Tensor& dgates,
                        Saved& saved) const;
  Tensor arrived(Stream& stream, const Saved& saved, int64_t width) const;
  ExpertRows rows_of(const Saved& saved) const;
  bool is_injected(InjectionKind kind) const { return parts_.ranks->is_injected(kind); }
  int64_t hidden() const { return parts_.router->shape[1]; }
  int64_t experts() const { return parts_.router->shape[0]; }
  int64_t ffn() const { return parts_.down.in(); }

  ExpertsParts parts_;
};

}  // namespace sextant
