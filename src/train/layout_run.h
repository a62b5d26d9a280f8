#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl_world.h"
#include "comm/run_ranks.h"
#include "model/chosen_experts.h"
#include "trace/recorder.h"
#include "train/trainer.h"

namespace sextant {

// Tensors in global shape on the host, by name.
using GlobalTensors = std::map<std::string, std::vector<float>>;

// The gradient of a router's bias or load is a load error: it counts tokens, whatever the loss
// scale, and is in no norm.
inline bool is_load_error(const std::string& name) {
  return name.ends_with(".router.bias") || name.ends_with(".router.load");
}

// Weights and optimizer state between two steps.
struct GlobalState {
  GlobalTensors weights, optimizer;
  LossScaler::State loss_scaler = {};
  GlobalTensors amax_histories = {};  // of fp8 with delayed scaling
  GlobalTensors masters = {};         // master weights, where the weights are narrow copies of them
};

// What a step computed before its update.
struct StepResult {
  double loss = 0;
  const GlobalTensors& gradients;
  const ChosenExperts::Table& experts;  // what the step's routers chose
};

// What a step of train did, taken while the ranks went on.
struct WatchedStep {
  double loss = 0;
  GlobalTensors gradients;  // before clipping, times the loss scale
  double loss_scale = 1;
  bool is_skipped = false;  // fp16: the gradients overflowed, no update
  GlobalState after;        // the update
  std::unique_ptr<ChosenExperts> experts;
  // By rank:
  std::vector<double> norms;   // the gradient norm that it used
  std::vector<double> scales;  // its factor of the gradients: clip coefficient over loss scale
  std::vector<std::vector<MicroSlice>> samples;
  std::vector<std::vector<std::string>> weights_used;  // digests, one per kept range of a weight
  std::vector<std::vector<std::string>> updated;       // digests of master weights and moments
  std::vector<GlobalTensors> amax_histories;           // after the step
  // Weights whose statistics are narrower than f32.
  std::vector<std::vector<std::string>> narrow_statistics;
};

// All ranks of one layout in this process, over threads or NCCL, one step at a time; gives their
// state as global tensors.
class LayoutRun {
 public:
  struct Options {
    // Micro-batches per data parallel rank, in place of the layout's own when given.
    std::vector<std::vector<MicroSlice>> micros = {};
    bool is_watched = false;   // keeps a WatchedStep of each step
    int64_t traced_steps = 0;  // steps whose operations are recorded
  };
  LayoutRun(const Config& config, const Loader& data, const Options& options, Storage& storage,
            const Clock& clock);
  ~LayoutRun();

  // Steps as train makes them: nothing waits that train does not wait for. Error(Failure) when the
  // loss or the norm is not finite (is_not_finite).
  void train_step();
  void finish_training();  // makes the last update final
  const std::vector<StepRecord>& records() const { return records_; }  // of the final steps
  // The next watched step, if its update is final.
  std::optional<WatchedStep> next_watched();
  // The races of each rank's recorded operations, as text.
  std::vector<std::string> races() const;

  // Step by step, from outside: gradients, which return the loss, then an update with a given
  // factor of the gradients, or none. `experts` notes or says where tokens go; may be null.
  double compute_gradients(ChosenExperts* experts = nullptr);
  void update_scaled(double gradient_scale);
  void skip_update();
  // The next step is number `steps_done`, counted from 0, from this state, with the micro-batches
  // of each data parallel rank in this order.
  void start_at(int64_t steps_done, const GlobalState& state,
                const std::vector<std::vector<MicroSlice>>& micros);

  GlobalTensors gradients();
  GlobalState state();
  void set_gradients(const GlobalTensors& gradients);

  // Digests of the weights that each rank keeps, as in WatchedStep.
  std::vector<std::vector<std::string>> kept_weights();
  // Ranks whose copy of a weight differs in bits from `weights`, by weight name.
  std::map<std::string, std::vector<int>> differing_replicas(
      const std::vector<std::vector<std::string>>& digests, const GlobalTensors& weights);

  // Ranks whose master weights or moments differ in bits from `state`, by weight name.
  std::map<std::string, std::vector<int>> differing_updates(
      const std::vector<std::vector<std::string>>& digests, const GlobalState& state);

  const Config& config() const { return config_; }
  const Blueprint& blueprint() const { return flight_.blueprint; }

 private:
  struct Rank {
    TraceRecorder recorder;           // outlives the trainer, whose memory it records
    std::unique_ptr<NcclWorld> nccl;  // with transport nccl
    std::unique_ptr<Mesh> mesh;
    std::unique_ptr<Trainer> trainer;

    void end() {  // over NCCL together with the other ranks
      trainer.reset();
      mesh.reset();
      nccl.reset();
    }
  };
  template <class F>
  void on_ranks(F&& f);
  void watch(Trainer& trainer);
  WatchedStep new_watched() const;
  GlobalTensors new_tensors() const;
  GlobalState new_state() const;
  static void take_gradients(Trainer& trainer, GlobalTensors& all);
  static void take_state(Trainer& trainer, GlobalState& all);
  static GlobalTensors amax_histories_of(Trainer& trainer);
  static std::vector<std::string> digests_of(Trainer& trainer);
  static std::vector<std::string> digests_of_updated(Trainer& trainer, const GlobalState& sizes);

  Config config_;
  Preflight flight_;
  Options options_;
  ThreadWorld world_;
  std::vector<Rank> ranks_;
  int64_t steps_ = 0;                       // begun by train_step
  std::map<int64_t, WatchedStep> watched_;  // by step, from 1
  std::vector<StepRecord> records_;         // of rank 0
};

}  // namespace sextant
