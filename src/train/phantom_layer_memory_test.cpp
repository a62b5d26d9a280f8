// Lifetimes within a layer, counted by hand against the phantom device, with sizes that move the
// peak into the backward of MLP, attention or head. The first of two stages has no logits.
#include "support/small_phantom.h"

namespace sextant {
namespace {

constexpr const char* kGated = "model.family=llama";

int64_t on_first_stage(const Settings& settings) {
  return run_stage(0, on_first(1), settings).activations;
}

// Three tokens: ids 48, hidden 48. At the start of the MLP's backward: ids, x, attention's 48 + 24
// + 144 + 48 + 24 and y 48, of the MLP normed 48, statistics 24 and two of ffn, y 48 in flight, dy
// 48. The gradient before the activation is a third of ffn.
TEST(PhantomLayerMemory, AWideMlpPeaksAtTheGradientBeforeItsActivation) {
  const int64_t ffn = 3 * 500 * 4;
  EXPECT_EQ(on_first_stage({"model.ffn=500"}), 48 + 48 + 288 + 48 + 72 + 48 + 48 + 3 * ffn);
}

// RMSNorm keeps 12 of statistics; gate and up are two of ffn, their product a third, its gradient a
// fourth, and the gradient of gate and up is written in place.
TEST(PhantomLayerMemory, AWideGatedMlpPeaksAtTheGradientOfItsProduct) {
  const int64_t ffn = 3 * 500 * 4;
  EXPECT_EQ(on_first_stage({kGated, "model.ffn=500"}), 48 + 48 + 276 + 48 + 60 + 48 + 48 + 4 * ffn);
}

// Heads of 16 make attention outputs of 3 * 32 * 4 = 384. At the start of attention's backward: ids
// 48, x 48, normed 48, statistics 12, qkv 3 * 384, attention output 384, log-sum-exps 24, dy 48,
// and y 48 in flight; it allocates gradients of the attention output and of qkv.
TEST(PhantomLayerMemory, WideHeadsPeakAtTheGradientOfQueriesKeysAndValues) {
  EXPECT_EQ(on_first_stage({kGated, "model.head_dim=16"}),
            48 + 48 + 48 + 12 + 3 * 384 + 384 + 24 + 48 + 48 + (1 + 3) * 384);
}

// The same with head norm, which keeps its input, 3 * 384, and statistics of 4 heads, 3 * 4 * 4.
TEST(PhantomLayerMemory, HeadNormKeepsItsInputUntilThen) {
  EXPECT_EQ(on_first_stage({"model.family=qwen3", "model.head_dim=16"}),
            48 + 48 + 48 + 12 + 3 * 384 + 384 + 24 + 48 + 48 + (1 + 3) * 384 + 3 * 384 + 48);
}

// After the input gradients of a first micro-batch: ids 48; of the MLP normed 48, three of ffn, 96
// each, and dy 48; of attention normed 48, dqkv, attention output and dy 48, but no input of head
// norm; dy of the embedding, 48; y 48 in flight. The second is then as in
// HeadNormKeepsItsInputUntilThen, with its MLP in addition.
TEST(PhantomLayerMemory, ASplitBackwardLetsGoOfWhatItsWeightHalfDoesNotRead) {
  std::vector<Action> actions = one_by_one({Kind::F, Kind::SendF, Kind::RecvB, Kind::I}, 2);
  actions.insert(actions.end(), {act(Kind::W, 0), act(Kind::W, 1)});
  const int64_t mlp = 48 + 3 * 96 + 48;
  const int64_t after = 48 + mlp + 48 + (3 + 1) * 384 + 48 + 48 + 48;
  const int64_t most =
      48 + 48 + 48 + 12 + 3 * 384 + 384 + 24 + 48 + 48 + (1 + 3) * 384 + 3 * 384 + 48;
  EXPECT_EQ(run_stage(0, actions, {"model.family=qwen3", "model.head_dim=16"}).activations,
            after + most + mlp);
}

// Dropout needs token indices, 12, and the gradient before dropout in addition to dy, 48.
TEST(PhantomLayerMemory, DropoutHoldsOneGradientMoreAndNoMask) {
  const Settings wide = {"model.ffn=500"};
  EXPECT_EQ(on_first_stage(wide + Settings{"model.dropout=0.1"}), on_first_stage(wide) + 12 + 48);
}

// Logits of 128 columns, 1536, live in forward and again in backward but not between: in addition
// to the head's memory in forward, 132.
TEST(PhantomLayerMemory, ChunkedLogitsAreMadeTwice) {
  EXPECT_EQ(phantom_memory(small_config({"memory.logits=chunked"})).activations,
            48 + 48 + 336 + 312 + 132 + 1536);
}

// Sequence parallel: two of four tokens. Ids 64, hidden 32, gathered hidden 64; of attention normed
// 32, statistics 16, qkv 96, attention output 32, log-sum-exps 16. The MLP has half of ffn for all
// tokens, and gathers all of dy.
TEST(PhantomLayerMemory, OwnTokensAreGatheredForTheMlp) {
  const int64_t ffn = 4 * 250 * 4;
  EXPECT_EQ(
      on_first_stage({"model.seq=4", "model.ffn=500", "parallel.tp=2", "parallel.sequence=true"}),
      64 + 32 + 192 + 32 + 48 + 32 + 32 + 64 + 3 * ffn);
}

// Two tokens of four. Ids: three per token, and first and last key for each of two parts, 56.
// Hidden 32, attention output 2 * 32 * 4 = 256, keys and values 512. The second of two ring steps
// has the received keys, and gradients sent, received and computed; besides, delta 16 and dqkv.
TEST(PhantomLayerMemory, ARingHoldsKeysAndThreeGradientsOfKeys) {
  EXPECT_EQ(on_first_stage({kGated, "model.seq=4", "model.head_dim=16", "parallel.cp=2",
                            "parallel.cp_kind=ring"}),
            56 + 32 + 32 + 8 + 3 * 256 + 256 + 16 + 32 + 32 + 256 + 16 + 3 * 256 + 4 * 512);
}

// Two experts for each of three tokens make 6 rows: of hidden 6 * 16 = 96, of ffn 6 * 500 * 4. At
// the start of the backward of the experts: ids 48, x 48, attention's 276 and y 48; of the experts
// normed 48, statistics 12, logits, choices, gates and places 24 each, counts 8, offsets 12, rows
// and what came back 96 each, gates and gradient of the gates 24, y 48 in flight, dy 48; gate and
// up are two of ffn, their product a third, its gradient a fourth.
TEST(PhantomLayerMemory, ExpertsPeakAtTheGradientOfTheProductOfTheirRows) {
  const int64_t ffn = 6 * 500 * 4;
  const int64_t routing = 4 * 24 + 8 + 12;
  EXPECT_EQ(on_first_stage({"model.family=mixtral", "model.experts=2", "model.expert_ffn=500"}),
            48 + 48 + 276 + 48 + 60 + routing + 2 * 96 + 24 + 48 + 48 + 4 * ffn);
}

// Heads of 16, 4 of them rotated, with values of 8: keys and attention outputs of 3 * 32 * 4 = 384,
// values 192. At the start of attention's backward: ids 48, x 48, normed 48, statistics 12, of the
// latents of rank 10 and 8 value and normed (120 and 96 each) and statistics 12, qkv 3 * 384,
// attention output 384, its values 192, log-sum-exps 24, dy 48, y 48 in flight; it allocates
// gradients of the attention output and of qkv.
TEST(PhantomLayerMemory, LatentAttentionKeepsItsLatentsAndWholeHeads) {
  EXPECT_EQ(on_first_stage({"model.family=deepseek-moe", "model.dense_layers=1", "model.experts=2",
                            "model.head_dim=16", "model.qk_rope_head_dim=4", "model.v_head_dim=8",
                            "model.q_lora_rank=10", "model.kv_lora_rank=8"}),
            48 + 48 + 48 + 12 + (120 + 12 + 120) + (96 + 12 + 96) + 3 * 384 + 384 + 192 + 24 + 48 +
                48 + (1 + 3) * 384);
}

// Hidden 24 in bf16, 12 in fp8; each operand has 4 for its largest value. In the MLP's backward:
// ids 48, x 24, of attention normed 12 + 4, statistics 12, qkv 72, output 24 in bf16 alone with 4,
// log-sum-exps 24, and y 24; of the MLP normed 12 + 4, statistics 12, the gradient of gate and up
// 3 * 1000 * 2, their product in fp8 3 * 500 + 4, y 24 in flight, dy 24 in bf16 and 12 + 4 in fp8,
// that gradient in fp8 3 * 1000 + 4. The weights in fp8 count as weights.
TEST(PhantomLayerMemory, OperandsInFp8AreKeptInOneByte) {
  EXPECT_EQ(on_first_stage({kGated, "model.ffn=500", "precision.compute=fp8"}),
            48 + 24 + (12 + 4) + 12 + 72 + (24 + 4) + 24 + 24 + (12 + 4) + 12 + 6000 + (1500 + 4) +
                24 + 24 + (12 + 4) + (3000 + 4));
}

}  // namespace
}  // namespace sextant
