#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mesh/mesh.h"
#include "optim/backup.h"
#include "optim/optimizer.h"
#include "parallel/sharded_params.h"

namespace sextant {

// The update of a pipeline's weights without waiting for all of its ranks. Clipping needs the norm
// of all gradients, which no rank but the last to finish can know; so each rank updates at once as
// if nothing were to be clipped, begins the next step, and learns later whether that was right.
// The bits of weights, moments, losses and norms are those of waiting.
//
//   1. A rank whose gradients are finished takes the sum of squares and the losses of the ranks
//      0 ... r - 1 from rank r - 1, adds its own, and sends the sums on. Sums are made in rank
//      order, like those of an all-reduce.
//   2. When the sum so far lets the norm be within the limit, it saves its weights and moments and
//      updates them unclipped. Otherwise it keeps them: what follows will be discarded.
//   3. The last rank has the norm, and tells every other rank: the verdict. Directly, because a
//      rank in between may itself wait for a rank that waits for the verdict.
//   4. A rank takes the verdict right before the first backward action of its next step, or when
//      decide is called before that. Until then gradients are as they were. A norm within the limit
//      changes nothing. Otherwise what was updated is restored, all ranks update with the clipped
//      gradients, and the forwards made meanwhile are discarded and made again (Executor). A norm
//      or loss that is not finite ends the run.
//
// All data ranks of a stage have the same sums, so they decide alike; collectives among them meet.
// docs/post-validation.md has pictures, and why no rank waits for ever.
class PostValidation {
 public:
  // Whether something can be taken back: without a limit nothing is.
  static bool needs_backup(const OptimConfig& optim) {
    return optim.post_validation && optim.clip > 0;
  }

  // All ranks of the pipeline make theirs together. What it is given must outlive it.
  PostValidation(Stream& stream, Mesh& mesh, ShardedParams& params, Optimizer& optimizer,
                 const OptimConfig& optim, int micros);

  struct Update {
    int64_t step = 0;  // counted from 0
    double lr = 0;
    double squares = 0;              // of the gradients of this rank's stages, over its shard group
    std::span<const double> losses;  // of each micro-batch; zero where another rank knows it
    double loss_scale = 1;
    bool stop = false;  // a rank of this stage wants the run to end; the same on all of them
  };
  // The finished gradients are applied, as it seems right. Nothing may be pending.
  void update(const Update& update);

  bool is_pending() const { return pending_.has_value(); }
  // On a phantom device: the next verdict is that the gradients are to be clipped.
  void assume_clipped() { assumes_clipped_ = true; }

  struct Outcome {
    double loss = 0, norm = 0;
    bool stop = false;         // what some stage said
    bool has_changed = false;  // weights are others than those used since the update
  };
  // Waits for the verdict on the pending update and makes it right. Error(Failure) for a loss or
  // norm that is not finite.
  Outcome decide();

 private:
  enum { kSquares, kStop, kLosses };          // what is summed over the ranks; the losses last
  enum { kNorm, kLoss, kStopped, kVerdict };  // what the last rank tells

  struct Undecided {
    int64_t step = 0;
    double lr = 0;
    bool has_stepped = false;
  };

  std::vector<double> add_to_sums(const Update& update);
  std::vector<double> judge(const std::vector<double>& sums, double loss_scale);
  void tell(const std::vector<double>& verdict);
  std::vector<double> take_verdict();
  void apply(double gradient_scale);

  Stream& stream_;
  Mesh& mesh_;
  ShardedParams& params_;
  Optimizer& optimizer_;
  double clip_;
  std::unique_ptr<Communicator> ranks_;  // of the pipeline
  std::optional<Backup> backup_;
  Tensor sums_, verdict_;         // messages, f64
  std::vector<Pending> sending_;  // of them
  std::vector<double> known_;     // the verdict, on the last rank
  std::optional<Undecided> pending_;
  bool assumes_clipped_ = false;
};

}  // namespace sextant
