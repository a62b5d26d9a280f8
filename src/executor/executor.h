#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/activation_offload.h"
#include "executor/micro_batch.h"
#include "fault/inject.h"
#include "mesh/mesh.h"
#include "model/transformer.h"
#include "program/rank_program.h"
#include "program/steady_state.h"
#include "schedule/dependencies.h"
#include "schedule/speculation.h"

namespace sextant {

// Runs one rank's actions of a pipeline schedule, in order:
//   a receive   allocates and posts; the action that needs the message waits for it
//   a compute   runs its layers; those of two joined actions take turns (RankProgram::Block)
//   a send      starts at once, and frees its memory when kSendsUnderWay later sends in the same
//               direction have started
// Activations are freed by the last action that needs them, so memory follows from the list alone.
// Parameters are gathered, reduced and freed around their uses (StateProgram). All ranks of the
// pipeline make the same calls.
class Executor {
 public:
  // What the executor will run.
  struct Programs {
    bool steps = true;
    int evaluations = 0;  // micro-batches per evaluate, at most those of a step
    // Leaves out equal cycles of the steady state, counting their traffic: for a phantom device
    // that records memory. Only the messages and memory of such a run mean anything.
    bool shortened = false;
  };
  // Options of a forward pass of one micro-batch.
  struct Forward {
    HeadOutput output = HeadOutput::Loss;
    KvCache* cache = nullptr;  // of earlier tokens; these are appended
    int64_t step = 0;          // dropout step of a batch with token indices
  };

  // All references must outlive it.
  Executor(Stream& stream, Transformer& model, const Pipeline& pipeline, Mesh& mesh,
           const Programs& programs);

  // Computes the gradients of these micro-batches, complete after ShardedParams::finish_gradients.
  // Does not wait for the device: losses() and bad data are known after Stream::check_data, which
  // the caller can share with other readings of the step. `step`: see Micro.
  // `aux_loss_weight`: StepScalars.
  void run_step(std::span<const HostBatch> hosts, double loss_weight, int64_t step,
                double aux_loss_weight = 1);
  // The scalars of run_step alone, on the host: a step that was recorded takes them from there.
  void set_step(double loss_weight, int64_t step, double aux_loss_weight);
  // Forward only, for Programs::evaluations micro-batches; waits and returns losses().
  std::span<double> evaluate(std::span<const HostBatch> hosts);
  // Forward of one micro-batch: the head's output on the rank that holds the last stage, empty
  // elsewhere. Needs Programs::evaluations = 1.
  Tensor forward(const HostBatch& host, const Forward& how);
  // The summed loss of each micro-batch of the last run, or of the step of the last set_step, on
  // the rank that holds the last stage, zero elsewhere; valid until the next run.
  std::span<double> losses();
  // Micro::routing of the last step, summed over its micro-batches; valid until the next run.
  std::span<const double> routing() const { return routing_on_host_; }
  // Layer uses that it makes in a step and an evaluation, and those of a step with nothing left
  // out.
  int64_t uses() const { return uses_of(step_) + uses_of(evaluation_); }
  int64_t whole_step() const { return static_cast<int64_t>(step_.program.uses.size()); }

  // Keeps activations of blocks in host memory between forward and backward of steps.
  void offload_to(HostArena& host);

  Injection inject = {};  // injected fault, for tests
  // Weight of the z-loss in steps, not in evaluations: see Micro.
  double z_loss = 0;
  // Of steps, for verify: see Micro. Their batches must have token indices. May be null.
  ChosenExperts* chosen_experts = nullptr;
  // Called before the first action of each micro-batch of a step.
  std::function<void(int micro)> on_micro;
  // Called after each action of a step.
  std::function<void(const Action& action)> on_action;
  // Called before a step's first backward action: whether weights have changed since the step
  // started. If so, the step is discarded, in-flight messages included, and restarted. All ranks of
  // the pipeline must agree; the previous step's gradients stay valid until this call.
  std::function<bool()> must_begin_again;

