#pragma once
#include <functional>
#include <map>
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
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "tensor/gpu.h"
#include "train/post_validation.h"
#include "train/preflight.h"
#include "train/record.h"
#include "train/same_tokenizer.h"

namespace sextant {

// The micro-batches of data parallel ranks first ... first + count - 1 in a global batch, in order.
std::vector<MicroSlice> micros_of(const Config& config, int first, int count);

struct TrainerOptions {
  std::optional<Device> device = {};  // empty: run.device
  // Null: the memory plan of the pre-flight; on a phantom device it is recorded instead.
  std::shared_ptr<const ArenaPlan> plan = {};
  std::shared_ptr<const ArenaPlan> host_plan = {};  // the same of offloaded tensors
  // The micro-batches of each global batch; empty: those of this rank in the mesh.
  std::vector<MicroSlice> micros = {};
  bool shortened = false;             // Executor::Programs::shortened
  Budget* budget = nullptr;           // of an arena that records
  TraceRecorder* recorder = nullptr;  // records everything after construction
};

// One rank's part of a model in training: its memory, parameters, optimizer. All ranks of the mesh
// make the same calls. One step at a time; run.h does what happens between steps.
class Trainer {
 public:
  // Allocates everything and initialises the weights. All references must outlive it.
  Trainer(const Config& config, const Preflight& preflight, Mesh& mesh, const Loader& data,
          Storage& storage, const Clock& clock, const TrainerOptions& options = {});

  int64_t steps_done() const { return step_; }
  // Runs a step. Returns its record if it is known: with optim.post_validation it is final only
  // during the next step, which then calls on_record, or after finish_update.
  std::optional<StepRecord> make_step();
  std::function<void(const StepRecord& record)> on_record;
  // Makes the last update final. Returns the record of that step if it was not returned yet.
  // evaluate and save call this first.
  std::optional<StepRecord> finish_update();
  // make_step, then finish_update.
  StepRecord train_step();

  // Requests that the run ends. is_stop_agreed is equal on all ranks; with optim.post_validation it
  // takes two more steps.
  void ask_to_stop() { wants_stop_ = true; }
  bool is_stop_agreed() const { return is_stop_agreed_; }

  // On a phantom device, where norms read as zero: the next verdict of post-validation is that
  // gradients are clipped, so that the step in progress restarts.
  void assume_clipped() { validation_->assume_clipped(); }
  bool has_post_validation() const { return validation_.has_value(); }

  // Mean loss over the first train.eval_batches of the held-out data, of each source of a blend.
  // Only with train.eval_every, since its memory is planned ahead.
  Evaluation evaluate();

  // The two parts of train_step, each with a wait for the device: compute_gradients computes the
  // gradients of the global batch in this rank's shards and returns the loss; update applies them
  // and returns their norm.
  double compute_gradients();
  double update();

  // For verify. on_gradients: the gradients of a step, counted from 1, are complete in owned(), and
  // the weights are still those that it used. on_update: the update of a step is final in owned()
  // and in the optimizer's state; with optim.post_validation this is during the next step.
  std::function<void(int64_t step)> on_gradients;
  std::function<void(int64_t step, double norm)> on_update;
  // The samples read for the last step, numbered over the whole run, per micro-batch.
  std::span<const MicroSlice> samples() const { return samples_; }
  // The gradients' factor of the last update: the clip coefficient over the loss scale.
  double gradient_scale();
  const LossScaler& loss_scaler() const { return scaler_; }
  // Histories of fp8 scales, on one of the ranks that hold them.
  std::vector<NamedTensor> saved_amax_histories();
  // The next step is number `steps_done`, counted from 0, and its micro-batches are in this order.
  void start_at(int64_t steps_done, const std::vector<MicroSlice>& micros,
                const LossScaler::State& loss_scaler);
  // Applies the gradients with this factor, whatever their norm.
  void update_scaled(double gradient_scale);
  // Ends a step whose gradients overflowed, without an update.
  void skip_update();

