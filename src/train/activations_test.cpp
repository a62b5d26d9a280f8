#include "train/activations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/model_presets.h"

namespace sextant {
namespace {

// Tensor parallel rank 0; elements have 4 bytes.
ActivationTable table_of(const ModelConfig& model, const TensorPart& tensor, int64_t micro = 1,
                         Recompute recompute = Recompute::None) {
  Config config;
  config.memory.recompute = recompute;
  config.model = model;
  config.batch.micro = micro;
  config.parallel.tp = tensor.degree;
  config.parallel.sequence = tensor.sequence;
  config.train.eval_every = 1;  // evaluation keeps no more for backward
  return activation_table(config);
}

const ActivationTerm& term_of(const ActivationTable& table, LayerKind layer,
                              const std::string& tensor) {
  const auto found = std::ranges::find_if(table.terms, [&](const ActivationTerm& term) {
    return term.layer == layer && term.tensor == tensor;
  });
  EXPECT_NE(found, table.terms.end()) << tensor;
  return *found;
}

// s b h = 2048 x 12288 = 25,165,824 and 5as/h = 80.
TEST(Activations, PublishedOnesOfGpt3AreThoseOfTheFormula) {
  const ModelConfig gpt3 = *model_preset("gpt3-175b");
  const int64_t sbh = 25'165'824;
  EXPECT_EQ(table_of(gpt3, {}).published, 114 * sbh);
  EXPECT_EQ(table_of(gpt3, {}).published, 2'868'903'936);
  EXPECT_EQ(table_of(gpt3, {8, 0, false}).published, 23 * sbh);  // 10 + 24/8 + 80/8
  EXPECT_EQ(table_of(gpt3, {8, 0, false}).published, 578'813'952);
  EXPECT_EQ(table_of(gpt3, {8, 0, true}).published, 114 * sbh / 8);
  EXPECT_EQ(table_of(gpt3, {8, 0, true}).published, 358'612'992);
}

// The five rows of the published table and the two without tensor parallelism, for GPT-3 and t = 8.
TEST(Activations, OfEveryWayOfRecomputingAreThosePublished) {
  const ModelConfig gpt3 = *model_preset("gpt3-175b");
  const int64_t sbh = 25'165'824;
  const TensorPart plain{}, whole{8, 0, false}, own{8, 0, true};
  const struct {
    TensorPart tensor;
    Recompute recompute;
    int64_t published;
    const char* formula;
  } rows[] = {{whole, Recompute::None, 23 * sbh, "sbh(10 + 24/8 + 5as/8h)"},
              {own, Recompute::None, 114 * sbh / 8, "sbh(34/8 + 5as/8h)"},
              {own, Recompute::Selective, 34 * sbh / 8, "34sbh/8"},
              {whole, Recompute::Selective, 13 * sbh, "sbh(10 + 24/8)"},
              {whole, Recompute::Full, 2 * sbh, "2sbh"},
              {own, Recompute::Full, 2 * sbh / 8, "2sbh/8"},
              {plain, Recompute::Selective, 34 * sbh, "34sbh"},
              {plain, Recompute::Full, 2 * sbh, "2sbh"}};
  for (const auto& row : rows) {
    const ActivationTable table = table_of(gpt3, row.tensor, 1, row.recompute);
    EXPECT_EQ(table.published, row.published) << row.formula;
    EXPECT_EQ(table.formula, row.formula);
    if (row.recompute != Recompute::Full) continue;
    EXPECT_EQ(table.kept, 2 * row.published) << "in 4 bytes";
  }
  // Published: full keeps 98 % less, selective 70 %.
  EXPECT_NEAR(2.0 / 114, 1 - 0.98, 0.003);
  EXPECT_NEAR(34.0 / 114, 1 - 0.70, 0.003);
}

// Full recomputation repeats all but the last product of a block: of 24bsh^2 + 4bs^2h FLOPs (causal
// attention: half of the latter) 8bsh^2 less, relative to three times that. Selective repeats the
// attention core, and cheap no product.
TEST(Activations, RecomputationCostsTheFlopsOfWhatItRepeats) {
  const ModelConfig gpt3 = *model_preset("gpt3-175b");
  const auto extra = [&](Recompute recompute) {
    return table_of(gpt3, {}, 1, recompute).extra_flops;
  };
  const double sbh2 = 2048.0 * 12288 * 12288, core = 2 * 2048.0 * 2048 * 12288;
  const double layer = 24 * sbh2 + core;
  EXPECT_EQ(extra(Recompute::None), 0);
  EXPECT_NEAR(extra(Recompute::Full), (layer - 8 * sbh2) / (3 * layer), 0.004);
  EXPECT_NEAR(extra(Recompute::Selective), core / (3 * layer), 0.001);
  EXPECT_LT(extra(Recompute::Cheap), 0.0005);
  EXPECT_GT(extra(Recompute::Cheap), 0);
}

// llama in 4 bytes: sb (12h + 4hg + 6f + 4a) of docs becomes sb (8h + 4hg + 4f + 4a), g the share
// of key-value heads, twice these in elements of 4 bytes.
TEST(Activations, TheCheapSetIsNormOutputsAndTheProduct) {
  const ModelConfig llama = *model_preset("tiny-llama");
  const int64_t tokens = llama.seq;
  EXPECT_EQ(table_of(llama, {}).kept - table_of(llama, {}, 1, Recompute::Cheap).kept,
            4 * tokens * (2 * llama.hidden + llama.ffn));
  // GELU's output is kept: it was made of the product before rounding.
  const ModelConfig gpt = *model_preset("tiny");
  EXPECT_EQ(table_of(gpt, {}).kept - table_of(gpt, {}, 1, Recompute::Cheap).kept,
            4 * gpt.seq * 2 * gpt.hidden);
}

// Published share of attention scores for GPT-3 and for a model of 530 billion parameters: 70 and
// 65 of 100.
TEST(Activations, ScoresAreThePublishedShareOfTheWhole) {
  ModelConfig larger = *model_preset("gpt3-175b");
  larger.hidden = 20480;
  larger.heads = larger.kv_heads = 128;
  larger.head_dim = 160;
  larger.ffn = 4 * larger.hidden;
  for (const auto& [model, share] :
       {std::pair{*model_preset("gpt3-175b"), 80.0 / 114}, {larger, 64.0 / 98}}) {
    const ActivationTable table = table_of(model, {});
    int64_t scores = 0;
    for (const ActivationTerm& term : table.terms)
      if (term.formula.ends_with("as²b")) scores += term.published;
    EXPECT_DOUBLE_EQ(static_cast<double>(scores) / static_cast<double>(table.published), share);
  }
  EXPECT_NEAR(80.0 / 114, 0.70, 0.005);
  EXPECT_NEAR(64.0 / 98, 0.65, 0.005);
}

// The published formula in closed form; t must divide what it shards.
int64_t published(const ModelConfig& model, const TensorPart& tensor, int64_t micro) {
  const int64_t sbh = model.seq * micro * model.hidden,
                scores = model.heads * model.seq * model.seq * micro;
  const int64_t inside = 24 * sbh + 5 * scores, outside = 10 * sbh;
  return inside / tensor.degree + (tensor.sequence ? outside / tensor.degree : outside);
}

// Every difference has a cause: the table has no remainder.
TEST(Activations, TermsSumUpToTheFormulaAndToWhatIsKept) {
  for (const char* name : {"tiny", "gpt3-175b", "tiny-llama", "llama-8b", "tiny-qwen3"})
    for (const int degree : {1, 2, 4})
      for (const bool sequence : {false, true}) {
        const ModelConfig model = *model_preset(name);
        const TensorPart tensor{degree, 0, sequence && degree > 1};
        const ActivationTable table = table_of(model, tensor, 3);
        ActivationTable sum;
        for (const ActivationTerm& term : table.terms) {
          EXPECT_EQ(term.published + term.by_structure + term.by_type, term.kept) << term.tensor;
          EXPECT_FALSE(term.why.empty()) << term.tensor;
          EXPECT_EQ(term.why == "as published", term.by_structure == 0) << term.tensor;
          sum.published += term.published;
          sum.kept += term.kept;
        }
        EXPECT_EQ(sum.published, published(model, tensor, 3)) << name;
        EXPECT_EQ(sum.published, table.published);
        EXPECT_EQ(sum.kept, table.kept);
        EXPECT_EQ(table.published + table.by_structure + table.by_type, table.kept);
        EXPECT_EQ(table.element_size, 4);
        EXPECT_EQ(table.by_type, table.kept / 2);
      }
}

// Without scores and masks, 34 becomes 32 plus the log-sum-exp; the norms' statistics are added.
TEST(Activations, AGpt2LayerKeepsTheFormulaWithoutScoresAndMasks) {
  const ModelConfig gpt3 = *model_preset("gpt3-175b");
  const int64_t sbh = gpt3.seq * gpt3.hidden;
  const int64_t lse = 2 * gpt3.seq * gpt3.heads, statistics = 2 * 2 * 2 * gpt3.seq;
  const auto in_two_bytes = [&](const TensorPart& tensor) {
    return table_of(gpt3, tensor).kept / 2;
  };
  EXPECT_EQ(in_two_bytes({}), 32 * sbh + lse + statistics);
  EXPECT_EQ(in_two_bytes({8, 0, false}), (8 + 24 / 8) * sbh + lse / 8 + statistics);
  EXPECT_EQ(in_two_bytes({8, 0, true}), 32 * sbh / 8 + lse / 8 + statistics / 8);
}

TEST(Activations, AreNamedByTheirLayout) {
  const ModelConfig gpt3 = *model_preset("gpt3-175b");
  const TensorPart plain{}, whole{4, 0, false}, own{4, 0, true};
  EXPECT_EQ(activation_layout(table_of(gpt3, plain)), "plain");
  EXPECT_EQ(activation_layout(table_of(gpt3, whole)), "tp4 without sequence");
  EXPECT_EQ(activation_layout(table_of(gpt3, own)), "tp4 with sequence");
  EXPECT_EQ(activation_layout(table_of(gpt3, own, 1, Recompute::Cheap)),
            "tp4 with sequence, cheap");
  EXPECT_EQ(table_of(gpt3, plain).formula, "sbh(34 + 5as/h)");
  EXPECT_EQ(table_of(gpt3, whole).formula, "sbh(10 + 24/4 + 5as/4h)");
  EXPECT_EQ(table_of(gpt3, own).formula, "sbh(34/4 + 5as/4h)");
  const auto input = [&](const TensorPart& tensor) {
    return term_of(table_of(gpt3, tensor), LayerKind::Mlp, "normed input").formula;
  };
  EXPECT_EQ(input(whole), "2sbh");
  EXPECT_EQ(input(own), "2sbh/4");
}

TEST(Activations, SayWhatAnotherFamilyHasInsteadOfTheFormula) {
  EXPECT_TRUE(formula_notes(*model_preset("gpt3-175b")).empty());
  EXPECT_EQ(formula_notes(*model_preset("llama-8b")).size(), 1u);
  ModelConfig narrow = *model_preset("tiny");
  narrow.ffn = 100;
  EXPECT_EQ(formula_notes(narrow).front(), "the formula has ffn = 4h = 256, the model 100");

  const ActivationTable llama = table_of(*model_preset("tiny-llama"), {4, 0, true});
  EXPECT_EQ(term_of(llama, LayerKind::Attention, "queries, keys, values").why,
            "4 key-value heads for 8 queries");
  EXPECT_EQ(term_of(llama, LayerKind::Mlp, "gate and up").why, "as published");  // 2 x 128
  EXPECT_EQ(term_of(llama, LayerKind::Mlp, "product of gate and up").why, "ffn: 128 wide, not 256");
  ModelConfig fewer = *model_preset("tiny-llama");
  fewer.kv_heads = 2;
  EXPECT_EQ(
      term_of(table_of(fewer, {4, 0, true}), LayerKind::Attention, "queries, keys, values").why,
      "a copy of one of 2 key-value heads on each rank");

  const ActivationTable qwen3 = table_of(*model_preset("tiny-qwen3"), {});
  EXPECT_EQ(term_of(qwen3, LayerKind::Attention, "queries, keys, values").why,
            "4 key-value heads for 8 queries; queries: 128 wide, not 64");
  const ActivationTerm& raw = term_of(qwen3, LayerKind::Attention, "the same before head norm");
  EXPECT_EQ(raw.published, 0);
  EXPECT_EQ(raw.kept, 64 * (8 + 2 * 4) * 16 * 4);
}

// Two tokens of width 4, two heads, ffn 8, in 4 bytes: counted by hand.
TEST(Activations, OfASmallLayerAreThese) {
  ModelConfig model = *model_preset("tiny");
  model.hidden = 4;
  model.heads = model.kv_heads = 2;
  model.head_dim = 2;
  model.ffn = 8;
  model.seq = 2;
  const ActivationTable tables[] = {table_of(model, {}), table_of(model, {2, 0, false})};
  const std::string text = activations_text(tables);
  for (const char* line : {
           "a layer keeps                       published  bytes  kept  of the first  more "
           "FLOPs\n"
           "plain                         sbh(34 + 5as/h)    312   432          100%\n"
           "tp2 without sequence  sbh(10 + 24/2 + 5as/2h)    196   296           69%\n"
           "\ntensor by tensor: published + structure + type = kept;",
           "attention  input                              2sbh         16          0   +16    32  "
           "as "
           "published\n",
           "mlp        before the activation              8sbh         64        -32   +32    64  "
           "ffn: 8 wide, not 16\n",
           "  2as²b/2          8         -8     0     0  attention goes by tiles",
           "\nsum                                sbh(34 + 5as/h)        312        -96  +216   "
           "432\n",
       })
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

}  // namespace
}  // namespace sextant
