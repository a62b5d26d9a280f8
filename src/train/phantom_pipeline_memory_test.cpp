// Memory of a pipeline rank, action by action, counted by hand against the phantom device.
#include <algorithm>

#include "support/small_phantom.h"

namespace sextant {
namespace {

// Peak of a micro-batch of 3 tokens on the last rank, as in OneRankHoldsEverything of
// phantom_memory_test.cpp but with the received activation, 48, in place of the embedding's y.
constexpr int64_t kLastAlone = 48 + 48 + 336 + 312 + 132 + 1536 - 60 + 96;

TEST(PhantomPipelineMemory, TwoSendsUnderWayAreHeldAndNoMore) {
  const auto most = [](int micros) { return run_stage(1, on_last(micros)).activations; };
  EXPECT_EQ(most(1), kLastAlone);
  EXPECT_EQ(most(2), kLastAlone + 48);
  EXPECT_EQ(most(3), kLastAlone + 2 * 48);
  EXPECT_EQ(most(4), kLastAlone + 2 * 48);
}

// Three posted receives are 48 each in addition to the first micro-batch. Later micro-batches have
// fewer posted receives and two sends in flight, which is no more.
TEST(PhantomPipelineMemory, AReceiveTakesItsMemoryWhenItIsPosted) {
  std::vector<Action> actions = on_last(4);
  std::ranges::stable_partition(actions,
                                [](const Action& action) { return action.kind == Kind::RecvF; });
  EXPECT_EQ(run_stage(1, actions).activations, kLastAlone + 3 * 48);
}

// The first rank holds two in-flight micro-batches: ids 48, x 48, attention 336, MLP 312, of which
// 48 are being sent. Then dy arrives, and the MLP's backward adds 96 at most.
TEST(PhantomPipelineMemory, TheFirstRankHoldsWhatIsOnItsWayThroughTheOthers) {
  const std::vector<Action> actions = {act(Kind::F, 0),     act(Kind::SendF, 0), act(Kind::F, 1),
                                       act(Kind::SendF, 1), act(Kind::RecvB, 0), act(Kind::B, 0),
                                       act(Kind::RecvB, 1), act(Kind::B, 1)};
  const MemoryEstimate m = run_stage(0, actions);
  EXPECT_EQ(m.activations, 2 * (48 + 48 + 336 + 312) + 48 + 96);
  EXPECT_EQ(m.weights, 4 * (524 + 172));
  EXPECT_EQ(m.optimizer, 8 * (524 + 172));
}

// After the input gradient: ids 48, the head's normed and logits 48 + 1536; of the MLP normed 48,
// wide 96, active 96, dy 48; of attention normed 48, dqkv 144, output 48, dy 48; dx 48 in flight.
// The peak is before: ids, head and MLP as above, x 48, what attention kept 288 and dy 48, and 48 +
// 144 more for its input gradient.
TEST(PhantomPipelineMemory, ASplitBackwardKeepsWhatItsWeightHalfNeeds) {
  std::vector<Action> actions = {act(Kind::RecvF, 0), act(Kind::F, 0),     act(Kind::I, 0),
                                 act(Kind::SendB, 0), act(Kind::RecvF, 1), act(Kind::F, 1),
                                 act(Kind::I, 1),     act(Kind::SendB, 1), act(Kind::W, 0),
                                 act(Kind::W, 1)};
  const int64_t after = 48 + 1584 + 288 + 288 + 48, most = 48 + 1584 + 288 + 48 + 288 + 48 + 192;
  EXPECT_EQ(run_stage(1, actions).activations, after + most);
  // W directly after I: only messages in flight remain.
  std::rotate(actions.begin() + 4, actions.begin() + 8, actions.begin() + 9);
  EXPECT_EQ(run_stage(1, actions).activations, 48 + most);
}

TEST(PhantomPipelineMemory, TheLastRankHasItsPartOfTheState) {
  const MemoryEstimate plain = run_stage(1, on_last(2));
  EXPECT_EQ(plain.weights, 4 * (172 + 520));
  EXPECT_EQ(plain.peak, 16 * (172 + 520) + plain.activations);
  // Two shards: 86 of the block, 260 of the head; the head's bucket is the larger one.
  const MemoryEstimate two = run_stage(1, on_last(2), {"parallel.zero=2", "parallel.shard=2"});
  EXPECT_EQ(two.weights, 4 * (172 + 520));
  EXPECT_EQ(two.gradients, 4 * (86 + 260 + 520));
  EXPECT_EQ(two.communication, 4 * 520);
  const MemoryEstimate three = run_stage(1, on_last(2), {"parallel.zero=3", "parallel.shard=2"});
  EXPECT_EQ(three.weights, 4 * (86 + 260 + 172 + 520));
}

// The embedding, 524 with positions, and the head's norm, 8, on the first and the last rank.
TEST(PhantomPipelineMemory, ATiedEmbeddingIsOnBothEnds) {
  for (const int rank : {0, 1})
    EXPECT_EQ(run_stage(rank, rank == 0 ? on_first(1) : on_last(1), {"model.tied=true"}).weights,
              4 * (172 + 532));
}

// One bucket serves both micro-batches with input gradients; none is ever waited for.
TEST(PhantomPipelineMemory, GradientsUnderWayOfTwoMicroBatchesShareABucket) {
  std::vector<Action> split = one_by_one({Kind::F, Kind::SendF, Kind::RecvB, Kind::I}, 2);
  split.insert(split.end(), {act(Kind::W, 0), act(Kind::W, 1)});
  const MemoryEstimate m = run_stage(0, split, {"parallel.zero=2", "parallel.shard=2"});
  EXPECT_EQ(m.gradients, 4 * (86 + 262) + 4 * (172 + 524));
  EXPECT_EQ(m.communication, 4 * 524);
}

}  // namespace
}  // namespace sextant
