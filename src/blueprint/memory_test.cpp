#include "blueprint/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/share.h"
#include "blueprint/groups.h"
#include "config/model_presets.h"

namespace sextant {
namespace {

// Elements by hand: embedding 128*4 + 3*4 = 524; the block 88 (norm 8, qkv 60, out 20) + 84 (norm
// 8, up 40, down 36) = 172; the head 8 + 128*4 = 520. Over three ranks 524 is 175 175 174, 172 is
// 58 57 57, 520 is 174 173 173: rank 0 owns 407, rank 1 405, rank 2 404 of 1216.
ModelConfig small_model() {
  ModelConfig model = *model_preset("tiny");
  model.layers = 1;
  model.hidden = 4;
  model.heads = model.kv_heads = 2;
  model.head_dim = 2;
  model.ffn = 8;
  model.vocab = 5;
  model.seq = 3;
  model.tied = false;
  return model;
}

MemoryEstimate predict(const ModelConfig& model, int zero, int shard, int rank,
                       int64_t accumulation = 1) {
  MemoryQuestion question;
  question.seq = model.seq;
  question.accumulation = accumulation;
  question.zero = zero;
  question.shard = shard;
  question.shard_rank = rank;
  return predict_memory(make_blueprint(model), question);
}

int64_t bytes_of(const ModelConfig& model, const std::string& group) {
  for (const GroupSpec& one : make_groups(make_blueprint(model)).groups)
    if (one.name == group) return 4 * one.elements;
  return -1;
}

int64_t sum_of_parts(const MemoryEstimate& m) {
  return m.weights + m.gradients + m.optimizer + m.activations + m.workspace + m.communication;
}

TEST(Memory, OneRankHoldsEverything) {
  const MemoryEstimate m = predict(small_model(), 0, 1, 0);
  EXPECT_EQ(m.weights, 4 * 1216);
  EXPECT_EQ(m.gradients, 4 * 1216);
  EXPECT_EQ(m.optimizer, 8 * 1216);
  EXPECT_EQ(m.communication, 0);
  EXPECT_EQ(m.peak, sum_of_parts(m));
  // 3 tokens. ids 48, embedding's y 48; attention keeps 48 + 24 + 144 + 48 + 24 and y 48; the mlp
  // 48 + 24 + 96 + 96 and y 48; the head 48 + 24, 12, 12, 36 and logits 1536. Backward of the head
  // begins without 36, 12 (the loss) and then 12, and adds 48 twice: the most there is.
  EXPECT_EQ(m.activations, 48 + 48 + 336 + 312 + 132 + 1536 - 60 + 96);
}

TEST(Memory, AStageWithoutShardsDividesNothing) {
  for (int zero : {1, 2, 3}) {
    const MemoryEstimate alone = predict(small_model(), zero, 1, 0, 2);
    EXPECT_EQ(alone.weights, 4 * 1216);
    EXPECT_EQ(alone.peak, predict(small_model(), 0, 1, 0, 2).peak);
  }
}

TEST(Memory, EachStageDividesOneThingMore) {
  const MemoryEstimate one = predict(small_model(), 1, 3, 0);
  EXPECT_EQ(one.weights, 4 * 1216);
  EXPECT_EQ(one.gradients, 4 * 1216);
  EXPECT_EQ(one.optimizer, 8 * 407);
  EXPECT_EQ(one.communication, 0);
  const MemoryEstimate two = predict(small_model(), 2, 3, 1);
  EXPECT_EQ(two.weights, 4 * 1216);
  EXPECT_EQ(two.gradients, 4 * (405 + 524));  // its shard and the largest bucket
  EXPECT_EQ(two.optimizer, 8 * 405);
  EXPECT_EQ(two.communication, 4 * 524);
  const MemoryEstimate three = predict(small_model(), 3, 3, 2);
  EXPECT_EQ(three.weights, 4 * (404 + 524 + 172));  // embedding and block: one ahead
  EXPECT_EQ(three.gradients, 4 * (404 + 524));
  EXPECT_EQ(three.optimizer, 8 * 404);
  EXPECT_EQ(three.activations, one.activations);
}

TEST(Memory, OwnersHaveEveryElementOnce) {
  const Blueprint blueprint = make_blueprint(*model_preset("tiny-llama"));
  for (int shard : {2, 3, 7}) {
    MemoryEstimate sum;
    for (int rank = 0; rank < shard; ++rank) {
      MemoryQuestion question;
      question.zero = 3;
      question.shard = shard;
      question.shard_rank = rank;
      const MemoryEstimate m = resident_memory(blueprint, question);
      sum.weights += m.weights;
      sum.gradients += m.gradients;
      sum.optimizer += m.optimizer;
      EXPECT_EQ(m.peak, m.weights + m.gradients + m.optimizer);
    }
    EXPECT_EQ(sum.weights, 4 * blueprint.stored_parameters());
    EXPECT_EQ(sum.gradients, sum.weights);
    EXPECT_EQ(sum.optimizer, 2 * sum.weights);
  }
}

TEST(Memory, StageTwoHoldsItsShardOfGradientsAndTheLargestBucket) {
  for (const char* preset : {"tiny-llama", "gpt2-124m", "tiny-qwen3"})
    for (int64_t accumulation : {1, 4}) {
      ModelConfig model = *model_preset(preset);
      model.tied = false;
      int64_t shard = 0, largest = 0;
      for (const GroupSpec& group : make_groups(make_blueprint(model)).groups) {
        shard += share_of(group.elements, 4, 1).size();
        largest = std::max(largest, group.elements);
      }
      const MemoryEstimate m = predict(model, 2, 4, 1, accumulation);
      EXPECT_EQ(m.gradients, 4 * (shard + largest)) << preset;
      EXPECT_EQ(m.communication, 4 * largest) << preset;
    }
}

TEST(Memory, TheBucketOfATiedEmbeddingLivesThroughBackward) {
  ModelConfig model = small_model();
  model.tied = true;               // embedding 524 and the last norm 8 = 532, block 172
  const int64_t shard = 177 + 57;  // of rank 1 of 3
  EXPECT_EQ(predict(model, 2, 3, 1).gradients, 4 * (shard + 532 + 172));
  // The next micro-batch waits for that bucket before it makes a new one.
  EXPECT_EQ(predict(model, 2, 3, 1, 2).gradients, 4 * (shard + 532 + 172));
  EXPECT_EQ(predict(model, 2, 3, 1, 2).communication, 4 * 532);
}

// A vocabulary so large that the head holds every peak: its weights and the block gathered ahead,
// its bucket, its logits. Nothing is being reduced then, until a second micro-batch comes.
TEST(Memory, PeaksCountTogetherOnlyWhatLivesTogether) {
  ModelConfig model = small_model();
  model.vocab = 100'000;
  const int64_t embedding = bytes_of(model, "embedding"), head = bytes_of(model, "head"),
                block = bytes_of(model, "layers.0");
  const MemoryEstimate one = predict(model, 3, 2, 0);
  MemoryQuestion question;
  question.zero = 3;
  question.shard = 2;
  const MemoryEstimate resident = resident_memory(make_blueprint(model), question);
  EXPECT_EQ(one.communication, embedding);
  EXPECT_EQ(one.weights, resident.weights + embedding + block);
  EXPECT_EQ(one.peak, resident.peak + head + block + head + one.activations);
  const MemoryEstimate two = predict(model, 3, 2, 0, 2);
  EXPECT_EQ(two.peak, one.peak + embedding);
  EXPECT_EQ(two.communication, one.communication);
}

TEST(Memory, ATiedHeadDoesNotHoldTwoBucketsOfItsGroup) {
  ModelConfig model = small_model();
  model.vocab = 100'000;
  model.tied = true;
  EXPECT_EQ(predict(model, 2, 2, 0, 2).peak, predict(model, 2, 2, 0, 1).peak);
}

TEST(Memory, ATiedEmbeddingMakesTheGradientsOfLaterMicroBatchesApart) {
  ModelConfig model = small_model();
  model.tied = true;
  for (const auto& [zero, shard] : {std::pair{0, 1}, {1, 3}}) {
    EXPECT_EQ(predict(model, zero, shard, 0, 1).gradients, 4 * (532 + 172));
    EXPECT_EQ(predict(model, zero, shard, 0, 2).gradients, 4 * (532 + 172 + 532));
    EXPECT_EQ(predict(model, zero, shard, 0, 2).communication, 0);
  }
  EXPECT_EQ(predict(small_model(), 0, 1, 0, 2).gradients, 4 * 1216);
}

// small_model with two blocks over two ranks: the embedding and a block, a block and the head.
Blueprint two_blocks(bool tied = false) {
  ModelConfig model = small_model();
  model.layers = 2;
  model.tied = tied;
  return make_blueprint(model);
}

// Actions of one of the two ranks: its stage's own.
MemoryEstimate predict_stage(const Blueprint& blueprint, int rank, std::vector<Action> actions,
                             int zero = 0, int shard = 1) {
  Pipeline pipeline;
  pipeline.stages = {{0, 3}, {3, 6}};
  pipeline.schedule = {"by hand", 2, 4, Placement::Loop, {{}, {}}};
  for (Action& action : actions) action.stage = rank;
  pipeline.schedule.ranks[static_cast<size_t>(rank)] = std::move(actions);
  MemoryQuestion question;
  question.seq = blueprint.model.seq;
  question.zero = zero;
  question.shard = shard;
  question.pipeline = &pipeline;
  question.pipeline_rank = rank;
  return predict_memory(blueprint, question);
}

Action act(Kind kind, int micro) {
  return {kind, false, 0, micro};
}

// There and back, one micro-batch after the other, on the last rank.
std::vector<Action> one_by_one(int micros) {
  std::vector<Action> actions;
  for (int micro = 0; micro < micros; ++micro)
    for (const Kind kind : {Kind::RecvF, Kind::F, Kind::B, Kind::SendB})
      actions.push_back(act(kind, micro));
  return actions;
}

// What a micro-batch of 3 tokens takes on the last rank at its most, as in OneRankHoldsEverything
// but with what was received, 48, in place of the embedding's y.
constexpr int64_t kLastAlone = 48 + 48 + 336 + 312 + 132 + 1536 - 60 + 96;

TEST(Memory, TwoSendsUnderWayAreHeldAndNoMore) {
  const Blueprint blueprint = two_blocks();
  const auto most = [&](int micros) {
    return predict_stage(blueprint, 1, one_by_one(micros)).activations;
  };
  EXPECT_EQ(most(1), kLastAlone);
  EXPECT_EQ(most(2), kLastAlone + 48);
  EXPECT_EQ(most(3), kLastAlone + 2 * 48);
  EXPECT_EQ(most(4), kLastAlone + 2 * 48);
}

TEST(Memory, AReceiveTakesItsMemoryWhenItIsPosted) {
  const Blueprint blueprint = two_blocks();
  std::vector<Action> actions = one_by_one(1);
  actions.insert(actions.begin(), act(Kind::RecvF, 1));
  EXPECT_EQ(predict_stage(blueprint, 1, actions).activations, kLastAlone + 48);
}

// The first rank holds two micro-batches: ids 48, x 48, attention 336, mlp 312, of which the last
// 48 are under way. Then dy comes, and the mlp's backward adds 96 at most.
TEST(Memory, TheFirstRankHoldsWhatIsOnItsWayThroughTheOthers) {
  const std::vector<Action> actions = {act(Kind::F, 0),     act(Kind::SendF, 0), act(Kind::F, 1),
                                       act(Kind::SendF, 1), act(Kind::RecvB, 0), act(Kind::B, 0),
                                       act(Kind::RecvB, 1), act(Kind::B, 1)};
  const MemoryEstimate m = predict_stage(two_blocks(), 0, actions);
  EXPECT_EQ(m.activations, 2 * (48 + 48 + 336 + 312) + 48 + 96);
  EXPECT_EQ(m.weights, 4 * (524 + 172));
  EXPECT_EQ(m.optimizer, 8 * (524 + 172));
}

// After the input half: ids 48, the head's normed and logits 48 + 1536; of the mlp normed 48, wide
// 96, active 96, dy 48; of the attention normed 48, dqkv 144, attended 48, dy 48; dx 48 under way.
// Its most is before: ids, head and mlp as above, x 48, what the attention kept 288 and dy 48, and
// for its input half 48 + 144 more.
TEST(Memory, ASplitBackwardKeepsWhatItsWeightHalfNeeds) {
  std::vector<Action> actions = {act(Kind::RecvF, 0), act(Kind::F, 0),     act(Kind::I, 0),
                                 act(Kind::SendB, 0), act(Kind::RecvF, 1), act(Kind::F, 1),
                                 act(Kind::I, 1),     act(Kind::SendB, 1), act(Kind::W, 0),
                                 act(Kind::W, 1)};
  const int64_t after = 48 + 1584 + 288 + 288 + 48, most = 48 + 1584 + 288 + 48 + 288 + 48 + 192;
  EXPECT_EQ(predict_stage(two_blocks(), 1, actions).activations, after + most);
  // W at once: nothing but what is under way.
  std::rotate(actions.begin() + 4, actions.begin() + 8, actions.begin() + 9);
  EXPECT_EQ(predict_stage(two_blocks(), 1, actions).activations, 48 + most);
}

TEST(Memory, TheLastRankHasItsPartOfTheState) {
  const MemoryEstimate plain = predict_stage(two_blocks(), 1, one_by_one(2));
  EXPECT_EQ(plain.weights, 4 * (172 + 520));
  EXPECT_EQ(plain.peak, 16 * (172 + 520) + plain.activations);
  // Tied: the embedding, its positions and the head's norm, on either end.
  for (const int rank : {0, 1})
    EXPECT_EQ(predict_stage(two_blocks(true), rank, {act(Kind::F, 0)}).weights, 4 * (172 + 532));
  // Divided by two: 86 of the block, 260 of the head; the bucket of the head is the larger one.
  const MemoryEstimate two = predict_stage(two_blocks(), 1, one_by_one(2), 2, 2);
  EXPECT_EQ(two.weights, 4 * (172 + 520));
  EXPECT_EQ(two.gradients, 4 * (86 + 260 + 520));
  EXPECT_EQ(two.communication, 4 * 520);
  const MemoryEstimate three = predict_stage(two_blocks(), 1, one_by_one(2), 3, 2);
  EXPECT_EQ(three.weights, 4 * (86 + 260 + 172 + 520));
}

// One bucket takes both micro-batches whose input halves were made; none is ever waited for.
TEST(Memory, GradientsUnderWayOfTwoMicroBatchesShareABucket) {
  const std::vector<Action> split = {act(Kind::F, 0), act(Kind::I, 0), act(Kind::F, 1),
                                     act(Kind::I, 1), act(Kind::W, 0), act(Kind::W, 1)};
  const MemoryEstimate m = predict_stage(two_blocks(), 0, split, 2, 2);
  EXPECT_EQ(m.gradients, 4 * (86 + 262) + 4 * (172 + 524));
  EXPECT_EQ(m.communication, 4 * 524);
}

TEST(Memory, MicroBatchesBetweenTheFirstAndTheLastAddNothing) {
  for (int zero : {1, 2, 3})
    for (const char* preset : {"tiny", "tiny-llama"}) {
      const ModelConfig model = *model_preset(preset);
      EXPECT_EQ(predict(model, zero, 4, 3, 3).peak, predict(model, zero, 4, 3, 1000).peak);
    }
}

}  // namespace
}  // namespace sextant