  // `check_owner`: SaveOptions, on the rank that writes.
  void save(const std::string& directory, const std::function<void()>& check_owner = {});
  // Throws Error(Data) unless the manifest is of a run of this model, optimizer and seed.
  void check_same_run(const Manifest& manifest, const std::string& checkpoint) const;
  // Weights, optimizer and data cursor of a checkpoint of this very run and its data, which goes
  // on. Throws Error(Data) for another.
  void resume(const std::string& checkpoint);
  // Loads weights only, for a new run.
  void load_weights(const std::string& from);

  Arena& arena() { return arena_; }
  const HostArena* offload() const { return offload_.get(); }  // null without memory.offload
  Transformer& model() { return model_; }
  ShardedParams& params() { return params_; }
  Optimizer& optimizer() { return optimizer_; }
  Stream& stream() { return stream_; }
  bool has_graph() const { return graph_ != nullptr; }  // of a step
  Mesh& mesh() { return mesh_; }
  Executor& executor() { return executor_; }

 private:
  void meet_injected_fault(int micro);
  bool is_injected(InjectionKind kind) const;  // now, on this rank
  void load_batch();
  void prepare_step();
  void fill(HostBatch& host, Split split, int64_t first_sample, int64_t count);
  double all_valid_tokens();
  void issue_gradients();
  double loss_weight() const;
  int64_t mask_step() const;
  double learning_rate_now() const;
  double loss();
  double aux_loss_weight() const;
  int64_t balance_units() const;
  void issue_update();
  struct UpdateArguments {
    int64_t update;  // counted from 0, without skipped steps
    double lr, loss_scale;
  };
  UpdateArguments update_arguments() const;
  bool is_recordable() const;
  void launch_step();
  double finish_update_at_once();
  void issue_squares_ahead();
  void update_ahead();
  bool decide_update();
  double sum_over_all(std::span<double> losses);
  int evaluation_size() const;
  struct LossSum {
    double loss;
    int64_t tokens;
    double mean() const { return tokens == 0 ? 0 : loss / static_cast<double>(tokens); }
  };
  LossSum evaluate_source(const EvalSource& source);
  std::vector<NamedTensor> kept_state(Optimizer* optimizer);
  void add_optional(std::map<std::string, std::vector<NamedTensor>>& known,
                    std::vector<NamedTensor>& all) const;
  void take_tokenizer(TokenizerFiles files, const TokenizerDigest& digest,
                      const std::string& weights);
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
  TokenizerFiles tokenizer_;  // kept in checkpoints; of the data, or of the weights before
  Arena arena_;
  Stream stream_;
  std::unique_ptr<HostArena> offload_;      // null without memory.offload
  std::optional<Blueprint> own_blueprint_;  // of tensor and expert parallel ranks above 0; that of
                                            // rank 0 is in the pre-flight
  const Blueprint& blueprint_;
  RankPart part_;
  ShardedParams params_;
  Transformer model_;
  Optimizer optimizer_;
  std::vector<MicroSlice> micros_;  // this rank's micro-batches of a global batch
  std::vector<MicroSlice> samples_;
  std::vector<HostBatch> host_;  // this rank's tokens, per micro-batch
  SequencePart sequence_part_;
  HostBatch whole_;  // context parallel: all tokens of the micro-batch being loaded
  Executor executor_;
  GradientSquares squares_;  // over groups that shard the parameters; the pipeline last
  double squares_on_host_ = 0;
  double token_weight_ = 1;  // 1 / tokens of the global batch
  LossScaler scaler_;
  Tensor scaler_state_;  // LossScaler::state for checkpoints; empty unless it is used
  std::optional<PostValidation> validation_;
  std::optional<StepRecord> record_;             // of the last step, until it is returned
  std::unique_ptr<gpu::Graph> graph_;            // of a step; null until it is recorded
  std::vector<const int32_t*> recorded_inputs_;  // host memory that it copies from
  TrafficTable recorded_traffic_;                // of the recorded step
  int64_t issued_ = 0;                           // steps issued without a graph
  double norm_ = 0;                              // gradient norm of the last final update
  bool wants_stop_ = false, stage_wants_stop_ = false, is_stop_agreed_ = false;
  int64_t step_ = 0;
  int64_t next_sample_ = 0;  // counted over all steps of the run
};

// Rank among those that read different samples.
int data_rank(const Mesh& mesh);

}  // namespace sextant
