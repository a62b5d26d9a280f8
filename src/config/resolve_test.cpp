#include "config/resolve.h"

#include <gtest/gtest.h>

#include "config/model_presets.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using Overrides = std::vector<std::string>;

ResolvedConfig resolved(const Overrides& overrides, const LoadOptions& options = {}) {
  return parse_config("", "run.toml", overrides, options);
}

Overrides tiny_and(Overrides more) {
  more.insert(more.begin(), "model.preset=tiny");
  return more;
}

bool has_note(const ResolvedConfig& resolved, const std::string& text) {
  for (const std::string& note : resolved.notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}

TEST(Resolve, EveryPresetIsAWholeConfigAlone) {
  for (const std::string& name : model_preset_names())
    EXPECT_EQ(resolved({"model.preset=" + name}).config.model, *model_preset(name)) << name;
}

TEST(Resolve, SizesAloneGetTheirDerivedOnes) {
  const ResolvedConfig gpt2 =
      resolved({"model.layers=2", "model.hidden=48", "model.heads=4", "model.seq=16"});
  EXPECT_EQ(gpt2.config.model.kv_heads, 4);
  EXPECT_EQ(gpt2.config.model.head_dim, 12);
  EXPECT_EQ(gpt2.config.model.ffn, 192);
  EXPECT_EQ(gpt2.config.model.vocab, 256);
  EXPECT_EQ(gpt2.origins.at("model.ffn"), "derived");
  const ResolvedConfig llama = resolved({"model.family=llama", "model.layers=2", "model.hidden=192",
                                         "model.heads=4", "model.seq=16", "model.vocab=300"});
  EXPECT_EQ(llama.config.model.ffn, 512);
  EXPECT_EQ(llama.origins.at("model.vocab"), "command line");
}

TEST(Resolve, AReplacedSizeOfAPresetIsNotedAndItsDependentsFollow) {
  const ResolvedConfig r = resolved(tiny_and({"model.hidden=96", "model.heads=6"}));
  EXPECT_EQ(r.config.model.head_dim, 16);
  EXPECT_EQ(r.config.model.kv_heads, 6);
  EXPECT_EQ(r.config.model.ffn, 384);
  EXPECT_TRUE(has_note(r, "model.hidden = 96 (command line) replaces 64 of preset tiny"));
  EXPECT_FALSE(has_note(resolved(tiny_and({"model.hidden=64"})), "replaces"));
  // A width of its own is kept: qwen3 heads are wider than hidden / heads.
  EXPECT_EQ(resolved({"model.preset=tiny-qwen3", "model.hidden=128"}).config.model.head_dim, 16);
}

TEST(Resolve, DropoutIsOfATrainingAndNotOfAPreset) {
  const ResolvedConfig r = resolved(tiny_and({"model.dropout=0.1"}));
  EXPECT_EQ(r.config.model.dropout, 0.1);
  EXPECT_FALSE(has_note(r, "model.dropout"));
  EXPECT_EQ(resolved(tiny_and({})).origins.at("model.dropout"), "default");
  for (const char* bad : {"-0.1", "1", "1.5", "nan", "much"})
    EXPECT_ERROR(resolved(tiny_and({std::string("model.dropout=") + bad})), Config,
                 "takes a number from 0 to below 1");
  // An index of a token in the batch has 31 bits.
  const std::vector<std::string> large = {"model.dropout=0.1", "model.seq=1048576",
                                          "batch.micro=1"};
  EXPECT_EQ(
      resolved(tiny_and({large[0], large[1], large[2], "batch.global=2046"})).config.batch.global,
      2046);
  EXPECT_ERROR(resolved(tiny_and({large[0], large[1], large[2], "batch.global=2047"})), Config,
               "at most 2147483647 tokens");
}

TEST(Resolve, HeadsThatDoNotFitAreRefused) {
  EXPECT_ERROR(resolved(tiny_and({"model.heads=5"})), Config,
               "model.heads = 5 does not divide model.hidden = 64");
  EXPECT_ERROR(resolved({"model.preset=tiny-llama", "model.kv_heads=3"}), Config,
               "command line: model.kv_heads = 3 does not divide model.heads = 8");
  EXPECT_ERROR(resolved(tiny_and({"model.kv_heads=2"})), Config, "family gpt2 has one for each");
  EXPECT_ERROR(resolved(tiny_and({"model.head_dim=8"})), Config,
               "family gpt2 needs model.hidden = 64");
  EXPECT_ERROR(resolved({"model.preset=tiny-llama", "model.head_dim=7"}), Config, "an even number");
  EXPECT_ERROR(resolved(tiny_and({"model.hidden=36", "model.heads=4"})), Config,
               "model.head_dim = 9: takes an even number up to 256");
  EXPECT_ERROR(resolved({"model.preset=tiny-llama", "model.head_dim=258"}), Config,
               "model.head_dim = 258: takes an integer from 2 to 256");
  EXPECT_ERROR(resolved(tiny_and({"model.hidden=1024", "model.heads=2"})), Config,
               "model.head_dim = 512: takes an even number up to 256");
  EXPECT_ERROR(resolved({"model.preset=llama-1b", "model.rope_low_freq_factor=4"}), Config,
               "must be below model.rope_high_freq_factor");
}

TEST(Resolve, SizesThatNoMachineHoldsAreRefusedBeforeAnyoneMultipliesThem) {
  EXPECT_ERROR(resolved(tiny_and({"model.layers=4096", "model.ffn=2147483647"})), Config,
               "parameters: at most 1e+15");
  EXPECT_ERROR(resolved(tiny_and({"batch.micro=2147483647"})), Config, "tokens at once: at most");
  EXPECT_ERROR(resolved({"model.preset=llama-405b", "batch.micro=2000", "model.seq=1000000",
                         "model.layers=4096"}),
               Config, "at most 1e+1");
  EXPECT_ERROR(resolved({"model.preset=tiny-llama", "model.heads=16777216", "model.kv_heads=1",
                         "model.head_dim=256"}),
               Config, "model.heads x model.head_dim = 4294967296");
}

TEST(Resolve, StepsWithTooManyPassesAreRefused) {
  EXPECT_ERROR(resolved(tiny_and({"batch.micro=1", "batch.accumulation=200000"})), Config,
               "at most 78643 micro-batches of so many layers are possible");
  for (const auto& [pp, most] : {std::pair{"1", "78643"}, {"2", "104857"}})
    EXPECT_NO_THROW(resolved(tiny_and(
        {"batch.micro=1", concat("batch.accumulation=", most), concat("parallel.pp=", pp)})))
        << pp;
}

TEST(Resolve, AnyTwoOfTheBatchGiveTheThird) {
  const auto batch = [](const Overrides& overrides) {
    return resolved(tiny_and(overrides)).config.batch;
  };
  EXPECT_EQ(batch({"batch.global=12", "batch.micro=4"}), (BatchConfig{12, 4, 3}));
  EXPECT_EQ(batch({"batch.global=12", "batch.accumulation=2"}), (BatchConfig{12, 6, 2}));
  EXPECT_EQ(batch({"batch.micro=4", "batch.accumulation=2"}), (BatchConfig{8, 4, 2}));
  EXPECT_EQ(batch({"batch.global=6", "batch.micro=3", "batch.accumulation=2"}),
            (BatchConfig{6, 3, 2}));
  EXPECT_EQ(batch({}), (BatchConfig{8, 8, 1}));
  EXPECT_EQ(batch({"batch.global=20"}), (BatchConfig{20, 5, 4}));
  EXPECT_EQ(batch({"batch.global=13"}), (BatchConfig{13, 1, 13}));
  EXPECT_EQ(batch({"batch.micro=3"}), (BatchConfig{3, 3, 1}));
  EXPECT_EQ(batch({"batch.accumulation=3"}), (BatchConfig{24, 8, 3}));
  EXPECT_TRUE(has_note(resolved(tiny_and({"batch.global=8", "batch.micro=4"})),
                       "batch: global 8 = micro 4 × accumulation 2 × data ranks 1"));
}

TEST(Resolve, TokensAtOnceAreBounded) {
  const Overrides most = {"batch.global=2", "batch.micro=2", "model.seq=1048576"};
  EXPECT_EQ(resolved(tiny_and(most)).config.batch.micro, 2);
  EXPECT_ERROR(resolved(tiny_and({"batch.global=2", "batch.micro=2", "model.seq=1048577"})), Config,
               "batch.micro = 2 x model.seq = 1048577 is 2097154 tokens at once on a rank");
  EXPECT_EQ(
      resolved(tiny_and({"batch.global=2", "batch.micro=2", "model.seq=2097152", "parallel.cp=2"}))
          .config.parallel.cp,
      2);
  EXPECT_ERROR(resolved(tiny_and({"model.family=llama", "model.hidden=524292", "model.heads=4",
                                  "model.head_dim=16"})),
               Config, "at most 524288");
}

TEST(Resolve, DataNeedsItsFileAndBytesNeedTheirVocabulary) {
  EXPECT_ERROR(resolved(tiny_and({"data.kind=tokens"})), Config,
               "data.kind = tokens needs data.path");
  EXPECT_ERROR(parse_config("[model]\nlayers = 1\nhidden = 16\nheads = 2\nseq = 8\n", "run.toml",
                            Overrides{"data.kind=tokens"}),
               Config, "data.kind = tokens needs data.path");
  EXPECT_ERROR(resolved(tiny_and({"data.kind=text"})), Config, "data.kind = text needs data.path");
  EXPECT_ERROR(resolved(tiny_and({"data.path=x"})), Config, "set data.kind to tokens or text");
  EXPECT_ERROR(resolved(tiny_and({"model.vocab=255"})), Config, "plain bytes need 256 or more");
  EXPECT_EQ(resolved(tiny_and({"model.vocab=255", "data.kind=synthetic"})).config.model.vocab, 255);
  EXPECT_EQ(resolved(tiny_and({"data.kind=tokens", "data.path=x"})).config.data.path, "x");
}

TEST(Resolve, AScheduleMustFitTheRun) {
  EXPECT_ERROR(resolved(tiny_and({"optim.warmup=101"})), Config, "is more than train.steps = 100");
  EXPECT_ERROR(resolved(tiny_and({"optim.min_lr=1"})), Config, "is above optim.lr");
  EXPECT_ERROR(resolved(tiny_and({"optim.schedule=wsd", "optim.warmup=90"})), Config,
               "optim.wsd_decay = 0.2 is 20 steps");
  EXPECT_ERROR(resolved(tiny_and({"train.eval_every=5", "data.eval_fraction=0"})), Config,
               "without held-out data");
  EXPECT_ERROR(resolved(tiny_and({"run.out="})), Config, "run.out is empty");
}

TEST(Resolve, ASettingWithoutEffectIsNotedAndSetBack) {
  const ResolvedConfig r = resolved(
      tiny_and({"optim.momentum=0.5", "model.rope_theta=5", "data.kind=builtin", "data.path=x"}));
  EXPECT_TRUE(has_note(r,
                       "optim.momentum = 0.5 (command line) has no effect: it needs "
                       "optim.name = sgd"));
  EXPECT_TRUE(has_note(r, "model.rope_theta = 5"));
  EXPECT_TRUE(has_note(r, "data.path = \"x\""));
  EXPECT_EQ(r.config, resolved(tiny_and({})).config);
  EXPECT_EQ(r.origins.at("optim.momentum"), "default");
}

TEST(Resolve, ARouterWithoutAGradientIsNoted) {
  const auto is_noted = [](const std::string& preset, const std::vector<std::string>& settings) {
    std::vector<std::string> all = {"model.preset=" + preset, "model.experts_per_token=1"};
    all.insert(all.end(), settings.begin(), settings.end());
    return has_note(parse_config("", "test", all), "gets no gradient from the loss");
  };
  EXPECT_TRUE(is_noted("tiny-mixtral", {}));
  EXPECT_TRUE(is_noted("tiny-deepseek", {"model.router_groups=1", "model.groups_per_token=1"}));
  EXPECT_FALSE(is_noted("tiny-mixtral", {"model.experts_per_token=2"}));
  EXPECT_FALSE(is_noted("tiny-mixtral", {"model.router=softmax-before"}));
  EXPECT_FALSE(is_noted("tiny-deepseek", {"model.router_normalize=false"}));
}

TEST(Resolve, AHuggingFaceDirectoryIsReadByTheCaller) {
  LoadOptions options;
  std::string asked;
  options.read_hf = [&](const std::string& directory) {
    asked = directory;
    return *model_preset("tiny-llama");
  };
  const ResolvedConfig r = resolved({"model.hf=some/dir", "model.seq=32"}, options);
  EXPECT_EQ(asked, "some/dir");
  EXPECT_EQ(r.config.model.hf, "some/dir");
  EXPECT_EQ(r.config.model.preset, "");
  EXPECT_EQ(r.config.model.hidden, 64);
  EXPECT_EQ(r.config.model.seq, 32);
  EXPECT_EQ(r.origins.at("model.hidden"), "hf some/dir");
  // What was resolved names every size, so nobody asks again.
  EXPECT_EQ(parse_config(to_toml(r.config), "again.toml", {}).config, r.config);
}

TEST(Resolve, AHuggingFaceDirectoryThatCannotServeIsRefused) {
  EXPECT_ERROR(resolved({"model.hf=d"}), Config, "cannot be read here");
  EXPECT_ERROR(resolved({"model.hf=d", "model.preset=tiny"}), Config, "set one of them");
  LoadOptions options;
  options.read_hf = [](const std::string&) {
    ModelConfig model = *model_preset("tiny-llama");
    model.layers = -1;
    return model;
  };
  EXPECT_ERROR(resolved({"model.hf=d"}, options), Data, "d: model.layers = -1: takes an integer");
  options.read_hf = [](const std::string&) { return ModelConfig{}; };
  EXPECT_ERROR(resolved({"model.hf=d"}, options), Data, "hf d does not say model.layers");
}

}  // namespace
}  // namespace sextant
