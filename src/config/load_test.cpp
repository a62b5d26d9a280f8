#include "config/load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/keys.h"
#include "config/model_presets.h"
#include "support/built.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using Overrides = std::vector<std::string>;

ResolvedConfig parse(const std::string& text, const Overrides& overrides = {},
                     const LoadOptions& options = {}) {
  return parse_config(text, "run.toml", overrides, options);
}

const std::string kTiny = "[model]\npreset = \"tiny\"\n";

class LoadFiles : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }
  ResolvedConfig load(const std::string& name, const Overrides& overrides = {}) {
    return load_config(disk_, dir_ / name, overrides);
  }

  TempDir dir_;
  DiskStorage disk_;
};

TEST(Load, ReadsEverySectionAndRemembersWhereValuesCameFrom) {
  const ResolvedConfig r = parse(
      "schema = 1\n[model]\npreset = \"tiny\"\nseq = 32\n"
      "[optim]\nlr = 1\nschedule = \"linear\"\n[run]\nout = \"o\"\n"
      "memory_limit = \"2GiB\"\ntensorboard = false\n",
      {"train.steps=7"});
  EXPECT_EQ(r.config.model.layers, 4);
  EXPECT_EQ(r.config.model.seq, 32);
  EXPECT_EQ(r.config.optim.lr, 1.0);
  EXPECT_EQ(r.config.optim.schedule, LrSchedule::Linear);
  EXPECT_EQ(r.config.run.memory_limit, int64_t{2} << 30);
  EXPECT_FALSE(r.config.run.tensorboard);
  EXPECT_EQ(r.config.train.steps, 7);
  EXPECT_EQ(r.origins.at("model.layers"), "preset tiny");
  EXPECT_EQ(r.origins.at("model.seq"), "run.toml:4");
  EXPECT_EQ(r.origins.at("optim.lr"), "run.toml:6");
  EXPECT_EQ(r.origins.at("train.steps"), "command line");
  EXPECT_EQ(r.origins.at("optim.beta1"), "default");
  EXPECT_EQ(r.origins.at("batch.global"), "derived");
  EXPECT_EQ(r.origins.size(), config_keys().size());
}

TEST(Load, OverridesNeedNoQuotesAndTheLastOneWins) {
  const ResolvedConfig r =
      parse(kTiny, {"run.out=my run", "optim.name=sgd", "optim.lr=1e-2", "optim.lr=2e-2",
                    "optim.momentum=0.5", "data.tokenizer=\"bytes\"", "model.tied=false"});
  EXPECT_EQ(r.config.run.out, "my run");
  EXPECT_EQ(r.config.optim.name, OptimizerKind::Sgd);
  EXPECT_EQ(r.config.optim.lr, 2e-2);
  EXPECT_EQ(r.config.optim.momentum, 0.5);
  EXPECT_EQ(r.config.data.tokenizer, "bytes");
  EXPECT_FALSE(r.config.model.tied);
}

TEST(Load, MoreOverridesGiveWhatTheyWouldHaveGivenAtOnce) {
  const std::string text = kTiny + "[parallel]\nschedule = \"gpipe\"\n[batch]\nglobal = 16\n";
  for (const Overrides& more :
       {Overrides{"parallel.pp=2"}, Overrides{"batch.micro=4"}, Overrides{"model.hidden=128"},
        Overrides{"parallel.shard=2", "train.steps=9"}}) {
    const ResolvedConfig later = with_overrides(parse(text, {"train.steps=7"}), more);
    Overrides all = {"train.steps=7"};
    all.insert(all.end(), more.begin(), more.end());
    const ResolvedConfig at_once = parse(text, all);
    EXPECT_EQ(later.config, at_once.config);
    EXPECT_EQ(later.origins, at_once.origins);
    EXPECT_EQ(later.notes, at_once.notes);
  }
  // A schedule without a pipeline has no effect, but is not forgotten.
  EXPECT_EQ(with_overrides(parse(text), Overrides{"parallel.pp=2"}).config.parallel.schedule,
            "gpipe");
  EXPECT_ERROR(with_overrides(parse(text), Overrides{"train.stps=9"}), Config, "train.steps");
}

