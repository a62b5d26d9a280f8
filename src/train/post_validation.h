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

// Updates a pipeline's weights without waiting for all of its ranks. Clipping needs the global
// gradient norm, which is known only after the last rank finishes; so each rank updates at once as
// if nothing were clipped, starts the next step, and learns later whether that was right. Weights,
// moments, losses and norms have the same bits as with waiting.
//
//   1. A rank whose gradients are complete receives the sum of squares and the losses of ranks
//      0 ... r - 1 from rank r - 1, adds its own, and sends the sums on. Sums are in rank order, as
//      in an all-reduce.
//   2. If the partial sum still allows a norm within the limit, the rank backs up its weights and
//      moments and updates them unclipped. Otherwise it skips the update: its next forwards get
//      discarded.
//   3. The last rank knows the norm and sends it to every other rank: the verdict. Sent directly,
//      because a rank in between may wait for a rank that waits for the verdict.
//   4. A rank receives the verdict right before the first backward action of its next step, or when
//      decide is called before that. Until then gradients are unchanged. A norm within the limit
//      changes nothing. Otherwise the backup is restored, all ranks update with clipped gradients,
//      and the forwards since then are discarded and redone (Executor). A non-finite norm or loss
//      ends the run.
//
// All data parallel ranks of a stage have the same sums and decide alike, so their collectives
// match. docs/post-validation.md has figures, and why there is no deadlock.
class PostValidation {
 public:
  // Whether an update can be rolled back: never without a clipping limit.
  static bool needs_backup(const OptimConfig& optim) {
    return optim.post_validation && optim.clip > 0;
  }

  // Collective over the pipeline. All references must outlive it.
  PostValidation(Stream& stream, Mesh& mesh, ShardedParams& params, Optimizer& optimizer,
                 const OptimConfig& optim, int micros);

  struct Update {
    int64_t step = 0;  // counted from 0
    double lr = 0;
    double squares = 0;              // gradients of this rank's stages, over its shard group
    std::span<const double> losses;  // per micro-batch; zero where another rank knows it
    double loss_scale = 1;
    bool stop = false;  // a rank of this stage wants to stop; equal on all of them
  };
  // Applies the finished gradients speculatively. No update may be pending.
  void update(const Update& update);

  Injection inject = {};  // injected fault, for tests

  bool is_pending() const { return pending_.has_value(); }
  // On a phantom device: the next verdict is that gradients are clipped.
  void assume_clipped() { assumes_clipped_ = true; }

  struct Outcome {
    double loss = 0, norm = 0;
    bool stop = false;         // some stage wants to stop
    bool has_changed = false;  // weights differ from those used since the update
  };
  // Waits for the verdict on the pending update and corrects it. Error(Failure) for a non-finite
  // loss or norm.
  Outcome decide();

 private:
  enum { kSquares, kStop, kLosses };          // sums over the ranks; losses last
  enum { kNorm, kLoss, kStopped, kVerdict };  // message of the last rank

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
  std::unique_ptr<Communicator> ranks_;  // pipeline ranks
  std::optional<Backup> backup_;
  Tensor sums_, verdict_;         // messages, f64
  std::vector<Pending> sending_;  // sends of them
  std::vector<double> known_;     // verdict, on the last rank
  std::optional<Undecided> pending_;
  bool assumes_clipped_ = false;
};

}  // namespace sextant
