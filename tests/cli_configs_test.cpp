// The ready runs of configs/, as their heads say to start them.
#include <algorithm>
#include <filesystem>

#include "support/cli.h"

namespace sextant {
namespace {

class CliConfigs : public CliTest {
 protected:
  static std::vector<std::string> all() {
    std::vector<std::string> paths;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(source_dir()) / "configs"))
      paths.push_back(entry.path().string());
    std::ranges::sort(paths);
    return paths;
  }
  // Those whose file names begin so.
  static std::vector<std::string> named(const std::string& beginning) {
    std::vector<std::string> paths = all();
    std::erase_if(paths, [&](const std::string& path) {
      return !std::filesystem::path(path).filename().string().starts_with(beginning);
    });
    return paths;
  }
};

TEST_F(CliConfigs, EachPassesItsPreFlight) {
  for (const std::string& path : all()) {
    const Ran ran =
        run({"train", path, "--dry-run", "--run.peak_flops=1e9", "--run.memory_limit=1TiB"});
    // A dry run says that data is not there, after its table.
    const bool lacks_data = ran.err.find("data/train.tokens") != std::string::npos;
    EXPECT_EQ(ran.code, lacks_data ? 4 : 0) << path << "\n" << ran.err;
    EXPECT_NE(ran.err.find("memory     rank"), std::string::npos) << path << "\n" << ran.err;
  }
}

TEST_F(CliConfigs, PipelinesTrainAndAreRight) {
  int count = 0;
  for (const std::string& path : named("pipeline-")) {
    ++count;
    const nlohmann::json trained = json({"train", path, "--train.steps=3", "--train.eval_every=3",
                                         "--optim.warmup=0", "--run.out=" + std::to_string(count)});
    EXPECT_EQ(trained["steps"], 3) << path;
    EXPECT_LT(trained["loss_last"], trained["loss_first"]) << path;
    EXPECT_NE(json({"verify", path, "--steps", "1"})["verdict"], "bug") << path;
  }
  EXPECT_GE(count, 2);
}

TEST_F(CliConfigs, LayoutsOfPublishedModelsAreRight) {
  EXPECT_GE(named("case-").size(), 3u);
  for (const std::string& path : named("case-"))
    EXPECT_NE(json({"verify", path, "--steps", "1"})["verdict"], "bug") << path;
}

// As its head says: stopped on one number of nodes, it goes on with another. Both runs take the
// same batches, so their losses differ by rounding only.
TEST_F(CliConfigs, KimiK2GoesOnWithAnotherNumberOfNodes) {
  const std::string path = named("case-kimi").front();
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", path, "--optim.warmup=0"};
    words.insert(words.end(), more.begin(), more.end());
    return json(words)["loss_last"].get<double>();
  };
  const double whole = train({"--train.steps=4", "--run.out=whole"});
  train({"--train.steps=2", "--run.out=parts"});
  const double resumed =
      train({"--train.steps=4", "--run.out=parts", "--resume", "--parallel.shard=2"});
  EXPECT_NEAR(resumed, whole, 1e-5 * whole);
}

TEST_F(CliConfigs, SharedSequencesAreRightInEveryKind) {
  const std::string path = named("context").front();
  for (const char* kind : {"ring", "ulysses", "allgather", "ring+ulysses"})
    EXPECT_NE(json({"verify", path, "--steps", "1",
                    std::string("--parallel.cp_kind=") + kind})["verdict"],
              "bug")
        << kind;
}

}  // namespace
}  // namespace sextant
