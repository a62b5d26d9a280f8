// What a rank of a pipeline holds, action by action, counted by hand against the phantom device.
#include <algorithm>

#include "support/small_phantom.h"

namespace sextant {
namespace {

// What a micro-batch of 3 tokens takes on the last rank at its most, as in OneRankHoldsEverything
// of phantom_memory_test.cpp but with what was received, 48, in place of the embedding's y.
constexpr int64_t kLastAlone = 48 + 48 + 336 + 312 + 132 + 1536 - 60 + 96;

TEST(PhantomPipelineMemory, TwoSendsUnderWayAreHeldAndNoMore) {
  const auto most = [](int micros) { return run_stage(1, on_last(micros)).activations; };
  EXPECT_EQ(most(1), kLastAlone);
  EXPECT_EQ(most(2), kLastAlone + 48);
  EXPECT_EQ(most(3), kLastAlone + 2 * 48);
  EXPECT_EQ(most(4), kLastAlone + 2 * 48);
}

// Three receives ahead are 48 each beside the first micro-batch. Later ones have fewer ahead and
// two sends under way, which is no more.
TEST(PhantomPipelineMemory, AReceiveTakesItsMemoryWhenItIsPosted) {
  std::vector<Action> actions = on_last(4);
  std::ranges::stable_partition(actions,
                                [](const Action& action) { return action.kind == Kind::RecvF; });
  EXPECT_EQ(run_stage(1, actions).activations, kLastAlone + 3 * 48);
}

// The first rank holds two micro-batches: ids 48, x 48, attention 336, mlp 312, of which the last
// 48 are under way. Then dy comes, and the mlp's backward adds 96 at most.
TEST(PhantomPipelineMemory, TheFirstRankHoldsWhatIsOnItsWayThroughTheOthers) {
  const std::vector<Action> actions = {act(Kind::F, 0),     act(Kind::SendF, 0), act(Kind::F, 1),
                                       act(Kind::SendF, 1), act(Kind::RecvB, 0), act(Kind::B, 0),
                                       act(Kind::RecvB, 1), act(Kind::B, 1)};
  const MemoryEstimate m = run_stage(0, actions);
  EXPECT_EQ(m.activations, 2 * (48 + 48 + 336 + 312) + 48 + 96);
  EXPECT_EQ(m.weights, 4 * (524 + 172));
  EXPECT_EQ(m.optimizer, 8 * (524 + 172));
}

// After the input half: ids 48, the head's normed and logits 48 + 1536; of the mlp normed 48, wide
// 96, active 96, dy 48; of the attention normed 48, dqkv 144, attended 48, dy 48; dx 48 under way.
// Its most is before: ids, head and mlp as above, x 48, what the attention kept 288 and dy 48, and
// for its input half 48 + 144 more.
TEST(PhantomPipelineMemory, ASplitBackwardKeepsWhatItsWeightHalfNeeds) {
  std::vector<Action> actions = {act(Kind::RecvF, 0), act(Kind::F, 0),     act(Kind::I, 0),
                                 act(Kind::SendB, 0), act(Kind::RecvF, 1), act(Kind::F, 1),
                                 act(Kind::I, 1),     act(Kind::SendB, 1), act(Kind::W, 0),
                                 act(Kind::W, 1)};
  const int64_t after = 48 + 1584 + 288 + 288 + 48, most = 48 + 1584 + 288 + 48 + 288 + 48 + 192;
  EXPECT_EQ(run_stage(1, actions).activations, after + most);
  // W at once: nothing but what is under way.
  std::rotate(actions.begin() + 4, actions.begin() + 8, actions.begin() + 9);
  EXPECT_EQ(run_stage(1, actions).activations, 48 + most);
}

TEST(PhantomPipelineMemory, TheLastRankHasItsPartOfTheState) {
  const MemoryEstimate plain = run_stage(1, on_last(2));
  EXPECT_EQ(plain.weights, 4 * (172 + 520));
  EXPECT_EQ(plain.peak, 16 * (172 + 520) + plain.activations);
  // Divided by two: 86 of the block, 260 of the head; the bucket of the head is the larger one.
  const MemoryEstimate two = run_stage(1, on_last(2), {"parallel.zero=2", "parallel.shard=2"});
  EXPECT_EQ(two.weights, 4 * (172 + 520));
  EXPECT_EQ(two.gradients, 4 * (86 + 260 + 520));
  EXPECT_EQ(two.communication, 4 * 520);
  const MemoryEstimate three = run_stage(1, on_last(2), {"parallel.zero=3", "parallel.shard=2"});
  EXPECT_EQ(three.weights, 4 * (86 + 260 + 172 + 520));
}

// The embedding 524 with its positions and the head's norm 8, on either end.
TEST(PhantomPipelineMemory, ATiedEmbeddingIsOnBothEnds) {
  for (const int rank : {0, 1})
    EXPECT_EQ(run_stage(rank, rank == 0 ? on_first(1) : on_last(1), {"model.tied=true"}).weights,
              4 * (172 + 532));
}

// One bucket takes both micro-batches whose input halves were made; none is ever waited for.
TEST(PhantomPipelineMemory, GradientsUnderWayOfTwoMicroBatchesShareABucket) {
  std::vector<Action> split = one_by_one({Kind::F, Kind::SendF, Kind::RecvB, Kind::I}, 2);
  split.insert(split.end(), {act(Kind::W, 0), act(Kind::W, 1)});
  const MemoryEstimate m = run_stage(0, split, {"parallel.zero=2", "parallel.shard=2"});
  EXPECT_EQ(m.gradients, 4 * (86 + 262) + 4 * (172 + 524));
  EXPECT_EQ(m.communication, 4 * 524);
}

}  // namespace
}  // namespace sextant
