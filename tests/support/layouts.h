#pragma once
#include "support/expect_error.h"
#include "support/pipelines.h"

namespace sextant {

// Eight query heads and sixteen tokens, so that up to eight ranks can share either.
inline constexpr const char* kShared = R"(
[model]
layers = 2
hidden = 32
heads = 8
ffn = 48
vocab = 259
seq = 16

[batch]
micro = 2
accumulation = 2

[train]
steps = 2
)";
inline const Settings kGpt = {"model.family=gpt2"},
                      kGrouped = {"model.family=llama", "model.kv_heads=4"},
                      kNormed = {"model.family=qwen3", "model.kv_heads=2"};
inline const Settings kEvaluates = {"train.eval_every=1"};
// Tokens of ranks that share layers, between their common works.
inline const Settings kWhole = {"parallel.sequence=false"}, kOwn = {"parallel.sequence=true"};

inline Settings shared_by(int ranks) {
  return {"parallel.tp=" + std::to_string(ranks)};
}
inline Settings context(int ranks, const std::string& kind) {
  return {"parallel.cp=" + std::to_string(ranks), "parallel.cp_kind=" + kind};
}

// A model in any layout, against one rank and against what was predicted.
class LayoutTest : public TrainingTest {
 protected:
  // `always`: settings of all tests, which theirs may change.
  explicit LayoutTest(Settings always = {}) : always_(std::move(always)) {}

  ResolvedConfig resolve(const Settings& settings) {
    return parse_config(kShared, "test",
                        Settings{"run.out=" + (dir_ / "out")} + always_ + settings);
  }
  Config config_of(const Settings& settings) { return resolve(settings).config; }
  VerifyReport verify(const Settings& settings, const std::string& against = "") {
    return verify_layout(config_of(settings), {2, against}, {disk_, clock_, log_, stop_});
  }
  void expect_right(const Settings& settings) {
    const VerifyReport report = verify(settings);
    EXPECT_NE(report.verdict, Verdict::Bug) << join(settings, " ");
    EXPECT_LT(report.grad_max_rel, 5e-6) << join(settings, " ");
  }
  // The names of the tensors that are wrong; the verdict says so, too.
  std::vector<std::string> wrong_tensors(const Settings& settings) {
    const VerifyReport report = verify(settings);
    EXPECT_EQ(report.verdict, Verdict::Bug) << join(settings, " ");
    std::vector<std::string> names;
    for (const TensorVerdict& tensor : report.tensors)
      if (tensor.verdict == Verdict::Bug) names.push_back(tensor.name);
    return names;
  }
  std::vector<double> losses_of(const Settings& settings, int steps) {
    std::vector<double> losses;
    on_ranks(config_of(settings), [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < steps; ++step) {
        const double loss = trainer.train_step().loss;
        if (trainer.mesh().world().rank() == 0) losses.push_back(loss);
      }
    });
    return losses;
  }
  void expect_predicted_memory(const Settings& settings) {
    on_ranks(config_of(settings), [&](Trainer& trainer, const MemoryEstimate& predicted) {
      for (int step = 0; step < 2; ++step) trainer.train_step();
      const CategoryBytes wanted = {predicted.weights,   predicted.gradients,
                                    predicted.optimizer, predicted.activations,
                                    predicted.workspace, predicted.communication};
      EXPECT_EQ(trainer.arena().peaks(), wanted) << join(settings, " ");
      EXPECT_EQ(trainer.arena().peak(), predicted.peak) << join(settings, " ");
    });
  }
  // The last loss of four steps, which the layouts make in turn, each from the checkpoint of the
  // one before it.
  double loss_over(const Settings& model, const std::vector<Settings>& layouts) {
    double last = 0;
    int64_t steps = 0;
    const std::string out = dir_ / concat("run", runs_++);
    for (const Settings& layout : layouts) {
      const bool is_first = steps == 0;
      steps += 4 / static_cast<int64_t>(layouts.size());
      RunOptions options;
      options.resume = !is_first;
      const Settings run_settings = {"optim.schedule=constant", "run.out=" + out,
                                     "train.steps=" + std::to_string(steps)};
      last = run(resolve(model + layout + run_settings), options).loss_last.value();
    }
    return last;
  }
  // Elements that all ranks together send in a step by these operations.
  int64_t elements_sent(const Settings& settings, const std::vector<Operation>& operations) {
    std::atomic<int64_t> sum{0};
    on_ranks(config_of(settings), [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      for (const Operation operation : operations)
        sum += trainer.mesh().world().ledger().traffic.of(operation).elements;
    });
    return sum;
  }

 private:
  Settings always_;
  int runs_ = 0;
};

}  // namespace sextant
