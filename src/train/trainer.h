#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/storage.h"
#include "config/batch_plan.h"
#include "data/loader.h"
#include "data/sequence_part.h"
#include "executor/executor.h"
#include "mesh/mesh.h"
#include "model/transformer.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "train/post_validation.h"
#include "train/preflight.h"
#include "train/record.h"

namespace sextant {

// The micro-batches of data ranks first ... first + count - 1 in a global batch, in order.
std::vector<MicroSlice> micros_of(const Config& config, int first, int count);

struct TrainerOptions {
  Device device = {};
  // Of its memory; null: that of the pre-flight, or on a phantom device none, it is recorded.
  std::shared_ptr<const ArenaPlan> plan = {};
  // The micro-batches it takes of each global batch, when not those of its place in the mesh.
  std::vector<MicroSlice> micros = {};
  bool counts_terms = false;          // Transformer::count_terms
  TraceRecorder* recorder = nullptr;  // of all that follows the construction
};

// One rank's part of a model in training: its memory, parameters, optimizer. All ranks of the mesh
// make the same calls. One step at a time; what happens between steps is the business of run.h.
class Trainer {
 public:
  // Allocates everything and draws the weights. What it is given must outlive it.
  Trainer(const Config& config, const Preflight& preflight, Mesh& mesh, const Loader& data,
          Storage& storage, const Clock& clock, const TrainerOptions& options = {});

  int64_t steps_done() const { return step_; }
  // Makes a step. Its record, if that is known by now: under optim.post_validation it is not before
  // the next step is under way, which calls on_record then; or until finish_update is called.
  std::optional<StepRecord> make_step();
  std::function<void(const StepRecord& record)> on_record;
  // The weights are those after the last step, for good. The record of that step, if nobody has got
  // it yet. evaluate and save do this first.
  std::optional<StepRecord> finish_update();
  // Both.
  StepRecord train_step();

  // This rank wants the run to end. is_stop_agreed is the same on all ranks, once the steps made
  // under optim.post_validation have carried the wish around: two of them later.
  void ask_to_stop() { wants_stop_ = true; }
  bool is_stop_agreed() const { return is_stop_agreed_; }

  // On a phantom device, where norms read as zero: the next verdict of post-validation is that the
  // gradients are clipped, so that the step under way begins again.
  void assume_clipped() { validation_->assume_clipped(); }
  bool has_post_validation() const { return validation_.has_value(); }

  // Mean loss over the first train.eval_batches of the held-out data. Only in a run that evaluates
  // itself (train.eval_every): its memory is planned ahead.
  Evaluation evaluate();

  // The two halves of train_step, for those who look between them: gradients of the global batch
  // in what this rank owns, and the loss; then the update that they lead to, and their norm.
  double compute_gradients();
  double update();

  // `check_owner`: SaveOptions, on the rank that writes.
  void save(const std::string& directory, const std::function<void()>& check_owner = {});
  // Weights, optimizer and data cursor of a checkpoint of this very model, seed and data: the run
  // goes on. Throws Error(Data) for another.
  void resume(const std::string& checkpoint);
  // Weights only: a new run from there.
  void load_weights(const std::string& checkpoint);

  Arena& arena() { return arena_; }
  Transformer& model() { return model_; }
  ShardedParams& params() { return params_; }
  Optimizer& optimizer() { return optimizer_; }
  Stream& stream() { return stream_; }
  Mesh& mesh() { return mesh_; }
  Executor& executor() { return executor_; }

 private:
  void meet_injected_fault(int micro);
  void load_batch();
  void fill(HostBatch& host, Split split, int64_t first_sample, int64_t count);
  double all_valid_tokens();
  std::span<double> run_micros();
  double learning_rate_now() const;
  void update_ahead(std::span<const double> losses);
  bool decide_update();
  double sum_over_all(std::span<double> losses);
  int evaluation_size() const;
  std::vector<NamedTensor> kept_state(Optimizer* optimizer);
  std::vector<NamedTensor> in_model_order(std::vector<NamedTensor> tensors,
                                          bool with_moments) const;
  void describe(StepRecord& record, double seconds) const;

  Config config_;
  Injection inject_;
  const Preflight& preflight_;
  Mesh& mesh_;
  Storage& storage_;
  const Clock& clock_;
  const Loader& data_;
  Arena arena_;
  Stream stream_;
  std::optional<Blueprint> own_blueprint_;  // of a rank that is not the first of those that share
                                            // the layers: of that one the pre-flight has it
  const Blueprint& blueprint_;
  RankPart part_;
  ShardedParams params_;
  Transformer model_;
  Optimizer optimizer_;
  std::vector<MicroSlice> micros_;  // this rank's, of a global batch
  std::vector<HostBatch> host_;     // one for each: this rank's tokens of them
  SequencePart sequence_part_;
  HostBatch whole_;  // of ranks that share the sequences: all tokens of the one being loaded
  Executor executor_;
  GradientSquares squares_;  // over groups that divide the parameters; the pipeline comes last
  double loss_scale_ = 1;
  std::optional<PostValidation> validation_;
  std::optional<StepRecord> record_;  // of the last step, until somebody has it
  double norm_ = 0;                   // of the gradients of the last update decided
  bool wants_stop_ = false, stage_wants_stop_ = false, is_stop_agreed_ = false;
  int64_t step_ = 0;
  int64_t next_sample_ = 0;  // of the run, counted over all steps
};

// Place among the ranks that read different samples.
int data_rank(const Mesh& mesh);

}  // namespace sextant
