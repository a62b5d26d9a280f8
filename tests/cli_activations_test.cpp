// What `config activations` says about a layer, and that the page about it shows the same.
#include "support/cli.h"

namespace sextant {
namespace {

class CliActivations : public CliTest {
 protected:
  static RunSettings at_sources() {
    RunSettings made;
    made.directory = source_dir();
    return made;
  }
  static std::string source(const std::string& path) { return source_dir() + "/" + path; }
  static std::string page(const std::string& name) {
    std::ifstream file(source("docs/" + name));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
};

TEST_F(CliActivations, HasARowForEveryWayToShareALayer) {
  const nlohmann::json shown =
      json({"config", "activations", source("configs/tensor.toml"), "--tp", "1,2,4,8"});
  const nlohmann::json& rows = shown["rows"];
  ASSERT_EQ(rows.size(), 28u);  // plain once, two each, with four ways of recomputing
  EXPECT_EQ(shown["element_size"], 4);
  EXPECT_EQ(shown["notes"].size(), 1u);  // no gpt2
  for (const nlohmann::json& row : rows) {
    int64_t published = 0, kept = 0;
    for (const nlohmann::json& term : row["terms"]) {
      published += term["published"].get<int64_t>();
      kept += term["kept"].get<int64_t>();
      EXPECT_EQ(term["published"].get<int64_t>() + term["by_structure"].get<int64_t>() +
                    term["by_type"].get<int64_t>(),
                term["kept"].get<int64_t>());
    }
    EXPECT_EQ(row["published"], published) << row["layout"];
    EXPECT_EQ(row["kept"], kept) << row["layout"];
  }
  EXPECT_EQ(rows[0]["layout"], "plain");
  EXPECT_EQ(rows[0]["kept"], 3'448'832);
  EXPECT_EQ(rows[12]["layout"], "tp4 without sequence");
  EXPECT_EQ(rows[12]["kept"], 1'654'784);
  EXPECT_EQ(rows[16]["layout"], "tp4 with sequence");
  EXPECT_EQ(rows[16]["kept"], 862'208);
  EXPECT_EQ(rows[18]["layout"], "tp4 with sequence, selective");
  EXPECT_EQ(rows[19]["recompute"], "full");
  EXPECT_GT(rows[19]["extra_flops"], 0.2);
}

TEST_F(CliActivations, TakesTheDegreeOfTheConfiguration) {
  const nlohmann::json rows =
      json({"config", "activations", source("configs/tensor.toml")})["rows"];
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[8]["tp"], 4);
  EXPECT_EQ(rows[8]["sequence"], true);
  EXPECT_EQ(json({"config", "activations", "--model.preset=tiny"})["rows"].size(), 4u);
}

TEST_F(CliActivations, IsTheSameForLayersThatOverlap) {
  const std::string path = source("configs/tensor.toml");
  EXPECT_EQ(json({"config", "activations", path, "--parallel.tp_overlap=true"})["rows"],
            json({"config", "activations", path})["rows"]);
}

TEST_F(CliActivations, RefusesWhatCannotBe) {
  refused(
      {"config", "activations", "--model.preset=tiny", "--model.seq=1073741824", "--batch.micro=1"},
      2, {"batch.micro = 1 x model.seq = 1073741824", "at most 2097152"});
  refused({"config", "activations", "--model.preset=tiny", "--tp", "3"}, 2,
          {"parallel.tp = 3", "parallel.tp = 2 works"});
  refused({"config", "activations", "--model.preset=tiny", "--tp", "two"}, 2,
          {"--tp 'two'", "such as 2,4,8"});
}

// Commands of the page and what it shows below them, up to the next one.
TEST_F(CliActivations, ThePageShowsWhatTheProgramPrints) {
  const std::vector<std::string> lines = split(page("tensor.md"), '\n');
  const std::string prompt = "$ sextant config activations ";
  int commands = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with(prompt)) continue;
    const std::string line = lines[i].substr(2);  // "sextant ... | tail -3"
    const Ran ran =
        Running({"/bin/sh", "-c", "sextant() { \"" + sextant_program() + "\" \"$@\"; }; " + line},
                at_sources())
            .finish();
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::string shown;
    for (size_t j = i + 1; j < lines.size() && lines[j] != "```" && !lines[j].starts_with("$ ");
         ++j)
      shown += lines[j] + "\n";
    EXPECT_EQ(ran.out, shown) << line;
    ++commands;
  }
  EXPECT_GE(commands, 2);
}

TEST_F(CliActivations, PicturesOfCutsAreDrawnIntoADirectory) {
  for (const char* what : {"gemm", "attention"}) {
    const nlohmann::json files = json({"bench", what, "--pictures", "a/b"})["files"];
    ASSERT_EQ(files.size(), 1u);
    EXPECT_TRUE(read(files[0].get<std::string>()).ends_with("</svg>\n")) << what;
  }
}

}  // namespace
}  // namespace sextant
