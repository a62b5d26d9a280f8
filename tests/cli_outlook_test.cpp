// What users meet when they ask for a pipeline: the table before a run, the layout's name, one line
// for what cannot be.
#include "support/cli.h"

namespace sextant {
namespace {

class CliOutlook : public CliTest {
 protected:
  // Four layers.
  static Arguments dry_run(const Arguments& more) {
    return Arguments{"train", "--model.preset=tiny", "--run.peak_flops=1e9", "--dry-run"} + more;
  }
  void expect_in(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
};

TEST_F(CliOutlook, APipelineIsShownBeforeARun) {
  expect_in(run(dry_run({"--parallel.pp=2", "--parallel.schedule=zb-v"})).err,
            {"pipeline   zb-v: 2 ranks, 4 stages, 4 micro-batches; expected bubble ",
             "embedding, layer 0; layer 3, head", "layer 1; layer 2", ": pp2 zb-v over threads",
             "batch: global 8 = micro 2 × accumulation 4"});
}

TEST_F(CliOutlook, APipelineIsInTheDocumentOfADryRun) {
  const nlohmann::json shown = json(dry_run({"--parallel.pp=4", "--parallel.dp=2"}));
  ASSERT_EQ(shown["memory"].size(), 8u);
  const nlohmann::json& pipeline = shown["pipeline"];
  EXPECT_EQ(pipeline["schedule"], "1f1b");
  EXPECT_EQ(pipeline["micros"], 8);
  ASSERT_EQ(pipeline["stages"].size(), 4u);
  EXPECT_EQ(pipeline["stages"][0]["layers"], "embedding, layer 0");
  EXPECT_EQ(pipeline["stages"][3]["layers"], "layer 3, head");
  EXPECT_EQ(pipeline["stages"][3]["rank"], 3);
  EXPECT_GT(pipeline["stages"][3]["cost"], pipeline["stages"][1]["cost"]);
  EXPECT_GT(pipeline["bubble_fraction"], 3.0 / 11 - 0.01);
  EXPECT_FALSE(json(dry_run({})).contains("pipeline"));
}

// Four hundred layers make embedding and head disappear: stages are equal.
TEST_F(CliOutlook, AMillionRanksAreNotListedOneByOne) {
  const Arguments ranks = {"--parallel.dp=4096", "--parallel.shard=32"};
  const Ran ran = run(dry_run(ranks + Arguments{"--json"}));
  EXPECT_EQ(ran.code, 2);
  expect_in(ran.err, {"--json lists every rank, and 131072 are more than 65536"});
  EXPECT_EQ(run(dry_run(ranks)).err.find("--json"), std::string::npos);
}

TEST_F(CliOutlook, ThatBubbleIsExpectedWhichSimulateTells) {
  const Arguments equal = {"--model.layers=400", "--parallel.pp=4", "--batch.global=8",
                           "--run.memory_limit=1TiB"};
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const nlohmann::json expected =
        json(dry_run(equal + Arguments{std::string("--parallel.schedule=") + schedule}));
    const nlohmann::json simulated =
        json({"simulate", "--schedule", schedule, "--stages", "4", "--micros", "8"});
    EXPECT_NEAR(expected["pipeline"]["bubble_fraction"].get<double>(),
                simulated["bubble_fraction"].get<double>(), 5e-3)
        << schedule;
  }
}

TEST_F(CliOutlook, OwnersAreThoseOfEachRanksStages) {
  const Arguments layout = {"--model.preset=tiny", "--parallel.pp=2", "--parallel.shard=2"};
  expect_in(run(Arguments{"config", "show", "--mesh"} + layout).out,
            {"mesh: pp2 x shard2 = 4 ranks", "pp 1 │ 2 │ 3 │", "1f1b: 2 ranks, 2 stages",
             "pipeline rank 0: stage 0 (embedding, layers 0-1); pipeline rank 1 has the duplicate",
             "pipeline rank 1: stage 1 (layers 2-3, head)", "layers.2 … layers.3, each"});
  const nlohmann::json shown = json(Arguments{"config", "show", "--mesh"} + layout);
  const nlohmann::json& owners = shown["owners"];
  std::vector<std::string> names;
  for (const nlohmann::json& group : owners["groups"])
    names.push_back(group["name"].get<std::string>() + "@" +
                    std::to_string(group["pipeline_rank"].get<int>()));
  EXPECT_EQ(names, (std::vector<std::string>{"embedding@0", "layers.0@0", "layers.1@0",
                                             "embedding@1", "layers.2@1", "layers.3@1"}));
  EXPECT_EQ(owners["groups"][0]["duplicate"], true);
  EXPECT_EQ(owners["groups"][1]["duplicate"], false);
  ASSERT_EQ(owners["shards"].size(), 4u);
  const nlohmann::json memory = json(Arguments{"train", "--dry-run"} + layout)["memory"];
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(owners["shards"][rank]["pipeline_rank"], rank / 2);
    EXPECT_EQ(owners["shards"][rank]["peak"], memory[rank]["peak"]) << rank;
  }
  EXPECT_EQ(shown["pipeline"]["stages"].size(), 2u);
}

TEST_F(CliOutlook, OneChunkIsNotedAsThePlainSchedule) {
  const Ran ran = run(dry_run({"--parallel.pp=2", "--parallel.schedule=interleaved"}));
  EXPECT_EQ(ran.code, 0);
  expect_in(ran.err, {"interleaved with one stage a rank waits as 1f1b does and holds more"});
  // And so it is.
  const auto simulated = [&](const char* schedule) {
    return json({"simulate", "--schedule", schedule, "--stages", "4", "--micros", "8"});
  };
  EXPECT_EQ(simulated("interleaved-zb")["order"], simulated("zb-h1")["order"]);
  EXPECT_EQ(simulated("looped-bfs")["order"], simulated("gpipe")["order"]);
  const nlohmann::json looped = simulated("interleaved"), plain = simulated("1f1b");
  EXPECT_EQ(looped["bubble_fraction"], plain["bubble_fraction"]);
  EXPECT_GT(looped["peak"][0], plain["peak"][0]);
}

TEST_F(CliOutlook, WhatCannotBeIsRefusedInOneLineWithWhatCan) {
  const std::vector<std::pair<Arguments, std::vector<std::string>>> cases = {
      {{"--parallel.schedule=1f1c"}, {"did you mean '1f1b'?"}},
      {{"--parallel.schedule=quark"}, {"gpipe, 1f1b, interleaved"}},
      {{"--parallel.schedule=1f1b", "--parallel.chunks=2"},
       {"interleaved and looped-bfs take any"}},
      {{"--parallel.split=evn"}, {"even, balanced, or a list such as 3,2,2,1"}},
      {{"--parallel.split=3,2"}, {"has 5 layers; model.layers is 4"}},
      {{"--parallel.split=2,1,1"}, {"lists 3 stages", "is 2"}},
      {{"--parallel.pp=3"},
       {"model.layers = 4 do not divide into 3 stages", "take 1, 2, 4 stages",
        "parallel.split = balanced, which is "}},
      {{"--parallel.pp=4", "--parallel.schedule=zb-v"},
       {"do not divide into 8 stages", "at most 6 stages"}},
      {{"--parallel.pp=3", "--parallel.split=2,0,2"}, {"stage 1 has no layer"}},
      {{"--parallel.schedule=dualpipe", "--batch.accumulation=5"}, {"needs both even"}},
      {{"--parallel.schedule=dualpipe-v", "--batch.accumulation=2"},
       {"at least twice as many micros as ranks, 4"}},
      {{"--parallel.schedule=interleaved", "--parallel.chunks=2", "--batch.accumulation=1"},
       {"at least as many micros as ranks"}}};
  refused(dry_run({"--parallel.pp=2", "--parallel.schedule=none.csv"}), 4,
          {"cannot read none.csv"});
  for (const auto& [arguments, parts] : cases) {
    const bool has_pp = arguments[0].starts_with("--parallel.pp");
    refused(dry_run(has_pp ? arguments : Arguments{"--parallel.pp=2"} + arguments), 2, parts);
  }
}

TEST_F(CliOutlook, TheLayoutIsNamedInAReportOfVerify) {
  const nlohmann::json report =
      json({"verify", "--model.preset=tiny", "--parallel.pp=2", "--parallel.shard=2",
            "--parallel.zero=2", "--parallel.schedule=zb-h1", "--batch.micro=1",
            "--batch.accumulation=4", "--steps", "1"});
  EXPECT_EQ(report["layout"], "pp2 zb-h1 x shard2 zero 2, accumulation 4");
  EXPECT_EQ(report["against"], "1 rank, accumulation 8");
}

}  // namespace
}  // namespace sextant
