// What `config trace` prints of a rank's step.
#include "support/cli.h"

namespace sextant {
namespace {

class CliTrace : public CliTest {
 protected:
  static std::string zero3() { return source_dir() + "/configs/zero3.toml"; }
};

TEST_F(CliTrace, HasOperandsCostsAndWaitsOfEveryOperation) {
  const nlohmann::json trace = json({"config", "trace", zero3(), "--rank", "2"});
  EXPECT_EQ(trace["rank"], 2);
  ASSERT_EQ(trace["lanes"].size(), 2u);
  EXPECT_EQ(trace["lanes"][1]["name"], "shard");
  EXPECT_EQ(trace["lanes"][1]["kind"], "collective");
  EXPECT_EQ(trace["lanes"][1]["ranks"].size(), 4u);
  int64_t gathered = 0;
  int matmuls = 0;
  uint64_t next = trace["first_op"];
  for (const nlohmann::json& op : trace["ops"]) {
    EXPECT_EQ(op["op"], next++);
    for (const nlohmann::json& wait : op["waits"]) EXPECT_LT(wait, op["op"]);
    if (op["name"] == "all_gather") gathered += op["sent_elements"].get<int64_t>();
    if (op["name"] != "matmul" || op["pass"] != "forward") continue;
    ++matmuls;
    const nlohmann::json &x = op["reads"][0]["shape"], &y = op["writes"][0]["shape"];
    EXPECT_EQ(op["flops"], 2 * x[0].get<int64_t>() * x[1].get<int64_t>() * y[1].get<int64_t>());
    EXPECT_EQ(op["reads"][0]["end"].get<int64_t>() - op["reads"][0]["begin"].get<int64_t>(),
              4 * x[0].get<int64_t>() * x[1].get<int64_t>());
  }
  EXPECT_EQ(matmuls, 8 * 4 + 1);  // of attention and MLP, and the head
  EXPECT_GT(gathered, 0);
  EXPECT_FALSE(trace["memory"].empty());
}

TEST_F(CliTrace, PrintsALineForEachOperation) {
  const nlohmann::json trace = json({"config", "trace", zero3()});
  const Ran ran = run({"config", "trace", zero3()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::vector<std::string> lines = split(ran.out, '\n');
  // A heading, an empty line, a heading and two lanes, and what follows the last line.
  EXPECT_EQ(lines.size(), trace["ops"].size() + 6);
  EXPECT_TRUE(lines[0].starts_with("op    lane")) << lines[0];
}

// The Chrome trace of a dry run has the same operations.
TEST_F(CliTrace, IsWhatADryRunWritesForViewers) {
  const Ran ran = run({"train", zero3(), "--dry-run", "--run.trace=true", "--run.out=traced"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const nlohmann::json trace = nlohmann::json::parse(read("traced/trace.json"));
  std::map<std::string, int> phases;
  int waits = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    ++phases[event["ph"]];
    if (event["ph"] != "X" || event["pid"] != 0) continue;
    waits += static_cast<int>(event["args"].value("waits_for", nlohmann::json::array()).size());
    if (event["name"] == "matmul (layer 1, micro 0, forward)") {
      EXPECT_EQ(event["args"]["reads"].size(), 2u);
      EXPECT_EQ(event["args"]["writes"].size(), 1u);
      EXPECT_GT(event["args"]["flops"], 0);
    }
  }
  EXPECT_GT(waits, 10);
  EXPECT_EQ(phases["s"], waits);  // an arrow for each
  EXPECT_EQ(phases["f"], waits);
}

TEST_F(CliTrace, RefusesARankThatIsNotThereAndAStepThatIsTooLong) {
  refused({"config", "trace", zero3(), "--rank", "4"}, 2, {"--rank 4", "ranks 0 to 3"});
  refused({"config", "trace", zero3(), "--batch.global=80000", "--batch.accumulation=5000"}, 2,
          {"takes more than 32 MiB"});
}

}  // namespace
}  // namespace sextant
