// Context parallelism: results of one rank, exact memory in bytes, exact traffic in elements.
#include <algorithm>

#include "support/counts.h"
#include "support/layouts.h"

namespace sextant {
namespace {

// Every kind of context parallelism on up to four ranks.
std::vector<Settings> every_kind() {
  return {context(2, "ring"),        context(4, "ring"),      context(2, "ulysses"),
          context(4, "ulysses"),     context(2, "allgather"), context(4, "allgather"),
          context(4, "ring+ulysses")};
}

class ContextTest : public LayoutTest {};

TEST_F(ContextTest, GivesTheGradientsOfOneRank) {
  for (const Settings& kind : every_kind()) expect_right(kGrouped + kind);
  for (const char* kind : {"ring", "ulysses", "allgather", "ring+ulysses"})
    expect_right(kGrouped + context(8, kind));
  for (const Settings& model : {kGpt, kNormed}) {
    expect_right(model + context(2, "ring"));
    expect_right(model + context(2, "allgather"));
    expect_right(model + context(4, "ring+ulysses"));
  }
}

// The built-in corpus has several documents per row, so the tests above are all masked; this one is
// not.
TEST_F(ContextTest, SeesWholeRowsWhereDocumentsDoNotMatter) {
  for (const Settings& kind : every_kind())
    expect_right(kGpt + kind + Settings{"data.document_mask=false", "batch.micro=1"});
}

TEST_F(ContextTest, RepeatsKeyValueHeadsWhereThereAreFewerThanRanks) {
  expect_right(kNormed + context(4, "ulysses"));
  expect_right(kNormed + context(8, "ulysses"));
  expect_right(kNormed + context(8, "ring+ulysses"));
}

// Ulysses only moves data, and gathered keys are those of one rank: the loss has the same bits up
// to the order in which the tokens' losses are summed.
TEST_F(ContextTest, KeepsTheLossWhereNothingIsAddedInAnotherOrder) {
  for (const char* kind : {"ulysses", "allgather"}) {
    const VerifyReport report = verify(kGrouped + context(4, kind));
    EXPECT_LT(report.loss_max_rel, 1e-15) << kind;
  }
}

TEST_F(ContextTest, GoesWithEveryOtherAxis) {
  for (const Settings& kind : {context(2, "ring"), context(2, "ulysses"), context(2, "allgather")})
    for (const Settings& other :
         {Settings{"parallel.tp=2"}, Settings{"parallel.dp=2"},
          Settings{"parallel.shard=2", "parallel.zero=1"},
          Settings{"parallel.shard=2", "parallel.zero=3"},
          Settings{"parallel.pp=2", "parallel.schedule=zb-h1", "model.tied=true"}})
      expect_right(kGrouped + kind + other);
}

TEST_F(ContextTest, HoldsWhatWasPredictedToTheByte) {
  for (const Settings& kind : every_kind()) {
    expect_predicted_memory(kGrouped + kind);
    expect_predicted_memory(kGpt + kind + Settings{"batch.micro=1"});
  }
  expect_predicted_memory(kNormed + context(4, "ulysses"));
  expect_predicted_memory(kNormed + context(8, "ring+ulysses"));
  expect_predicted_memory(kGrouped + context(2, "ring") +
                          Settings{"parallel.tp=2", "parallel.pp=2"});
  expect_predicted_memory(kGpt + context(2, "allgather") +
                          Settings{"parallel.shard=2", "parallel.zero=3", "parallel.dp=2"});
}

class ContextTraffic : public ContextTest {
 protected:
  // Elements sent for one more layer, over all ranks, by these operations.
  int64_t of_a_layer(const Settings& settings, const std::vector<Operation>& operations) {
    return elements_sent(settings + Settings{"model.layers=2"}, operations) -
           elements_sent(settings + Settings{"model.layers=1"}, operations);
  }
  static int64_t micro_tokens(const Config& config) {
    return config.batch.micro * config.batch.accumulation * config.model.seq;
  }
};

TEST_F(ContextTraffic, OfTheRingIsWhatItsRoundsCarry) {
  for (const int ranks : {2, 4}) {
    const Settings settings = kGrouped + context(ranks, "ring");
    const Config config = config_of(settings);
    const int64_t kv = micro_tokens(config) * 2 * config.model.kv_heads * config.model.head_dim;
    // Ring: ranks - 1 hops forward, as many backward plus a full round of gradients; all ranks
    // together have all tokens.
    EXPECT_EQ(of_a_layer(settings, {Operation::Send}), kv * (2 * (ranks - 1) + ranks));
  }
}

TEST_F(ContextTraffic, OfUlyssesIsAllButARanksOwnPart) {
  for (const int ranks : {2, 4}) {
    const Settings settings = kGrouped + context(ranks, "ulysses");
    const Config config = config_of(settings);
    const int64_t width = (config.model.heads + 2 * config.model.kv_heads + config.model.heads) *
                          config.model.head_dim;
    EXPECT_EQ(of_a_layer(settings, {Operation::AllToAll}),
              2 * micro_tokens(config) * width * (ranks - 1) / ranks);
  }
}

TEST_F(ContextTraffic, OfGatheredKeysIsTwoGathersAndAReduction) {
  for (const int ranks : {2, 4}) {
    const Settings settings = kGrouped + context(ranks, "allgather");
    const Config config = config_of(settings);
    const int64_t kv = micro_tokens(config) * 2 * config.model.kv_heads * config.model.head_dim;
    EXPECT_EQ(of_a_layer(settings, {Operation::AllGather, Operation::ReduceScatter}),
              3 * kv * (ranks - 1));
  }
}

class MistakenContext : public ContextTest {
 protected:
  Settings with(const Settings& layout, const std::string& fault) {
    return layout + Settings{"fault.inject=" + fault};
  }
  void expect_wrong(const Settings& layout, const std::string& fault, const std::string& tensor) {
    const std::vector<std::string> wrong = wrong_tensors(with(layout, fault));
    EXPECT_TRUE(std::ranges::find(wrong, tensor) != wrong.end())
        << fault << " in " << join(layout, " ") << " names " << join(wrong, " ");
  }
};

TEST_F(MistakenContext, PositionsOfTheRankAloneAreABug) {
  for (const Settings& kind :
       {context(2, "ring"), context(4, "ulysses"), context(2, "allgather")}) {
    expect_wrong(kGrouped + kind, "local_positions", "layers.0.attention.qkv.weight");
    expect_wrong(kGpt + kind, "local_positions", "embedding.positions.weight");
  }
}

TEST_F(MistakenContext, TargetsOfTheRankAloneAreABug) {
  for (const Settings& kind : {context(2, "ring"), context(4, "ulysses"), context(2, "allgather")})
    for (const char* tensor : {"head.norm.weight", "layers.1.mlp.down.weight"})
      expect_wrong(kGrouped + kind, "local_targets", tensor);
}

TEST_F(MistakenContext, SwappedHalvesAreABug) {
  for (const Settings& kind : {context(2, "ring"), context(4, "allgather")})
    expect_wrong(kGrouped + kind, "swapped_halves:rank=0", "layers.0.attention.qkv.weight");
}

TEST_F(MistakenContext, AFaultThatCannotStrikeIsRefused) {
  EXPECT_ERROR(verify(with(kGpt + Settings{"parallel.dp=2"}, "local_targets")), Config,
               "without parallel.cp above 1 no sequence is shared");
  EXPECT_ERROR(verify(with(kGpt + context(2, "ulysses"), "lost_key")), Config,
               "needs parallel.cp above 1 with a parallel.cp_kind other than ulysses");
  EXPECT_ERROR(verify(with(kGpt + context(2, "allgather"), "stuck_ring")), Config,
               "with parallel.cp_kind = ring or ring+ulysses");
  EXPECT_ERROR(verify(with(kGpt + context(2, "ring"), "unreduced_keys")), Config,
               "with parallel.cp_kind = allgather");
  EXPECT_ERROR(verify(with(kGpt + context(2, "ring"), "local_targets:group=1")), Config,
               "local_targets takes rank=, step=");
  EXPECT_ERROR(
      verify(with(kGpt + context(8, "ulysses") + Settings{"model.seq=8"}, "swapped_halves")),
      Config, "has nothing to confuse");
  EXPECT_ERROR(verify(with(kGpt + Settings{"parallel.tp=2"}, "count_copies:step=1")), Config,
               "count_copies takes no place");
}

TEST_F(ContextTest, ItsCheckpointGoesOnInOtherLayouts) {
  const double whole = loss_over(kGrouped, {{}});
  EXPECT_NEAR(loss_over(kGrouped, {context(4, "ring"), {}}), whole, 1e-6 * whole);
  EXPECT_NEAR(loss_over(kGrouped, {{},
                                   context(2, "ulysses") + Settings{"parallel.pp=2"},
                                   context(2, "allgather") + Settings{"parallel.tp=2"},
                                   context(8, "ring")}),
              whole, 1e-6 * whole);
}

TEST_F(ContextTest, EvaluatesAsOneRankDoes) {
  std::vector<double> losses;
  for (const Settings& layout : {Settings{}, context(4, "ring"), context(2, "ulysses")})
    on_ranks(config_of(kGrouped + layout + kEvaluates),
             [&](Trainer& trainer, const MemoryEstimate&) {
               const Evaluation evaluation = trainer.evaluate();
               if (trainer.mesh().world().rank() == 0) losses.push_back(evaluation.loss);
             });
  EXPECT_NEAR(losses[1], losses[0], 1e-6 * losses[0]);
  EXPECT_NEAR(losses[2], losses[0], 1e-6 * losses[0]);
}

TEST_F(ContextTest, ADegreeThatCannotBeIsRefusedWithWhatWorks) {
  const auto refused = [&](const Settings& settings, const std::string& text) {
    EXPECT_ERROR(config_of(settings), Config, text);
  };
  refused(kGpt + context(3, "ring"),
          "into 6 equal parts, as parallel.cp_kind = ring needs: "
          "parallel.cp = 2 works");
  refused(kGpt + context(16, "ring"), "parallel.cp = 8 works");
  refused(kGpt + context(16, "ulysses"), "does not cut the 8 heads of a rank");
  refused(kGpt + context(4, "ulysses") + Settings{"parallel.tp=4"},
          "the 2 heads of a rank (model.kv_heads = 8): parallel.cp = 2 works");
  refused(kGpt + context(2, "ring+ulysses"), "parallel.cp_kind = ring works");
  refused(kGpt + context(8, "ring+ulysses") + Settings{"parallel.ulysses=3"},
          "parallel.ulysses = 4 works");
  refused(kGpt + context(3, "ring") + Settings{"parallel.tp=2"},
          "parallel.cp = 3 does not cut model.seq = 16 into 6 equal parts");
  refused(kGpt + context(5, "ring") + Settings{"parallel.tp=4", "model.seq=24"},
          "parallel.cp = 3 works");
  refused(kGpt + context(8, "ring") + Settings{"parallel.tp=8"},
          "model.seq = 16 / parallel.cp = 8: parallel.tp = 2 works");
}

// Runs under ThreadSanitizer too: ring messages concurrent with compute.
class RacedContext : public ContextTest {};

TEST_F(RacedContext, StepsEvaluatesAndSaves) {
  for (const Settings& layout :
       {context(4, "ring"), context(4, "ring+ulysses"),
        context(2, "allgather") + Settings{"parallel.shard=2", "parallel.zero=3"},
        context(2, "ring") + Settings{"parallel.tp=2", "parallel.pp=2"}})
    EXPECT_GT(loss_over(kGrouped + Settings{"train.eval_every=1"}, {layout, layout}), 0);
}

class SlowContext : public ContextTest {};

TEST_F(SlowContext, TrainsASequenceThatOneRankCouldNotHold) {
  const Settings settings =
      kGpt + Settings{"model.layers=1",        "model.hidden=16",      "model.heads=1",
                      "model.ffn=32",          "model.seq=65536",      "batch.micro=1",
                      "data.kind=synthetic",   "batch.accumulation=1", "memory.logits=chunked",
                      "run.memory_limit=64MiB"};
  EXPECT_ERROR(preflight(config_of(settings), 0), Memory, "and may use 64.0 MiB");
  on_ranks(config_of(settings + context(8, "ring")),
           [](Trainer& trainer, const MemoryEstimate& predicted) {
             const double first = trainer.train_step().loss;
             EXPECT_LT(trainer.train_step().loss, first);
             EXPECT_EQ(trainer.arena().peak(), predicted.peak);
             EXPECT_LE(trainer.arena().peak(), int64_t{64} << 20);
           });
}

TEST_F(SlowContext, GridOfKindsFamiliesAndOtherAxes) {
  GridSample sample(5);
  for (const Settings& model :
       {kGpt + Settings{"model.tied=true"}, kGrouped + Settings{"model.tied=false"},
        kNormed + Settings{"model.tied=true"}})
    for (const Settings& kind : every_kind())
      for (const Settings& other :
           {Settings{}, Settings{"parallel.tp=2"}, Settings{"parallel.dp=2"},
            Settings{"parallel.shard=2", "parallel.zero=1"},
            Settings{"parallel.shard=2", "parallel.zero=2"},
            Settings{"parallel.shard=2", "parallel.zero=3"}, Settings{"parallel.pp=2"},
            Settings{"parallel.pp=2", "parallel.schedule=zb-v", "model.layers=4"}})
        if (sample.takes()) expect_right(model + kind + other);
}

}  // namespace
}  // namespace sextant