 private:
  // Description of an action while it runs, and while it waits for another rank.
  struct ActionText {
    std::string name, waiting;
    int waits_for = -1;  // global rank
  };
  // A program with its derived tables.
  struct Plan {
    Schedule schedule;  // without its actions
    RankProgram program;
    StateProgram state;
    std::vector<ActionText> texts;  // by action
    std::vector<int> actions_of;    // compute actions of each micro on this rank
    size_t first_backward = 0;      // index of a block
    UnmatchedMessages unmatched;
    SteadyState steady;  // nothing is left out unless Programs::shortened
  };
  // What the layers of a chunk save of a micro-batch, by layer; `hosted` in host memory, empty
  // without offload.
  struct Activations {
    std::vector<Saved> saved;
    std::vector<HostSaved> hosted;
  };
  // State of a micro-batch in one of the rank's chunks.
  struct Cell {
    Hidden x;  // input of the next action, or what is to be sent
    Tensor dy;
    Hidden recomputed;  // input of the next layer to recompute
    Pending x_comes, dy_comes;
    Activations kept;  // empty unless the micro-batch is in flight
  };
  struct Direction {
    std::unique_ptr<Communicator> ranks;                           // pipeline ranks
    std::vector<std::pair<const ActionText*, Pending>> in_flight;  // sends in flight, oldest first
  };

  Plan make_plan(const Pipeline& pipeline, bool shortened) const;
  static int64_t uses_of(const Plan& plan) {
    return static_cast<int64_t>(plan.program.uses.size()) - plan.steady.left_out * plan.steady.uses;
  }
  std::vector<ActionText> make_texts(const Schedule& schedule, const RankProgram& program) const;
  // `all`: every action of the schedule.
  ActionText make_text(const Schedule& schedule, const Done& all, const Action& action) const;
  void run(const Plan& plan, std::span<const HostBatch> hosts);
  bool is_step() const { return plan_ == &step_; }
  void copy_scalars();
  void start();  // prepares for the plan's first action
  void discard();
  void leave_out_cycles();
  void match_messages(std::vector<Pending>& ends);
  void run_block(const RankProgram::Block& block);
  void run_compute(const RankProgram::Block& block, std::span<const Action> actions);
  void begin(const Action& action);
  void use(int64_t index);
  Activations& activations_of(const LayerUse& use);
  HostSaved* hosted_of(const LayerUse& use);  // null where nothing is offloaded
  void fetch_ahead(int64_t use);
  void end(const Action& action);
  void receive(const Action& action);
  void send(const Action& action);
  void finish_send(Direction& direction);  // waits for the oldest
  Tensor new_message(int micro);
  const ActionText& text_of(const Action& action) const;  // of an action of the plan
  Activity& activity() { return mesh_.world().ledger().activity; }
  Cell& cell(int stage, int micro);

  Stream& stream_;
  Transformer& model_;
  Mesh& mesh_;
  int rank_;  // in the pipeline
  Plan step_, evaluation_;
  Direction forward_, backward_;
  Tensor sums_;     // by micro and SideSum, f64
  Tensor routing_;  // Micro::routing; empty without experts
  Tensor scalars_;  // of the step, f64: loss weight, step number, weight of auxiliary losses
  std::vector<size_t> chunk_of_;                  // by layer
  std::vector<Cell> cells_;                       // by chunk and micro
  std::vector<std::vector<Activations>> spares_;  // Cell::kept not in use, by chunk
  std::optional<ActivationOffload> offload_;

  // During a run:
  const Plan* plan_ = nullptr;
  std::span<const HostBatch> hosts_;
  StepScalars step_scalars_;
  std::array<double, 3> scalars_on_host_{};
  std::optional<Forward> how_;                     // set during forward
  Tensor output_;                                  // of forward
  std::vector<std::optional<MicroBatch>> micros_;  // those on the device
  std::vector<int> actions_left_;                  // of each micro
  // Of a fixed size: a recorded step copies to these addresses.
  std::vector<double> sums_on_host_, routing_on_host_;
  std::vector<double> losses_;
  int summed_ = 0;        // micros of losses_
  TrafficTable traffic_;  // where the last cycle began
};

}  // namespace sextant