TEST(Load, AModelThatWasReadIsNotReadAgain) {
  LoadOptions options;
  int reads = 0;
  options.read_hf = [&](const std::string&) {
    ++reads;
    return *model_preset("tiny");
  };
  const ResolvedConfig read = parse("[model]\nhf = \"dir\"\n", {}, options);
  EXPECT_EQ(with_overrides(read, Overrides{"batch.micro=2"}).config.model, read.config.model);
  EXPECT_EQ(reads, 1);
}

TEST(Load, AnotherSchemaIsRefused) {
  EXPECT_ERROR(parse("schema = 2\n" + kTiny), Config,
               "run.toml:1: schema is 2, this build reads 1");
  EXPECT_ERROR(parse("schema = \"1\"\n" + kTiny), Config, "schema is \"1\"");
}

TEST(Load, UnknownNamesGetFileLineAndTheNearestName) {
  EXPECT_ERROR(parse(kTiny + "[optim]\nlearing_rate = 1\nlr = 1\n"), Config,
               "run.toml:4: unknown key optim.learing_rate");
  EXPECT_ERROR(parse(kTiny + "[optim]\nwarm_up = 1\n"), Config, "did you mean 'optim.warmup'?");
  EXPECT_ERROR(parse(kTiny + "[optin]\nlr = 1\n"), Config, "did you mean 'optim.lr'?");
  EXPECT_ERROR(parse(kTiny + "[modle]\n"), Config, "run.toml:3: unknown key modle");
  EXPECT_ERROR(parse("lr = 1\n" + kTiny), Config,
               "run.toml:1: unknown key lr, did you mean 'optim.lr'?");
  EXPECT_ERROR(parse("model = 3\n"), Config, "model is a section");
  EXPECT_ERROR(parse(kTiny + "rope.theta = 3\n"), Config, "unknown key model.rope.theta");
  EXPECT_ERROR(parse("\"model.layers\" = 3\n"), Config, "unknown key \"model.layers\"");
  EXPECT_ERROR(parse(kTiny, {"train.step=3"}), Config,
               "command line: unknown key train.step, did you mean 'train.steps'?");
  EXPECT_ERROR(parse(kTiny, {"train.steps"}), Config, "it takes section.key=value");
}

TEST(Load, WrongTypesAreRefusedInOneLine) {
  EXPECT_ERROR(parse("[model]\nlayers = \"12\"\n"), Config,
               "run.toml:2: model.layers = \"12\": takes an integer from 1 to 4096");
  EXPECT_ERROR(parse("[model]\nlayers = 1.5\n"), Config, "model.layers = 1.5: takes an integer");
  EXPECT_ERROR(parse("[model]\nlayers = 2.0\n"), Config, "takes an integer");
  EXPECT_ERROR(parse("[model]\nlayers = true\n"), Config, "takes an integer");
  EXPECT_ERROR(parse("[model]\nlayers = [1]\n"), Config, "run.toml:2: model.layers is an array");
  EXPECT_ERROR(parse("[model]\nlayers = {}\n"), Config, "model.layers is an empty table");
  EXPECT_ERROR(parse("[model]\nlayers = 2020-01-01\n"), Config, "model.layers is a date or time");
  EXPECT_ERROR(parse("[model]\ntied = 1\n"), Config, "model.tied = 1: takes true or false");
  EXPECT_ERROR(parse("[optim]\nlr = \"fast\"\n"), Config, "takes a number from 0 to 1000");
  EXPECT_ERROR(parse("[run]\nout = 3\n"), Config, "run.out = 3: takes text");
  EXPECT_ERROR(parse("[run]\nout = \"a\\nb\"\n"), Config, "control characters");
  EXPECT_ERROR(parse("[run]\nmemory_limit = \"8 flops\"\n"), Config, "takes bytes, such as");
  EXPECT_ERROR(parse("[run]\nmemory_limit = -1\n"), Config, "takes bytes, such as");
  EXPECT_ERROR(parse("", {"model.layers=1.5"}), Config, "command line: model.layers = \"1.5\"");
  EXPECT_ERROR(parse("", {"model.layers="}), Config, "takes an integer");
  EXPECT_ERROR(parse("", {"run.out=\xff"}), Config, "takes UTF-8");
}

