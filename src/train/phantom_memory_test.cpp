// A rank's memory, counted by hand, against the trainer on the phantom device.
#include <algorithm>

#include "base/range.h"
#include "program/groups.h"
#include "support/small_phantom.h"

namespace sextant {
namespace {

const Settings kTiedPhantom = {"model.tied=true"};

Settings divided(int zero, int shard, int64_t accumulation = 1) {
  return {concat("parallel.zero=", zero), concat("parallel.shard=", shard),
          concat("batch.accumulation=", accumulation)};
}

int64_t bytes_of(const Config& config, const std::string& group) {
  for (const GroupSpec& one : make_groups(make_blueprint(config.model)).groups)
    if (one.name == group) return 4 * one.elements;
  return -1;
}

int64_t sum_of_parts(const MemoryEstimate& m) {
  return m.weights + m.gradients + m.optimizer + m.activations + m.workspace + m.communication;
}

// Over three ranks 524 elements are 175 175 174, 172 are 58 57 57, 520 are 174 173 173: rank 0 owns
// 407, rank 1 405, rank 2 404 of 1216.
MemoryEstimate small(const Settings& settings, int rank = 0) {
  return phantom_memory(small_config(settings), rank);
}

TEST(PhantomMemory, OneRankHoldsEverything) {
  const MemoryEstimate m = small({});
  EXPECT_EQ(m.weights, 4 * 1216);
  EXPECT_EQ(m.gradients, 4 * 1216);
  EXPECT_EQ(m.optimizer, 8 * 1216);
  EXPECT_EQ(m.communication, 0);
  EXPECT_EQ(m.peak, sum_of_parts(m));
  // 3 tokens. ids 48, embedding's y 48; attention keeps 48 + 24 + 144 + 48 + 24 and y 48; the MLP
  // 48 + 24 + 96 + 96 and y 48; the head 48 + 24, 12, 12, 36 and logits 1536. The head's backward
  // starts without 36, 12 (the loss) and then 12, and adds 48 twice: the peak.
  EXPECT_EQ(m.activations, 48 + 48 + 336 + 312 + 132 + 1536 - 60 + 96);
}

TEST(PhantomMemory, AStageWithoutShardsDividesNothing) {
  for (int zero : {1, 2, 3}) {
    const MemoryEstimate alone = small(divided(zero, 1, 2));
    EXPECT_EQ(alone.weights, 4 * 1216);
    EXPECT_EQ(alone.peak, small(divided(0, 1, 2)).peak);
  }
}

TEST(PhantomMemory, EachStageDividesOneThingMore) {
  const MemoryEstimate one = small(divided(1, 3), 0);
  EXPECT_EQ(one.weights, 4 * 1216);
  EXPECT_EQ(one.gradients, 4 * 1216);
  EXPECT_EQ(one.optimizer, 8 * 407);
  EXPECT_EQ(one.communication, 0);
  const MemoryEstimate two = small(divided(2, 3), 1);
  EXPECT_EQ(two.weights, 4 * 1216);
  EXPECT_EQ(two.gradients, 4 * (405 + 524));  // its shard and the largest bucket
  EXPECT_EQ(two.optimizer, 8 * 405);
  EXPECT_EQ(two.communication, 4 * 524);
  const MemoryEstimate three = small(divided(3, 3), 2);
  EXPECT_EQ(three.weights, 4 * (404 + 524 + 172));  // embedding and block: one prefetched
  EXPECT_EQ(three.gradients, 4 * (404 + 524));
  EXPECT_EQ(three.optimizer, 8 * 404);
  EXPECT_EQ(three.activations, one.activations);
}

TEST(PhantomMemory, OwnersHaveEveryElementOnce) {
  for (int shard : {2, 3, 7}) {
    const Config config = preset_config("tiny-llama", divided(3, shard));
    const Preflight flight = phantom_flight(config);
    MemoryEstimate sum;
    for (int rank = 0; rank < shard; ++rank) {
      const MemoryEstimate m = run_phantom(config, flight, rank).resident;
      sum.weights += m.weights;
      sum.gradients += m.gradients;
      sum.optimizer += m.optimizer;
      EXPECT_EQ(m.activations + m.communication, 0);
      EXPECT_EQ(m.peak, m.state() + m.workspace);
    }
    EXPECT_EQ(sum.weights, 4 * flight.blueprint.stored_parameters());
    EXPECT_EQ(sum.gradients, sum.weights);
    EXPECT_EQ(sum.optimizer, 2 * sum.weights);
  }
}

TEST(PhantomMemory, StageTwoHoldsItsShardOfGradientsAndTheLargestBucket) {
  for (const char* preset : {"tiny-llama", "gpt2-124m", "tiny-qwen3"})
    for (int64_t accumulation : {1, 4}) {
      const Config config =
          preset_config(preset, Settings{"model.tied=false"} + divided(2, 4, accumulation));
      int64_t shard = 0, largest = 0;
      for (const GroupSpec& group : make_groups(make_blueprint(config.model)).groups) {
        shard += even_part(group.elements, 4, 1).size();
        largest = std::max(largest, group.elements);
      }
      const MemoryEstimate m = phantom_memory(config, 1);
      EXPECT_EQ(m.gradients, 4 * (shard + largest)) << preset;
      EXPECT_EQ(m.communication, 4 * largest) << preset;
    }
}

TEST(PhantomMemory, TheBucketOfATiedEmbeddingLivesThroughBackward) {
  // Embedding 524 and the last norm 8 = 532, block 172.
  const int64_t shard = 177 + 57;  // of rank 1 of 3
  EXPECT_EQ(small(kTiedPhantom + divided(2, 3), 1).gradients, 4 * (shard + 532 + 172));
  // The next micro-batch waits for the reduction of that bucket before it allocates a new one.
  EXPECT_EQ(small(kTiedPhantom + divided(2, 3, 2), 1).gradients, 4 * (shard + 532 + 172));
  EXPECT_EQ(small(kTiedPhantom + divided(2, 3, 2), 1).communication, 4 * 532);
}

const Settings kLargeVocabulary = {"model.vocab=100000"};

// A vocabulary so large that the head has every peak: its weights and the prefetched block, its
// bucket, its logits. Nothing is being reduced then, until a second micro-batch comes.
TEST(PhantomMemory, PeaksCountTogetherOnlyWhatLivesTogether) {
  const Config config = small_config(kLargeVocabulary + divided(3, 2));
  const int64_t embedding = bytes_of(config, "embedding"), head = bytes_of(config, "head"),
                block = bytes_of(config, "layers.0");
  const MemoryEstimate one = phantom_memory(config), resident = phantom_rank(config).resident;
  EXPECT_EQ(one.communication, embedding);
  EXPECT_EQ(one.weights, resident.weights + embedding + block);
  EXPECT_EQ(one.peak, resident.state() + head + block + head + one.activations);
  const MemoryEstimate two = small(kLargeVocabulary + divided(3, 2, 2));
  EXPECT_EQ(two.peak, one.peak + embedding);
  EXPECT_EQ(two.communication, one.communication);
}

TEST(PhantomMemory, ATiedHeadDoesNotHoldTwoBucketsOfItsGroup) {
  const Settings model = kLargeVocabulary + kTiedPhantom;
  EXPECT_EQ(small(model + divided(2, 2, 2)).peak, small(model + divided(2, 2, 1)).peak);
}

TEST(PhantomMemory, ATiedEmbeddingMakesTheGradientsOfLaterMicroBatchesApart) {
  for (const auto& [zero, shard] : {std::pair{0, 1}, {1, 3}}) {
    EXPECT_EQ(small(kTiedPhantom + divided(zero, shard, 1)).gradients, 4 * (532 + 172));
    EXPECT_EQ(small(kTiedPhantom + divided(zero, shard, 2)).gradients, 4 * (532 + 172 + 532));
    EXPECT_EQ(small(kTiedPhantom + divided(zero, shard, 2)).communication, 0);
  }
  EXPECT_EQ(small(divided(0, 1, 2)).gradients, 4 * 1216);
}

TEST(PhantomMemory, MicroBatchesBetweenTheFirstAndTheLastAddNothing) {
  for (int zero : {1, 2, 3})
    for (const char* preset : {"tiny", "tiny-llama"}) {
      const auto peak = [&](int64_t accumulation) {
        return phantom_memory(preset_config(preset, divided(zero, 4, accumulation)), 3).peak;
      };
      EXPECT_EQ(peak(3), peak(100));
    }
}

}  // namespace
}  // namespace sextant
