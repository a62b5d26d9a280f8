// Memory and traffic of pipeline ranks, exact in bytes.
#include "support/counts.h"
#include "support/pipelines.h"

namespace sextant {
namespace {

class PipelineBytes : public PipelineTest {
 protected:
  void expect_predicted(const char* model, const Piped& piped, const Settings& settings) {
    const Config tested = config(model, piped, settings).config;
    on_ranks(tested, [&](Trainer& trainer, const MemoryEstimate& predicted) {
      for (int step = 0; step < 2; ++step) trainer.train_step();
      const Arena& arena = trainer.arena();
      const CategoryBytes wanted = {predicted.weights,   predicted.gradients,
                                    predicted.optimizer, predicted.activations,
                                    predicted.workspace, predicted.communication};
      EXPECT_EQ(arena.peaks(), wanted) << text(piped, settings, trainer);
      EXPECT_EQ(arena.peak(), predicted.peak) << text(piped, settings, trainer);
    });
  }
  static std::string text(const Piped& piped, const Settings& settings, const Trainer& trainer) {
    return testing::PrintToString(piped) + ", " + join(settings, " ") + ", rank " +
           std::to_string(const_cast<Trainer&>(trainer).mesh().world().rank());
  }

  // Elements of activations and their gradients that each pipeline rank sends in a step, as
  // multiples of a micro-batch's activations at a boundary.
  std::vector<int64_t> sends(const Piped& piped, const Settings& settings) {
    const Config tested = config(kGpt2, piped, settings).config;
    const int64_t unit = tested.batch.micro * tested.model.seq * tested.model.hidden;
    std::vector<int64_t> all(static_cast<size_t>(piped.ranks));
    on_ranks(tested, [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < 2; ++step) trainer.train_step();
      const Ledger& ledger = trainer.mesh().world().ledger();
      const Traffic sent = ledger.traffic.of(Operation::Send);
      EXPECT_EQ(sent.elements % unit, 0);
      EXPECT_EQ(sent.elements, sent.calls * unit);
      EXPECT_EQ(sent.bytes, 4 * sent.elements);
      if (data_rank(trainer.mesh()) == 0)
        all[static_cast<size_t>(trainer.mesh().at(Axis::Pp))] = sent.elements / unit;
    });
    return all;
  }
};

const Settings kTiedMemory = {"model.tied=true"}, kUntiedMemory = {"model.tied=false"};

TEST_F(PipelineBytes, AreThoseThatWerePredictedForEverySchedule) {
  for (const Piped& piped : every_schedule(2)) {
    expect_predicted(kGpt2, piped, kTiedMemory);
    expect_predicted(kLlama, piped, kUntiedMemory);
  }
}

TEST_F(PipelineBytes, ArePredictedWithDividedStateToo) {
  for (const char* zero : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
    expect_predicted(kQwen3, {"1f1b", 2, 3}, kTiedMemory + Settings{"parallel.shard=2", zero});
    expect_predicted(kGpt2, {"zb-v", 2, 3}, kTiedMemory + Settings{"parallel.shard=2", zero});
  }
}

// 2 m b s h elements over the boundary of two ranks: m forward, m backward.
TEST_F(PipelineBytes, OverABoundaryAreTwiceTheActivationsOfAStep) {
  const int64_t m = 4;
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-auto"})
    EXPECT_EQ(sends({name, 3, m}, kTiedMemory), (std::vector<int64_t>{m, 2 * m, m})) << name;
  // Data parallel ranks each send their own; tied embeddings and gradients use other operations.
  EXPECT_EQ(sends({"1f1b", 2, m}, kTiedMemory + Settings{"parallel.dp=2", "batch.micro=2"}),
            (std::vector<int64_t>{m, m}));
}

// Each chunk crosses every boundary, and the last rank sends to the first.
TEST_F(PipelineBytes, OverABoundaryAreTimesTheChunks) {
  const int64_t m = 4, v = 2;
  for (const char* name : {"interleaved", "looped-bfs", "interleaved-zb"})
    EXPECT_EQ(sends({name, 3, m, v}, kUntiedMemory),
              (std::vector<int64_t>{2 * v * m - m, 2 * v * m, 2 * v * m - m}))
        << name;
}

// A V crosses each boundary twice; its turn is on one rank.
TEST_F(PipelineBytes, OverABoundaryOfAVAreTwiceAsMany) {
  const int64_t m = 6;
  for (const char* name : {"zb-v", "v-half", "v-min", "dualpipe-v"})
    EXPECT_EQ(sends({name, 3, m}, kUntiedMemory), (std::vector<int64_t>{2 * m, 4 * m, 2 * m}))
        << name;
}

// Half of the micro-batches in each direction: as many in total as with one direction.
TEST_F(PipelineBytes, OverABoundaryOfTwoDirectionsAreThoseOfOne) {
  const int64_t m = 8;
  EXPECT_EQ(sends({"dualpipe", 4, m}, kUntiedMemory), (std::vector<int64_t>{m, 2 * m, 2 * m, m}));
}

class SlowPipelineBytes : public PipelineBytes, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SlowPipelineBytes, testing::Values(2, 3, 4));

TEST_P(SlowPipelineBytes, AreThoseThatWerePredicted) {
  GridSample sample(7);
  for (const Piped& piped : every_schedule(GetParam()))
    for (const char* model : {kGpt2, kLlama, kQwen3})
      for (const Settings& tied : {kUntiedMemory, kTiedMemory}) {
        for (const Settings& other : {Settings{}, Settings{"memory.logits=chunked"},
                                      Settings{"parallel.shard=2", "parallel.zero=1"},
                                      Settings{"parallel.shard=2", "parallel.zero=2"},
                                      Settings{"parallel.shard=2", "parallel.zero=3"}})
          if (sample.takes()) expect_predicted(model, piped, tied + other);
      }
}

TEST_P(SlowPipelineBytes, ArePredictedForOtherNumbersToo) {
  for (Piped piped : every_schedule(GetParam())) {
    const std::string twice = "model.layers=" + std::to_string(2 * piped.stages());
    expect_predicted(kGpt2, piped, kTiedMemory + Settings{twice, "batch.micro=3"});
    expect_predicted(kLlama, piped,
                     kTiedMemory + Settings{twice, "parallel.split=balanced", "parallel.dp=2",
                                            "parallel.shard=2", "parallel.zero=2"});
    piped.micros *= 2;
    expect_predicted(kLlama, piped,
                     kUntiedMemory + Settings{"parallel.shard=3", "parallel.zero=3"});
    expect_predicted(kGpt2, piped, kTiedMemory + Settings{"optim.name=sgd"});
    if (piped.schedule == "gpipe" || piped.schedule.starts_with("zb-")) {
      piped.micros = 1;
      expect_predicted(kGpt2, piped, kTiedMemory + Settings{"parallel.shard=2", "parallel.zero=3"});
    }
  }
}

}  // namespace
}  // namespace sextant