TEST(Load, NumbersMustBeFiniteAndInRange) {
  for (const char* number : {"nan", "inf", "-inf"}) {
    EXPECT_ERROR(parse(std::string("[optim]\nlr = ") + number + "\n"), Config, "takes a number");
    EXPECT_ERROR(parse("", {std::string("optim.lr=") + number}), Config, "takes a number");
  }
  EXPECT_ERROR(parse("[model]\nhidden = 2147483648\n"), Config,
               "model.hidden = 2147483648: takes an integer from 1 to 2147483647");
  EXPECT_ERROR(parse("[model]\nhidden = 0\n"), Config, "takes an integer from 1");
  EXPECT_ERROR(parse("[model]\nhidden = 99999999999999999999\n"), Config, "run.toml:2: ");
  EXPECT_ERROR(parse("", {"model.hidden=99999999999999999999"}), Config, "takes an integer from 1");
  EXPECT_ERROR(parse("[optim]\nbeta1 = 1.0\n"), Config, "takes a number from 0 to below 1");
  EXPECT_ERROR(parse("[optim]\nlr = -1\n"), Config, "takes a number from 0");
  EXPECT_ERROR(parse("[train]\nsteps = 0\n"), Config, "takes an integer from 1");
}

TEST(Load, TextThatIsNotTomlIsRefusedWithItsLine) {
  EXPECT_ERROR(parse("[model]\nlayers = \n"), Config, "run.toml:2: ");
  EXPECT_ERROR(parse("[model]\nlayers = 1\nlayers = 2\n"), Config, "run.toml:3: ");
  EXPECT_ERROR(parse("[model]\n[optim]\n[model]\n"), Config, "run.toml:3: ");
  EXPECT_ERROR(parse("\xff\xfe"), Config, "run.toml:1: ");
  for (const char* header : {"[.model]", "[[[model]]]", "[=", "[[=", "[model.]", "[", "[[", "[]"})
    EXPECT_ERROR(parse(std::string("\n") + header), Config, "run.toml:2: ");
}

TEST(Load, WhatThisBuildCannotDoIsRefusedAndTheLineSaysWhatWorks) {
  EXPECT_ERROR(parse(kTiny, {"parallel.ep=2"}), Config,
               "parallel.ep = 2 with model.family = gpt2, which has no experts: parallel.ep = 1");
  EXPECT_ERROR(parse(kTiny, {"run.device=cuda", "run.transport=mpi"}), Config,
               "run.device = cuda with run.transport = mpi: MPI moves host memory; use nccl");
  EXPECT_ERROR(parse(kTiny, {"run.transport=nccl"}), Config, "use threads or mpi");
  EXPECT_EQ(parse(kTiny, {"run.transport=nccl", "run.device=cuda", "train.reductions=fast"})
                .config.run.transport,
            Transport::Nccl);
  EXPECT_ERROR(parse(kTiny, {"run.device=cuda", "train.reductions=fast"}), Config,
               "train.reductions = fast needs run.transport = nccl");
  EXPECT_ERROR(parse(kTiny, {"precision.compute=fp8", "precision.fp8_recipe=row"}), Config,
               "takes tensor, delayed or block");
  EXPECT_ERROR(parse(kTiny, {"precision.compute=fp8", "precision.fp8_recipe=delayed",
                             "precision.fp8_amax_history_len=0"}),
               Config, "from 1 to 65536");
  EXPECT_ERROR(parse(kTiny, {"run.device=gpu"}), Config, "run.device = \"gpu\": takes cpu or cuda");
  EXPECT_EQ(parse(kTiny, {"run.device=cuda"}).config.run.device, RunDevice::Cuda);
  EXPECT_EQ(parse(kTiny, {"parallel.tp=1", "run.device=cpu"}).config.parallel.tp, 1);
}

