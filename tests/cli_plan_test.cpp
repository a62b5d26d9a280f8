// What `sextant plan` promises to scripts.
#include "support/cli.h"

namespace sextant {
namespace {

class CliPlan : public CliTest {};

TEST_F(CliPlan, RanksLayoutsAndSaysWhyOthersWereRejected) {
  const nlohmann::json got = json(
      {"plan", "--model", "llama-70b", "--cluster", "64xH100", "--batch", "1024", "--seq", "8192"});
  ASSERT_EQ(got["plans"].size(), 10u);
  double before = 0;
  for (const nlohmann::json& plan : got["plans"]) {
    EXPECT_GE(plan["step_s"], before);
    before = plan["step_s"];
    EXPECT_TRUE(plan["fits"]);
    EXPECT_LT(plan["interval"][0], plan["step_s"]);
    EXPECT_GT(plan["interval"][1], plan["step_s"]);
    EXPECT_GT(plan["mfu"], 0.2);
    EXPECT_LT(plan["mfu"], 0.8);
    EXPECT_GT(plan["tokens_per_s"], 0);
    EXPECT_GT(plan["memory"]["total"], plan["memory"]["weights"]);
    EXPECT_TRUE(plan["layout"].contains("tp"));
  }
  EXPECT_GT(got["evaluated"], 1000);
  EXPECT_GE(got["seconds"], 0);
  ASSERT_FALSE(got["rejected"].empty());
  EXPECT_NE(got["rejected"].dump().find("GiB"), std::string::npos);
}

TEST_F(CliPlan, TheRunItWritesPassesTheDryRun) {
  const char* fixes[] = {"",
                         "tp=2",
                         "pp=2",
                         "pp=2,schedule=interleaved",
                         "pp=2,schedule=zb-h1",
                         "shard=8,zero=3",
                         "shard=4,dp=2,zero=2",
                         "cp=2",
                         "tp=2,pp=2,shard=2,zero=1",
                         "recompute=full",
                         "recompute=selective,tp=4",
                         "cp=2,cp_kind=ulysses",
                         "cp=2,cp_kind=allgather",
                         "tp=2,sequence=false"};
  std::vector<std::string> all(std::begin(fixes), std::end(fixes));
  for (const char* schedule : {"gpipe", "looped-bfs", "zb-h2", "interleaved-zb", "zb-v", "zb-auto",
                               "v-half", "v-min", "dualpipe", "dualpipe-v"})
    all.push_back(std::string("pp=2,schedule=") + schedule);
  for (const std::string& fix : all)
    for (const char* model : {"tiny-llama", "tiny"}) {
      const Ran planned = run({"plan", "--model", model, "--cluster", "8xA100", "--batch", "64",
                               "--fix", fix, "--out", "run.toml"});
      ASSERT_EQ(planned.code, 0) << fix << planned.err;
      const Ran dry = run({"train", "run.toml", "--dry-run"});
      EXPECT_EQ(dry.code, 0) << model << " " << fix << ": " << dry.err;
    }
}

TEST_F(CliPlan, TheFirstOfTheListRunsForModelsWithExperts) {
  for (const char* model : {"tiny-mixtral", "tiny-qwen3-moe", "tiny-deepseek"})
    for (const char* fix :
         {"", "ep=2", "ep=4,tp=2", "ep=2,pp=2,schedule=dualpipe", "ep=2,shard=8,zero=3"}) {
      const nlohmann::json got = json({"plan", "--model", model, "--cluster", "8xA100", "--batch",
                                       "64", "--fix", fix, "--out", "run.toml"});
      EXPECT_EQ(got["written"], got["plans"][0]["layout"]) << model << " " << fix;
      if (*fix != 0) {
        EXPECT_NE(read("run.toml").find("\nep = "), std::string::npos) << model << " " << fix;
      }
      const Ran dry = run({"train", "run.toml", "--dry-run"});
      EXPECT_EQ(dry.code, 0) << model << " " << fix << ": " << dry.err;
    }
}

TEST_F(CliPlan, NamesTheAxisThatExcludesEverything) {
  const auto fixed = [](const char* fix, const char* batch = "64") {
    return Arguments{"plan",    "--model", "llama-8b", "--cluster", "8xH100",
                     "--batch", batch,     "--fix",    fix};
  };
  refused(fixed("tp=3"), 2, {"tp = 3 does not divide 8 GPUs"});
  refused(fixed("tp=16"), 2, {"tp = 16 does not divide 8 GPUs"});
  refused(fixed("tp=4,pp=4"), 2, {"a multiple of 16 GPUs, not 8"});
  refused(fixed("ep=4"), 2, {"ep = 4: the model has no experts"});
  refused(fixed("micro=3"), 2, {"micro = 3: 1, 2, 4, 8, 16 and 32 are searched"});
  refused(fixed("micro=4", "6"), 2, {"micro = 4 does not divide 6 sequences"});
  // Far from fitting, the layout that needs least is named.
  refused({"plan", "--model", "llama-70b", "--cluster", "1xH100", "--batch", "1"}, 3,
          {"recompute full needs ", " GiB of "});
}

TEST_F(CliPlan, WritesThePrecisionThatItPriced) {
  const Arguments asked = {"plan",    "--model", "tiny-llama", "--cluster", "8xH100",
                           "--batch", "64",      "--out",      "run.toml"};
  const auto written = [&](const char* precision) {
    EXPECT_EQ(run(asked + Arguments{"--precision", precision}).code, 0) << precision;
    EXPECT_EQ(run({"train", "run.toml", "--dry-run"}).code, 0) << precision;
    return read("run.toml");
  };
  EXPECT_NE(written("fp8").find("compute = \"fp8\"\nfp8_recipe = \"tensor\""), std::string::npos);
  EXPECT_NE(written("fp16").find("compute = \"fp16\""), std::string::npos);
  EXPECT_NE(written("fp32").find("compute = \"fp32\""), std::string::npos);
  refused(asked + Arguments{"--precision", "mxfp8"}, 2, {"--precision mxfp8", "bf16, fp16, fp32"});
}

TEST_F(CliPlan, RefusesFormatsThatAGpuLacks) {
  const auto asked = [](const char* cluster, const char* precision) {
    return Arguments{"plan",    "--model", "tiny-llama",  "--cluster", cluster,
                     "--batch", "64",      "--precision", precision};
  };
  refused(asked("8xH100", "nvfp4"), 2, {"--precision nvfp4", "bf16, fp16, fp32, fp8, mxfp8"});
  refused(asked("8xA100", "mxfp8"), 2, {"--precision mxfp8", "it has bf16, fp16, fp32"});
  refused(asked("8xV100", "bf16"), 2, {"--precision bf16", "it has fp16, fp32"});
  refused(asked("4xtpu-v5p", "fp32"), 2, {"--precision fp32", "it has bf16"});
  // Without --precision a GPU without bf16 gets fp16.
  const nlohmann::json old = json({"plan", "--model", "tiny-llama", "--cluster", "8xV100",
                                   "--batch", "64", "--out", "run.toml"});
  EXPECT_FALSE(old["plans"].empty());
  EXPECT_NE(read("run.toml").find("compute = \"fp16\""), std::string::npos);
}

TEST_F(CliPlan, SaysWhichModelsDoNotTrainOnItsGpus) {
  const auto warnings = [&](const char* model, const char* precision) {
    return json({"plan", "--model", model, "--cluster", "8xH100", "--batch", "64", "--out",
                 "run.toml", "--precision", precision})["warnings"]
        .dump();
  };
  EXPECT_NE(warnings("tiny-mixtral", "fp8").find("not trained on GPUs"), std::string::npos);
  EXPECT_NE(read("run.toml").find("device = \"cpu\""), std::string::npos);
  EXPECT_EQ(run({"train", "run.toml", "--dry-run"}).code, 0);
  EXPECT_EQ(warnings("tiny-deepseek", "bf16").find("not trained"), std::string::npos);
  EXPECT_NE(read("run.toml").find("device = \"cuda\""), std::string::npos);
  EXPECT_EQ(run({"train", "run.toml", "--dry-run"}).code, 0);
}

// Whole lists are held to the dry run in src/train/plan_dry_run_test.cpp.
TEST_F(CliPlan, TheListHasTheBytesOfTheDryRunAndTheFirstIsWritten) {
  const Arguments asked = {"plan",
                           "--model",
                           "llama-70b",
                           "--cluster",
                           "64xH100",
                           "--batch",
                           "256",
                           "--seq",
                           "8192",
                           "--fix",
                           "tp=4,pp=4,cp=1,micro=1",
                           "--top",
                           "3",
                           "--out",
                           "run.toml"};
  const nlohmann::json got = json(asked);
  ASSERT_EQ(got["plans"].size(), 3u);
  EXPECT_EQ(got["written"], got["plans"][0]["layout"]);
  EXPECT_GE(got["dry_runs"], 3);
  int64_t most = 0;
  const nlohmann::json dry = json({"train", "run.toml", "--dry-run"});
  for (const nlohmann::json& rank : dry["memory"])
    most = std::max(most, rank["reserved"].get<int64_t>());
  EXPECT_NEAR(got["plans"][0]["reserved"].get<double>(), static_cast<double>(most), 1 << 20);
  EXPECT_LT(most, 79.2 * 1024 * 1024 * 1024 - 1.5 * 1024 * 1024 * 1024);
  for (const nlohmann::json& plan : got["plans"]) EXPECT_FALSE(plan["reserved"].is_null());
}

TEST_F(CliPlan, AListOfAFormatThatIsNotTrainedSaysThatItIsPricedOnly) {
  const Arguments asked = {"plan",    "--model", "tiny-llama",  "--cluster", "8xH100",
                           "--batch", "64",      "--precision", "mxfp8"};
  const nlohmann::json got = json(asked);
  EXPECT_NE(got["warnings"].dump().find("priced only, without a dry run"), std::string::npos);
  EXPECT_TRUE(got["plans"][0]["reserved"].is_null());
  EXPECT_NE(run(asked).out.find("~"), std::string::npos);
}

TEST_F(CliPlan, WarnsOutsideTheCalibrationTable) {
  const auto warnings = [&](const Arguments& more) {
    return json(Arguments{"plan", "--model", "llama-8b", "--batch", "64", "--top", "1"} +
                more)["warnings"]
        .dump();
  };
  EXPECT_NE(warnings({"--cluster", "4xtpu-v5p", "--seq", "4096"}).find("not validated"),
            std::string::npos);
  EXPECT_EQ(warnings({"--cluster", "8xH100", "--seq", "4096"}), "[]");
  const std::string wide =
      warnings({"--cluster", "64xH100", "--seq", "524288", "--fix", "cp=16,tp=4,recompute=full"});
  EXPECT_NE(wide.find("524288 tokens a sequence (at most 262144)"), std::string::npos) << wide;
  EXPECT_NE(wide.find("16 ranks of cp (at most 8)"), std::string::npos) << wide;
  const Ran sweep = run({"plan", "--model", "llama-8b", "--cluster", "4xtpu-v5p", "--batch", "64",
                         "--seq", "4096", "--sweep", "gpus=4..8"});
  EXPECT_NE(sweep.out.find("not validated"), std::string::npos) << sweep.out << sweep.err;
}

TEST_F(CliPlan, ImbalanceOfExpertsMakesTheStepLonger) {
  const auto step = [&](const char* imbalance) {
    return json({"plan", "--model", "mixtral-8x7b", "--cluster", "64xH100", "--batch", "512",
                 "--seq", "4096", "--fix", "ep=8,cp=1", "--top", "1", "--imbalance",
                 imbalance})["plans"][0]["step_s"]
        .get<double>();
  };
  EXPECT_GT(step("1.5"), 1.05 * step("1"));
  refused({"plan", "--model", "mixtral-8x7b", "--cluster", "64xH100", "--batch", "512",
           "--imbalance", "0.5"},
          2, {"--imbalance 0.5", "at least 1"});
}

TEST_F(CliPlan, ComparesTheAxes) {
  const nlohmann::json got = json({"plan", "--model", "mixtral-8x7b", "--cluster", "8xH100",
                                   "--batch", "16", "--seq", "4096", "--compare-axes"});
  std::map<std::string, nlohmann::json> rows;
  for (const nlohmann::json& row : got["axes"]) rows[row["axis"]] = row;
  ASSERT_EQ(rows.size(), 9u);
  const auto number = [&](const char* axis, const char* key) {
    return rows.at(axis).at(key).get<double>();
  };
  const double whole = number("data parallel (DDP)", "states");
  EXPECT_NEAR(whole / number("ZeRO-1", "states"), 18 / (6 + 12.0 / 8), 0.01);
  EXPECT_GT(number("ZeRO-1", "states"), number("ZeRO-2", "states"));
  EXPECT_GT(number("ZeRO-3 (FSDP)", "sent"), number("ZeRO-2", "sent"));
  EXPECT_LT(number("pipeline (1F1B)", "sent"), number("tensor and sequence", "sent"));
  EXPECT_EQ(number("tensor and sequence", "least_batch"), 1);
  EXPECT_EQ(number("data parallel (DDP)", "least_batch"), 8);
  EXPECT_LT(number("expert, over DDP", "states"), whole / 2);
  EXPECT_NEAR(number("data parallel (DDP)", "activations"), number("ZeRO-1", "activations"), 1);
  EXPECT_NE(rows.at("tensor").at("refused").get<std::string>().find("sequence = true"),
            std::string::npos);
  refused({"plan", "--model", "llama-8b", "--cluster", "8xH100", "--batch", "16", "--fix", "tp=2",
           "--compare-axes"},
          2, {"--compare-axes", "tp=2"});
}

TEST_F(CliPlan, ExplainsALayoutThatSomebodyChose) {
  write("run.toml",
        "[model]\npreset = \"llama-70b\"\nseq = 8192\n[batch]\nglobal = 128\nmicro = 1\n"
        "[parallel]\nshard = 2\nzero = 1\ntp = 8\npp = 4\n[precision]\ncompute = \"bf16\"\n"
        "[memory]\nrecompute = \"full\"\n");
  const nlohmann::json got = json({"plan", "explain", "run.toml", "--cluster", "64xH100"});
  EXPECT_EQ(got["layout"], "shard 2 · zero 1 · tp 8 · pp 4 · 1f1b · micro 1 · recompute full");
  double sum = 0;
  for (const nlohmann::json& term : got["terms"]) sum += term["seconds"].get<double>();
  EXPECT_NEAR(sum / got["step_s"].get<double>(), 1, 1e-9);
  ASSERT_FALSE(got["better"].empty());
  EXPECT_LT(got["better"][0]["step_s"], got["step_s"]);
  EXPECT_NEAR(got["ridge"].get<double>(), 295, 1);
  for (const nlohmann::json& op : got["operations"])
    EXPECT_EQ(op["bound"], op["intensity"].get<double>() < 295 ? "memory" : "compute") << op;
  const nlohmann::json wires = got["wires"];
  ASSERT_EQ(wires["levels"].size(), 2u);
  EXPECT_EQ(wires["axes"][0]["axis"], "tp");
  EXPECT_GT(wires["zero3"]["equal_tokens"], 0);
  EXPECT_TRUE(got["not_priced"].empty());
  const Arguments ask = {"plan",      "explain", "run.toml",
                         "--cluster", "64xH100", "--optim.post_validation=true"};
  const std::string text = run(ask).out;
  EXPECT_NE(text.find("not priced: optim.post_validation"), std::string::npos) << text;
  EXPECT_NE(text.find("ZeRO-3 loses below"), std::string::npos);
  EXPECT_NE(text.find("NVLink domain"), std::string::npos);
  EXPECT_NE(run({"simulate", "run.toml", "--cluster", "64xH100", "--optim.post_validation=true"})
                .out.find("not priced: optim.post_validation"),
            std::string::npos);
  refused({"plan", "explain", "run.toml", "--cluster", "32xH100"}, 2,
          {"64 ranks", "32 GPUs", "must be equal"});
}

// Slower ones are better where the run's own layout needs more memory than there is.
TEST_F(CliPlan, ExplainOffersWhatFitsToALayoutThatDoesNot) {
  write("run.toml",
        "[model]\npreset = \"llama-70b\"\nseq = 8192\n[batch]\nglobal = 128\nmicro = 2\n"
        "[parallel]\nshard = 64\nzero = 3\n[precision]\ncompute = \"bf16\"\n");
  const nlohmann::json got = json({"plan", "explain", "run.toml", "--cluster", "64xH100"});
  EXPECT_FALSE(got["fits"].get<bool>());
  ASSERT_FALSE(got["better"].empty());
  for (const nlohmann::json& plan : got["better"]) {
    const std::string why = plan["why"];
    double gib = 0, less = 0, activations = 0;
    ASSERT_EQ(std::sscanf(why.c_str(), "it fits: %lf GiB, %lf GiB less, of which activations %lf",
                          &gib, &less, &activations),
              3)
        << why;
    EXPECT_LE(gib, 79.2) << why;
    EXPECT_NEAR(gib + less, got["memory_gib"].get<double>(), 0.11) << why;
    EXPECT_GT(activations, 0.5 * less) << why;
    EXPECT_GT(plan["step_s"], 0.9 * got["step_s"].get<double>());
  }
  EXPECT_NE(run({"plan", "explain", "run.toml", "--cluster", "64xH100"}).out.find(": it fits: "),
            std::string::npos);
}

TEST_F(CliPlan, EvaluateAnswersEveryRow) {
  const nlohmann::json got =
      json({"plan", "evaluate", "--runs", source_dir() + "/docs/planner/runs.csv"});
  EXPECT_EQ(got["rows"].size(), 1040u);
  for (const char* key : {"id", "step_s", "mem_gib", "fits", "assumed"})
    EXPECT_TRUE(got["rows"][0].contains(key)) << key;
  EXPECT_LE(got["summary"]["all"]["mape"], 0.10);
  EXPECT_TRUE(got["summary"]["oom"].contains("fn"));
  EXPECT_TRUE(got["summary"]["regret"].contains("mean"));
}

TEST_F(CliPlan, LargestModelByItsStates) {
  const nlohmann::json got = json({"plan", "--largest", "--cluster", "8xA100"});
  const double billions[] = {6.667, 16, 24.615, 53.333};
  for (size_t zero = 0; zero < 4; ++zero)
    EXPECT_NEAR(got["largest"][zero]["parameters"].get<double>() / 1e9, billions[zero], 0.001);
}

TEST_F(CliPlan, WhatDoesNotFitExitsWithThree) {
  const Ran ran = run({"plan", "--model", "llama-405b", "--cluster", "8xA100", "--batch", "64"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_NE(ran.err.find("no layout of llama-405b works on 8xA100"), std::string::npos) << ran.err;
}

// Bad values for one option at a time; every one must give one line and exit 2.
TEST_F(CliPlan, ElasticListsNodeCountsAndRefusesOthers) {
  const nlohmann::json found =
      json({"plan", "--elastic", "--fix", "pp=16,ep=16", "--cluster", "512xH800"});
  EXPECT_EQ(found["unit_nodes"], 32);
  EXPECT_EQ(found["counts"].size(), 2);
  refused({"plan", "--elastic", "--fix", "pp=16,ep=16", "--cluster", "384xH800"}, 2,
          {"48 nodes", "pp 16 × ep 16"});
  refused({"plan", "--elastic", "--model", "llama-8b", "--cluster", "8xH100"}, 2, {"llama-8b"});
}

TEST_F(CliPlan, SweepsAnAxisAndDrawsIt) {
  const Arguments ask = {"plan",    "--model", "llama-8b", "--cluster", "8xH100",
                         "--batch", "64",      "--seq",    "4096"};
  const nlohmann::json found = json(ask + Arguments{"--sweep", "gpus=8..32", "--svg", "sweep.svg"});
  ASSERT_EQ(found["points"].size(), 3);
  for (const auto& point : found["points"]) EXPECT_GT(point["mfu"], 0);
  EXPECT_TRUE(read("sweep.svg").starts_with("<svg"));
  refused(ask + Arguments{"--sweep", "tp=8"}, 2, {"--sweep tp=8", "gpus="});
  refused(ask + Arguments{"--svg", "a.svg"}, 2, {"--sweep"});
  refused(ask + Arguments{"--sweep", "micro=1,2", "--fix", "micro=1"}, 2, {"--fix micro=1"});
}

TEST_F(CliPlan, BadInputsGiveOneLineErrors) {
  const std::vector<std::string> wrong_words = {
      "",  " ",  "-1",      "0",      "x",       "nan",      "1e9", "inf", "64",
      "/", "..", "H100x64", "0xH100", "-4xH100", "8xNoSuch", "x8",  "8x",  "8xa.toml"};
  int tried = 0;
  const auto refused = [&](Arguments arguments) {
    const Ran ran = run(arguments);
    ++tried;
    EXPECT_EQ(ran.code, 2) << arguments.back() << ": " << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_TRUE(ran.out.empty());
  };
  for (const std::string& word : wrong_words) {
    if (word != "8xa.toml")
      refused({"plan", "--model", "llama-8b", "--batch", "8", "--cluster", word});
    refused({"plan", "--cluster", "8xH100", "--batch", "8", "--model", word});
    refused({"plan", "--cluster", "8xH100", "--model", "llama-8b", "--batch", "8", "--precision",
             word});
    if (word != "64")
      refused({"plan", "--cluster", "8xH100", "--model", "llama-8b", "--batch", word});
    if (!word.empty())
      refused(
          {"plan", "--cluster", "8xH100", "--model", "llama-8b", "--batch", "8", "--fix", word});
    for (const char* axis : {"tp", "pp", "cp", "dp", "shard", "micro", "chunks", "ep"})
      if (word != "64")
        refused({"plan", "--cluster", "8xH100", "--model", "llama-8b", "--batch", "8", "--fix",
                 std::string(axis) + "=" + word});
  }
  EXPECT_GT(tried, 200);
}

}  // namespace
}  // namespace sextant
