// Published memory formulas against the trainer on the phantom device. Elements have 4 bytes: W = 4
// of weights, G = 4 of gradients, K = 8 of AdamW's moments per parameter.
#include "program/groups.h"
#include "support/small_phantom.h"

namespace sextant {
namespace {

constexpr int64_t kWeight = 4, kGradient = 4, kMoments = 8;

Settings exactly_divided(int zero, int ranks) {
  return {concat("parallel.zero=", zero), concat("parallel.shard=", ranks)};
}

// Groups of 124 million parameters that 64 ranks divide without remainder.
Config gpt2(const Settings& settings) {
  return preset_config("gpt2-124m", settings);
}

// Bytes of state per stored parameter.
double state_per_parameter(const Config& config) {
  for (const GroupSpec& group : make_groups(make_blueprint(config.model)).groups)
    EXPECT_EQ(group.elements % config.parallel.shard, 0) << group.name;
  return static_cast<double>(phantom_rank(config).resident.state()) /
         static_cast<double>(make_blueprint(config.model).stored_parameters());
}

// ZeRO: DDP W + G + K, ZeRO-1 W + G + K/N, ZeRO-2 W + (G + K)/N, ZeRO-3 (W + G + K)/N.
TEST(PublishedMemory, StateIsThatOfTheZeroPaper) {
  EXPECT_EQ(state_per_parameter(gpt2({"parallel.dp=8"})), 16);
  EXPECT_EQ(state_per_parameter(gpt2(exactly_divided(1, 8))), 9);
  EXPECT_EQ(state_per_parameter(gpt2(exactly_divided(2, 8))), 5.5);
  EXPECT_EQ(state_per_parameter(gpt2(exactly_divided(3, 8))), 2);
  for (const int n : {2, 4, 8, 16, 64}) {
    const double w = kWeight, g = kGradient, k = kMoments;
    EXPECT_EQ(state_per_parameter(gpt2(exactly_divided(1, n))), w + g + k / n) << n;
    EXPECT_EQ(state_per_parameter(gpt2(exactly_divided(2, n))), w + (g + k) / n) << n;
    EXPECT_EQ(state_per_parameter(gpt2(exactly_divided(3, n))), (w + g + k) / n) << n;
  }
}

// HSDP: replicas of a shard group do not shard any further.
TEST(PublishedMemory, ReplicasOfShardsHoldWhatShardsHold) {
  EXPECT_EQ(state_per_parameter(gpt2(exactly_divided(3, 4) + Settings{"parallel.dp=2"})), 4);
}

TEST(PublishedMemory, SgdWithoutMomentumHasNoMoments) {
  const Settings sgd = {"optim.name=sgd", "optim.momentum=0"};
  EXPECT_EQ(state_per_parameter(gpt2(sgd)), kWeight + kGradient);
  EXPECT_EQ(state_per_parameter(gpt2(sgd + exactly_divided(3, 8))), 1);
}

// With any number of ranks, ZeRO-1 keeps W + G, ZeRO-2 W; and no stage shards activations.
TEST(PublishedMemory, StagesHaveTheirFloorsAndLeaveActivationsAlone) {
  EXPECT_NEAR(state_per_parameter(gpt2(exactly_divided(1, 64))), kWeight + kGradient, 0.2);
  EXPECT_NEAR(state_per_parameter(gpt2(exactly_divided(2, 64))), kWeight, 0.2);
  const int64_t activations = phantom_memory(gpt2({})).activations;
  for (const int zero : {1, 2, 3})
    EXPECT_EQ(phantom_memory(gpt2(exactly_divided(zero, 8))).activations, activations) << zero;
}

// ZeRO-3 in addition to its shards: two gathered groups (in use and prefetched), the gradient of
// one, and one bucket being reduced. Blocks are the largest groups here.
TEST(PublishedMemory, StageThreeHasTwoGatheredGroupsAndOneGradient) {
  const Config config =
      preset_config("gpt2-s", Settings{"model.tied=false"} + exactly_divided(3, 8));
  const std::vector<GroupSpec> groups = make_groups(make_blueprint(config.model)).groups;
  const int64_t block = kWeight * groups[1].elements;
  for (const GroupSpec& group : groups) EXPECT_LE(kWeight * group.elements, block) << group.name;
  const PhantomRank rank = phantom_rank(config);
  EXPECT_EQ(rank.memory.weights, rank.resident.weights + 2 * block);
  EXPECT_EQ(rank.memory.gradients, rank.resident.gradients + block);
  EXPECT_EQ(rank.memory.communication, block);
}

// Growth of a rank's peak per micro-batch for one more layer.
int64_t bytes_of_a_layer(const std::string& preset, const Settings& settings) {
  const auto with = [&](int layers) {
    return phantom_memory(
               preset_config(preset, settings + Settings{concat("model.layers=", layers)}))
        .activations;
  };
  const int64_t bytes = with(4) - with(3);
  EXPECT_EQ(with(6) - with(4), 2 * bytes) << preset << " " << join(settings, " ");
  return bytes;
}

Settings shared(int ranks, bool sequence) {
  return {concat("parallel.tp=", ranks), concat("parallel.sequence=", sequence ? "true" : "false")};
}

// Korthikanti et al., in elements of 2 bytes: sbh(34 + 5as/h); tp sbh(10 + 24/t + 5as/ht); with
// sequence sbh(34/t + 5as/ht). Tiled attention omits the scores, 5as/h, and adds the log-sum-exp,
// 2as; dropout masks are drawn again, which omits 2 of the 10 that tp does not shard; mean and
// deviation of two norms add 8 per token. Here elements have 4 bytes.
TEST(PublishedMemory, AGpt2LayerKeepsThePublishedActivations) {
  const int64_t s = 64, b = 3, h = 64, a = 4, sbh = s * b * h;
  const Settings sizes = {"batch.micro=3", "model.seq=64"};
  const int64_t lse = 2 * a * s * b, statistics = 8 * s * b;
  EXPECT_EQ(bytes_of_a_layer("tiny", sizes), 2 * ((34 - 2) * sbh + lse + statistics));
  for (const int t : {2, 4}) {
    EXPECT_EQ(bytes_of_a_layer("tiny", sizes + shared(t, false)),
              2 * ((10 - 2) * sbh + 24 * sbh / t + lse / t + statistics));
    EXPECT_EQ(bytes_of_a_layer("tiny", sizes + shared(t, true)),
              2 * ((34 - 2) * sbh + lse + statistics) / t);
  }
}

// A layer with RMSNorm, grouped heads and SwiGLU: sb(12h + 4hg + 6f) in elements of 2 bytes, with g
// key-value heads per query head, and in f32 4a of log-sum-exps and 8 of the norms' statistics.
// Divided by t with sequence; key-value heads are replicated when there are fewer than ranks.
TEST(PublishedMemory, ALlamaLayerKeepsThePublishedActivations) {
  const int64_t s = 64, b = 2, h = 64, a = 8, kv = 4, d = 8, f = 128;
  const Settings sizes = {"batch.micro=2", "model.seq=64"};
  EXPECT_EQ(bytes_of_a_layer("tiny-llama", sizes),
            s * b * (2 * (12 * h + 4 * h * kv / a + 6 * f) + 4 * a + 8));
  for (const int t : {2, 4, 8}) {
    const int64_t kv_of_rank = std::max<int64_t>(kv / t, 1);
    EXPECT_EQ(bytes_of_a_layer("tiny-llama", sizes + shared(t, true)),
              s * b * (2 * (12 * h + 6 * f) / t + 2 * 4 * kv_of_rank * d + (4 * a + 8) / t))
        << t;
  }
}

// FlashAttention: linear in the sequence.
TEST(PublishedMemory, ActivationsOfALayerGrowWithTheSequenceNotItsSquare) {
  EXPECT_EQ(bytes_of_a_layer("tiny-llama", {"model.seq=4096"}),
            64 * bytes_of_a_layer("tiny-llama", {"model.seq=64"}));
}

// Context parallel: a layer's activations for 1/C of the tokens.
TEST(PublishedMemory, RanksThatShareSequencesDivideActivations) {
  const int64_t whole = bytes_of_a_layer("tiny", {"model.seq=64"});
  EXPECT_EQ(bytes_of_a_layer("tiny", {"model.seq=64", "parallel.cp=4"}), whole / 4);
}

// Peak activations of a pipeline rank, in units of one layer's.
int64_t layers_held(const Settings& settings, int stages, int rank) {
  const auto with = [&](int layers_of_stage) {
    return phantom_memory(
               preset_config("tiny-llama", settings + Settings{concat("model.layers=",
                                                                      stages * layers_of_stage)}),
               rank)
        .activations;
  };
  const int64_t bytes = with(3) - with(2), of_one = bytes_of_a_layer("tiny-llama", {});
  EXPECT_EQ(bytes % of_one, 0) << join(settings, " ");
  return bytes / of_one;
}

// In-flight micro-batches: all m for GPipe; p - r on rank r for 1F1B, so that the first rank holds
// p * L/p = L layers' worth; for interleaved chunks L(1 + (p - 1)/(pv)) layers' worth.
TEST(PublishedMemory, PipelinesHoldThePublishedNumberOfMicroBatches) {
  const int p = 4, m = 8, v = 2;
  const auto of = [&](const char* schedule, int chunks) {
    return Settings{concat("parallel.pp=", p), concat("parallel.schedule=", schedule),
                    concat("parallel.chunks=", chunks), concat("batch.accumulation=", m)};
  };
  for (int rank = 0; rank < p; ++rank) {
    EXPECT_EQ(layers_held(of("gpipe", 1), p, rank), m) << rank;
    EXPECT_EQ(layers_held(of("1f1b", 1), p, rank), p - rank) << rank;
  }
  EXPECT_EQ(layers_held(of("interleaved", v), p * v, 0), p * v + p - 1);
}

// The head's logits in f32, 4sbV/t, are held once, on the last stage only.
TEST(PublishedMemory, LogitsAreHeldOnTheLastStage) {
  const auto with = [](int64_t vocab, const Settings& layout, int rank) {
    const Settings sizes = {"model.seq=64", "batch.micro=2", concat("model.vocab=", vocab)};
    return phantom_memory(preset_config("tiny-llama", sizes + layout), rank).activations;
  };
  const int64_t more = 25'600, tokens = 64 * 2;
  for (const int t : {1, 2, 4})
    EXPECT_EQ(with(2 * more, shared(t, true), 0) - with(more, shared(t, true), 0),
              4 * tokens * more / t);
  const Settings piped = {"parallel.pp=2", "model.layers=2", "batch.accumulation=4"};
  EXPECT_EQ(with(2 * more, piped, 1) - with(more, piped, 1), 4 * tokens * more);
  EXPECT_EQ(with(2 * more, piped, 0), with(more, piped, 0));
}

}  // namespace
}  // namespace sextant
