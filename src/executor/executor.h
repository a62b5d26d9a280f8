#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/micro_batch.h"
#include "mesh/mesh.h"
#include "model/transformer.h"
#include "program/rank_program.h"
#include "schedule/dependencies.h"
#include "schedule/speculation.h"

namespace sextant {

// Runs one rank's actions of a pipeline, in order:
//   a receive   posts its memory and goes on; the action that needs what comes waits for it
//   a compute   runs its layers; those of two joined actions take turns
//   a send      is on its way at once, and lets go of its memory when kSendsUnderWay later ones in
//               the same direction have begun
// What a layer keeps is freed by the action after which nobody needs it; so memory follows from the
// list alone. Parameters are gathered, reduced and freed as their uses come (StateProgram).
// All ranks of the pipeline make the same calls.
class Executor {
 public:
  // What it will be asked for.
  struct Programs {
    bool steps = true;
    int evaluations = 0;  // micro-batches that evaluate takes at a time, not more than a step has
  };
  // How one micro-batch goes forward.
  struct Forward {
    HeadOutput output = HeadOutput::Loss;
    KvCache* cache = nullptr;  // of the tokens before, which these are added to
    int64_t step = 0;          // for the dropout of a batch whose tokens are numbered
  };

  // What it is given must outlive it.
  Executor(Stream& stream, Transformer& model, const Pipeline& pipeline, Mesh& mesh,
           const Programs& programs);

  // The gradients of these micro-batches, in the parameters of the model once they are finished
  // (ShardedParams::finish_gradients). Returns the summed loss of each, on the rank that holds the
  // last stage; zero elsewhere. They stay until the next run. `step`: see Micro.
  std::span<double> run_step(std::span<const HostBatch> hosts, double loss_scale, int64_t step);
  // Forward only, of as many micro-batches as was said.
  std::span<double> evaluate(std::span<const HostBatch> hosts);
  // The same of one micro-batch: what the head gives, on the rank that holds the last stage; empty
  // elsewhere. For an executor of one evaluation at a time.
  Tensor forward(const HostBatch& host, const Forward& how);
  // Summed losses of the micro-batches that ran last, as run_step gives them.
  std::span<const double> losses() const { return losses_; }

  // Of the loss of a step, not of an evaluation: see Micro.
  double z_loss = 0;
  // Called before the first action of each micro-batch of a step.
  std::function<void(int micro)> on_micro;
  // Called after each action of a step.
  std::function<void(const Action& action)> on_action;
  // Asked right before a step's first backward action: whether weights have changed since the step
  // began. Then what it did is discarded, messages under way included, and it begins again. All
  // ranks of the pipeline answer the same; the gradients of the step before are there until then.
  std::function<bool()> must_begin_again;

 private:
  // What is said of an action while it runs, and when it waits for another rank.
  struct ActionText {
    std::string name, waiting;
    int waits_for = -1;  // rank of the world
  };
  // A program with what it needs besides.
  struct Plan {
    Schedule schedule;
    RankProgram program;
    StateProgram state;
    std::vector<ActionText> texts;  // by action
    std::vector<int> actions_of;    // compute actions of each micro on this rank
    size_t first_backward = 0;      // block
    LooseEnds loose;
  };
  // A micro-batch in one of the rank's chunks.
  struct Cell {
    Hidden x;  // what the next action takes, or what is to be sent
    Tensor dy;
    Hidden recomputed;  // for the next layer that is recomputed
    Pending x_comes, dy_comes;
    std::vector<Saved> saved;  // by layer of the chunk
  };
  struct Direction {
    std::unique_ptr<Communicator> ranks;                           // of the pipeline
    std::vector<std::pair<const ActionText*, Pending>> under_way;  // oldest first
  };

  Plan make_plan(const Pipeline& pipeline) const;
  std::vector<ActionText> make_texts(const Plan& plan) const;
  // `all`: everything that the schedule has.
  ActionText make_text(const Schedule& schedule, const Done& all, const Action& action) const;
  std::span<double> run(const Plan& plan, std::span<const HostBatch> hosts);
  bool is_step() const { return plan_ == &step_; }
  void set_scalars(double loss_scale, int64_t step);
  void start();  // the plan's first action is next
  void discard();
  void match_loose_ends(std::vector<Pending>& ends);
  void run_block(const RankProgram::Block& block);
  void run_compute(const RankProgram::Block& block, std::span<const Action> actions);
  void begin(const Action& action);
  void use(const LayerUse& use);
  void end(const Action& action);
  void receive(const Action& action);
  void send(const Action& action);
  void finish_send(Direction& direction);  // the oldest
  Tensor new_message(int micro);
  const ActionText& text_of(const Action& action) const;  // one of the plan's
  Activity& activity() { return mesh_.world().ledger().activity; }
  Cell& cell(int stage, int micro);

  Stream& stream_;
  Transformer& model_;
  Mesh& mesh_;
  int rank_;  // in the pipeline
  Plan step_, evaluation_;
  Direction forward_, backward_;
  Tensor sums_;                   // of each micro and SideSum, f64
  Tensor scalars_;                // of the step, f64: loss scale, number
  std::vector<size_t> chunk_of_;  // by layer
  std::vector<Cell> cells_;       // by chunk and micro

  // While running:
  const Plan* plan_ = nullptr;
  std::span<const HostBatch> hosts_;
  StepScalars step_scalars_;
  std::optional<Forward> how_;                     // of forward
  Tensor output_;                                  // of that
  std::vector<std::optional<MicroBatch>> micros_;  // those on the device
  std::vector<int> actions_left_;                  // of each micro
  std::vector<double> sums_on_host_, losses_;
};

}  // namespace sextant
