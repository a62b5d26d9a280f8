// What completion offers; the shells themselves are driven by tests/terminal.
#include <algorithm>

#include "support/cli.h"

namespace sextant {
namespace {

class CliCompletion : public CliTest {
 protected:
  Arguments offered(const std::string& line) {
    return json({"completion", "--line", line})["words"].get<Arguments>();
  }
  static bool has(const Arguments& words, const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  }
};

TEST_F(CliCompletion, OffersCommandsAndTheirSubcommands) {
  EXPECT_EQ(offered("sextant tr"), Arguments{"train"});
  EXPECT_EQ(offered("sextant data to"), Arguments{"tokenize"});
  EXPECT_EQ(offered("build/sextant -q --color never data ins"), Arguments{"inspect"});
  EXPECT_TRUE(has(offered("sextant "), "demo"));
  EXPECT_EQ(offered("sextant"), Arguments{});
}

TEST_F(CliCompletion, OffersOptionsAndSettingsAfterAnyWord) {
  write("run.toml", "");
  EXPECT_TRUE(has(offered("sextant train run.toml --res"), "--resume"));
  EXPECT_TRUE(has(offered("sextant train out/some.thing --from out/x --dry"), "--dry-run"));
  EXPECT_TRUE(has(offered("sextant eval out --sam"), "--samples"));
  EXPECT_EQ(offered("sextant train --opt"), Arguments{"--optim."});
  EXPECT_TRUE(has(offered("sextant train --optim.l"), "--optim.lr="));
  EXPECT_EQ(offered("sextant data tokenize --optim.l"), Arguments{});
}

TEST_F(CliCompletion, OffersValues) {
  EXPECT_EQ(offered("sextant train --parallel.schedule=dualpipe-"),
            Arguments{"--parallel.schedule=dualpipe-v"});
  EXPECT_EQ(offered("sextant train --parallel.schedule zb-h1"), Arguments{"zb-h1"});
  EXPECT_EQ(offered("sextant train --model.tied=t"), Arguments{"--model.tied=true"});
  EXPECT_EQ(offered("sextant train --precision.compute=bf"), Arguments{"--precision.compute=bf16"});
  EXPECT_TRUE(has(offered("sextant train --model.preset=llama-"), "--model.preset=llama-8b"));
  EXPECT_EQ(offered("sextant plan --model gpt3"), Arguments{"gpt3-175b"});
  EXPECT_TRUE(has(offered("sextant plan --cluster 64xH"), "64xH100-80GB-SXM"));
  EXPECT_EQ(offered("sextant simulate --schedule v-m"), Arguments{"v-min"});
  EXPECT_EQ(offered("sextant bench context --kinds ring,ulys"), Arguments{"ring,ulysses"});
  EXPECT_EQ(offered("sextant completion f"), Arguments{"fish"});
  EXPECT_EQ(offered("sextant --color al"), Arguments{"always"});
  EXPECT_EQ(offered("sextant train --batch.global="), Arguments{});
}

TEST_F(CliCompletion, OffersFiles) {
  write("configs/tiny.toml", "");
  write("configs/notes.txt", "");
  write("my file.toml", "");
  EXPECT_EQ(offered("sextant train con"), Arguments{"configs/"});
  EXPECT_EQ(offered("sextant train configs/"), Arguments{"configs/tiny.toml"});
  EXPECT_EQ(offered("sextant train --data.path=configs/n"),
            Arguments{"--data.path=configs/notes.txt"});
  EXPECT_EQ(offered("sextant data tokenize configs/tiny.toml configs/no"),
            Arguments{"configs/notes.txt"});
  EXPECT_EQ(offered("sextant train my\\ f"), Arguments{"my file.toml"});
  EXPECT_EQ(offered("sextant train 'my f"), Arguments{"my file.toml"});
  EXPECT_EQ(offered("sextant train nowhere/"), Arguments{});
}

// What it offers is there: help must know the same words.
TEST_F(CliCompletion, HelpOfEveryCommandMentionsEveryOption) {
  std::vector<Arguments> paths = {{}};
  for (size_t i = 0; i < paths.size(); ++i) {
    const Arguments path = paths[i];
    const Ran help = run(path + Arguments{"--help"});
    const std::string line = "sextant " + join(path, " ") + (path.empty() ? "" : " ");
    EXPECT_EQ(help.code, 0) << line;
    EXPECT_EQ(help.err, "") << line;
    for (const std::string& word : offered(line + "--"))
      EXPECT_TRUE(word.ends_with(".") || help.out.find(word) != std::string::npos)
          << line << "--help lacks " << word;
    for (const std::string& word : offered(line)) {
      if (word.ends_with("/") || help.out.find("\n  " + word) == std::string::npos) continue;
      if (run(path + Arguments{word, "--help"}).code == 0) paths.push_back(path + Arguments{word});
    }
  }
  EXPECT_GT(paths.size(), 25U);
}

}  // namespace
}  // namespace sextant