TEST(Load, AMissingModelIsRefusedWithWhereTheListOfPresetsIs) {
  EXPECT_ERROR(parse(""), Config,
               "or set model.preset (`sextant config models` lists the presets)");
  EXPECT_ERROR(parse("[model]\nlayers = 2\nhidden = 8\n"), Config,
               "the model is not complete: set model.heads, model.seq");
  EXPECT_ERROR(parse("[model]\npreset = \"gpt2-142m\"\n"), Config, "did you mean 'gpt2-124m'?");
  EXPECT_ERROR(parse("[model]\nlayers = 1.0\n"), Config, "model.layers = 1.0: takes an integer");
  EXPECT_ERROR(parse("[model]\npreset = \"a-model-of-yours\"\n"), Config, "config models");
}

TEST_F(LoadFiles, ExtendsIsRelativeToItsFileAndTheLaterFileWins) {
  write("base/all.toml", "[model]\npreset = \"tiny\"\n[optim]\nlr = 0.1\nwarmup = 3\n");
  write("base/mid.toml", "extends = \"all.toml\"\n[optim]\nlr = 0.2\n");
  write("run.toml", "extends = \"base/mid.toml\"\n[train]\nsteps = 9\n");
  const ResolvedConfig r = load("run.toml", {"train.seed=5"});
  EXPECT_EQ(r.config.optim.lr, 0.2);
  EXPECT_EQ(r.config.optim.warmup, 3);
  EXPECT_EQ(r.config.train.steps, 9);
  EXPECT_EQ(r.config.train.seed, 5u);
  EXPECT_EQ(r.origins.at("optim.lr"), dir_ / "base/mid.toml:3");
}

TEST_F(LoadFiles, ExtendsInACircleIsRefused) {
  write("a.toml", "extends = \"sub/b.toml\"\n");
  write("sub/b.toml", "extends = \"../a.toml\"\n");
  write("self.toml", "extends = \"self.toml\"\n");
  EXPECT_ERROR(load("a.toml"), Config, "which extends it in turn");
  EXPECT_ERROR(load("self.toml"), Config, "which extends it in turn");
}

TEST_F(LoadFiles, WhatExtendsCannotReadIsRefused) {
  write("a.toml", "extends = \"gone.toml\"\n");
  write("b.toml", "extends = 3\n");
  EXPECT_ERROR(load("a.toml"), Config, "gone.toml: no such file");
  EXPECT_ERROR(load("b.toml"), Config, "b.toml:1: extends is 3, it takes a file name");
  EXPECT_ERROR(load("none.toml"), Config, "none.toml: no such file");
  EXPECT_ERROR(load_config(disk_, dir_.path(), {}), Config, "a directory, not a TOML file");
  EXPECT_ERROR(parse("extends = \"a.toml\"\n"), Config, "only a configuration in a file");
  for (int i = 0; i < 20; ++i)
    write("long" + std::to_string(i) + ".toml",
          "extends = \"long" + std::to_string(i + 1) + ".toml\"\n");
  EXPECT_ERROR(load("long0.toml"), Config, "a chain of more than 16 files");
}

TEST_F(LoadFiles, NoFileIsFineWhenOverridesSayEnough) {
  const Overrides overrides = {"model.preset=tiny"};
  EXPECT_EQ(load_config(disk_, "", overrides).config.model.layers, 4);
}

TEST(Load, EveryReadyRunLoads) {
  const std::filesystem::path root = source_dir();
  DiskStorage disk;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "configs")) {
    EXPECT_NO_THROW(load_config(disk, entry.path().string(), {})) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 4);
}

}  // namespace
}  // namespace sextant
