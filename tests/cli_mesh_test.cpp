// What `config` says about ranks: the mesh, its owners, the bytes of training state.
#include "support/cli.h"

namespace sextant {
namespace {

class CliMesh : public CliTest {
 protected:
  const Arguments layout_ = {"--model.preset=tiny", "--parallel.dp=2", "--parallel.shard=3",
                             "--parallel.zero=2"};
};

TEST_F(CliMesh, ShowsRanksGroupsAndOwners) {
  const std::string text = run(Arguments{"config", "show", "--mesh"} + layout_).out;
  for (const char* part : {"mesh: dp2 x shard3 = 6 ranks", "dp 1 │ 3 │ 4 │ 5 │",
                           "dp     3 groups of 2: {0 3} {1 4} {2 5}",
                           "zero 2 divides optimizer, gradients over 3 shards"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(CliMesh, GivesTheSameAsData) {
  const nlohmann::json shown = json(Arguments{"config", "show", "--mesh"} + layout_);
  const nlohmann::json& mesh = shown["mesh"];
  EXPECT_EQ(mesh["axes"]["shard"], 3);
  EXPECT_EQ(mesh["groups"]["shard"], nlohmann::json({{0, 1, 2}, {3, 4, 5}}));
  ASSERT_EQ(mesh["ranks"].size(), 6u);
  EXPECT_EQ(mesh["ranks"][4]["coordinates"]["dp"], 1);
  EXPECT_EQ(mesh["ranks"][4]["coordinates"]["shard"], 1);
  const nlohmann::json& owners = shown["owners"];
  EXPECT_EQ(owners["divides"], nlohmann::json({"optimizer", "gradients"}));
  int64_t owned = 0, elements = 0;
  for (const nlohmann::json& group : owners["groups"]) {
    elements += group["elements"].get<int64_t>();
    for (const nlohmann::json& range : group["ranges"])
      owned += range[1].get<int64_t>() - range[0].get<int64_t>();
  }
  EXPECT_EQ(owned, elements);
  ASSERT_EQ(owners["shards"].size(), 3u);
  EXPECT_EQ(owners["shards"][0]["weights"], 4 * elements);
}

TEST_F(CliMesh, ShowsTheGroupsOfExpertsAndTheirParts) {
  const Arguments layout = {"--model.preset=tiny-mixtral", "--parallel.dp=4", "--parallel.ep=2",
                            "--parallel.etp=2"};
  const nlohmann::json groups =
      json(Arguments{"config", "show", "--mesh"} + layout)["mesh"]["groups"];
  EXPECT_EQ(groups["etp"], nlohmann::json({{0, 1}, {2, 3}}));
  EXPECT_EQ(groups["ep"], nlohmann::json({{0, 2}, {1, 3}}));
  EXPECT_EQ(groups["edp"], nlohmann::json({{0}, {1}, {2}, {3}}));
  const std::string text = run(Arguments{"config", "show", "--mesh"} + layout).out;
  for (const char* part : {"etp    2 groups of 2: {0 1} {2 3}",
                           "elements on each of 2 ranks of ep, of parts on 2 of etp, all updated"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  run(Arguments{"config", "show", "--svg", "mesh.svg"} + layout);
  EXPECT_NE(read("mesh.svg").find("etp: 2 groups of 2"), std::string::npos);
}

// What is shown for a shard is what the pre-flight of its ranks predicts.
TEST_F(CliMesh, AgreesWithThePreFlightTable) {
  const nlohmann::json shards =
      json(Arguments{"config", "show", "--mesh"} + layout_)["owners"]["shards"];
  const nlohmann::json ranks = json(Arguments{"train", "--dry-run"} + layout_)["memory"];
  ASSERT_EQ(ranks.size(), 6u);
  for (size_t rank = 0; rank < 6; ++rank) EXPECT_EQ(ranks[rank]["peak"], shards[rank % 3]["peak"]);
}

TEST_F(CliMesh, DrawsIntoAFileAndMakesItsDirectory) {
  run(Arguments{"config", "show", "--svg", "pictures/mesh.svg"} + layout_);
  const std::string svg = read("pictures/mesh.svg");
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_NE(svg.find("shard: 2 groups of 3"), std::string::npos);
}

TEST_F(CliMesh, CountsTheBytesOfTrainingState) {
  const nlohmann::json states = json({"config", "states"});
  EXPECT_EQ(states["memory"], 80'000'000'000);
  ASSERT_EQ(states["recipes"].size(), 2u);
  const double fp32[] = {16, 4 + 12 / 8.0, 2 + 14 / 8.0, 16 / 8.0};
  const double largest[] = {6.6667e9, 16e9, 24.6154e9, 53.3333e9};  // with bf16 moments
  for (size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(states["recipes"][0]["modes"][stage]["bytes_per_parameter"], fp32[stage]);
    EXPECT_NEAR(states["recipes"][1]["modes"][stage]["largest"].get<double>(), largest[stage], 1e5);
  }
  const nlohmann::json narrow = json({"config", "states", "--moments", "bf16"})["recipes"];
  ASSERT_EQ(narrow.size(), 1u);
  EXPECT_EQ(narrow[0]["parts"][2]["name"], "master weights");
  EXPECT_EQ(narrow[0]["parts"][3]["bytes"], 2);
  EXPECT_EQ(narrow[0]["modes"][1]["bytes_per_parameter"], 5);
  refused({"config", "states", "--ranks", "0"}, 2, {"--ranks 0: takes 1 or more"});
  refused({"config", "states", "--memory", "much"}, 2, {"--memory much", "80GB"});
}

TEST_F(CliMesh, CountsTheBytesOfAModelInEveryRecipe) {
  const nlohmann::json seven =
      json({"config", "states", "--recipe", "fp32", "--parameters", "7B", "--ranks", "3"});
  EXPECT_EQ(seven["parameters"], 7'000'000'000);
  ASSERT_EQ(seven["recipes"].size(), 1u);
  EXPECT_EQ(seven["recipes"][0]["recipe"], "fp32");
  EXPECT_EQ(seven["recipes"][0]["optimizer"], 8);
  EXPECT_EQ(seven["recipes"][0]["modes"][0]["bytes"], 112e9);
  EXPECT_EQ(json({"config", "states", "--recipe", "all"})["recipes"].size(), 5u);
  EXPECT_EQ(json({"config", "states", "--recipe", "all", "--moments", "bf16"})["recipes"].size(),
            2u);
  const std::string text = run({"config", "states", "--recipe", "16", "--parameters", "70B"}).out;
  EXPECT_NE(text.find("sum                  1120 GB      385 GB    262.5 GB      140 GB"),
            std::string::npos)
      << text;
  refused({"config", "states", "--parameters", "many"}, 2, {"--parameters many", "7B"});
  refused({"config", "states", "--recipe", "8", "--moments", "fp32"}, 2,
          {"--recipe 8 has not --moments fp32"});
}

// A dense model of 70B and a sparse one of 1T: FLOPs follow the active parameters, bytes all.
TEST_F(CliMesh, ComparesModelsByActiveAndAllParameters) {
  const nlohmann::json two = json({"config", "models", "llama-70b", "kimi-k2"})["models"];
  ASSERT_EQ(two.size(), 2u);
  const auto of = [&](size_t model, const char* what) { return two[model][what].get<double>(); };
  EXPECT_EQ(two[0]["active_parameters"], two[0]["parameters"]);
  EXPECT_NEAR(of(0, "weight_bytes"), 141e9, 1e9);
  EXPECT_NEAR(of(1, "weight_bytes"), 2.05e12, 0.01e12);
  EXPECT_NEAR(of(1, "state_bytes"), 8 * of(1, "weight_bytes"), 1);
  for (size_t model : {0, 1})
    EXPECT_NEAR(of(model, "flops_per_token") / (6 * of(model, "active_parameters")), 1.1, 0.1);
  EXPECT_LT(of(1, "flops_per_token"), of(0, "flops_per_token"));
  EXPECT_GT(json({"config", "models"})["models"].size(), 20u);
  // With as many experts of a token as to use 50 to 100 billion of a trillion parameters.
  for (const auto& [experts, active] : {std::pair{"16", 54e9}, {"32", 96e9}}) {
    const nlohmann::json wide =
        json({"config", "models", "kimi-k2", "--experts-per-token", experts})["models"][0];
    EXPECT_NEAR(wide["active_parameters"].get<double>(), active, 1e9);
    EXPECT_EQ(wide["parameters"], two[1]["parameters"]);
    EXPECT_EQ(wide["state_bytes"], two[1]["state_bytes"]);
  }
  refused({"config", "models", "llama-70b", "--experts-per-token", "2"}, 2,
          {"llama-70b has 0 experts"});
  refused({"config", "models", "llama-71b"}, 2,
          {"llama-71b: no preset is called so", "did you mean"});
}

TEST_F(CliMesh, RefusesALayoutThatCannotBe) {
  refused({"config", "show", "--mesh", "--model.preset=tiny", "--parallel.shard=2",
           "--parallel.zero=0"},
          2, {"take zero 1, 2 or 3", "parallel.dp = 2"});
}

}  // namespace
}  // namespace sextant
