// Invalid tokens in the middle of a run.
#include <map>
#include <mutex>

#include "config/load.h"
#include "support/expect_error.h"
#include "support/training_test.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr const char* kBadDataConfig = R"(
[model]
family = "llama"
layers = 2
hidden = 16
heads = 2
ffn = 24
vocab = 256
seq = 16
tied = false

[batch]
global = 4
micro = 1

[train]
steps = 4
eval_every = 2

[run]
threads = 1

[fault]
deadline = 60
)";

using State = std::vector<std::vector<float>>;  // weights and moments owned by a rank

State state_of(Trainer& trainer) {
  State state;
  const auto add = [&](const Tensor& tensor) {
    state.emplace_back(static_cast<size_t>(tensor.elements()));
    copy_to_host<float>(trainer.stream(), state.back(), tensor);
  };
  for (const OwnedSlice& slice : trainer.params().owned()) add(slice.value);
  for (const NamedTensor& moment : trainer.optimizer().state()) add(moment.tensor);
  return state;
}

class BadData : public TrainingTest {
 protected:
  Config config(std::vector<std::string> overrides = {}) {
    overrides.push_back("run.out=" + (dir_ / "out"));
    return parse_config(kBadDataConfig, "test", overrides).config;
  }

  // Runs f on every rank of a model whose vocabulary is smaller than the data's.
  template <class F>
  void on_small_vocabulary(Config config, F&& f) {
    const Loader data = Loader::open(
        disk_, config.data, {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
    config.model.vocab = 64;
    const Preflight flight = preflight(config, 0);
    run_world(config, clock_, nullptr, [&](Communicator& world) {
      Mesh mesh(world, mesh_shape(config.parallel));
      Trainer trainer(config, flight, mesh, data, disk_, clock_);
      f(trainer);
    });
  }
};

TEST_F(BadData, ATokenOutsideTheVocabularyEndsTheStepAndChangesNoWeight) {
  for (const char* layout : {"parallel.dp=1", "parallel.dp=2", "parallel.tp=2", "parallel.pp=2"}) {
    SCOPED_TRACE(layout);
    std::mutex mutex;
    std::map<int, State> before, after;
    const auto train = [&] {
      on_small_vocabulary(config({layout}), [&](Trainer& trainer) {
        const int rank = trainer.mesh().world().rank();
        const auto keep = [&](std::map<int, State>& states) {
          State state = state_of(trainer);
          const std::lock_guard lock(mutex);
          states[rank] = std::move(state);
        };
        keep(before);
        try {
          trainer.train_step();
        } catch (const Error&) {
          keep(after);
          throw;
        }
      });
    };
    EXPECT_ERROR(train(), Data, " is outside the vocabulary of 64");
    EXPECT_FALSE(before.empty());
    EXPECT_TRUE(before == after);
  }
}

TEST_F(BadData, TheErrorNamesTheFirstTokenInTheOrderOfTheStep) {
  for (int time = 0; time < 2; ++time)
    EXPECT_ERROR(on_small_vocabulary(config({"run.threads=3"}), [](Trainer& t) { t.train_step(); }),
                 Data, "embedding: token id 97 at position 0 is outside the vocabulary of 64");
}

TEST_F(BadData, AnEvaluationReportsItToo) {
  EXPECT_ERROR(on_small_vocabulary(config(), [](Trainer& trainer) { trainer.evaluate(); }), Data,
               " is outside the vocabulary of 64");
}

TEST_F(BadData, AnUpdateIsSkippedWithoutAskingTheHost) {
  for (const bool ahead : {false, true}) {
    Config c = config({"parallel.pp=2", "parallel.schedule=1f1b"});
    c.optim.post_validation = ahead;
    on_ranks(c, [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      const State before = state_of(trainer);
      trainer.compute_gradients();
      trainer.stream().report({Fault::Data, "embedding", "token id %", {-5}});
      trainer.update();
      EXPECT_TRUE(state_of(trainer) == before) << ahead;
      EXPECT_ERROR(trainer.stream().check_data(), Data, "embedding: token id -5");
      trainer.train_step();
      EXPECT_FALSE(state_of(trainer) == before) << ahead;
    });
  }
}

}  // namespace
}  // namespace sextant
