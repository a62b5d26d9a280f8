#include "config/show.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "config/keys.h"
#include "config/model_presets.h"
#include "support/built.h"

namespace sextant {
namespace {

ResolvedConfig tiny(std::vector<std::string> overrides = {}) {
  return parse_config("[model]\npreset = \"tiny\"\n", "run.toml", overrides);
}

TEST(Show, EveryKeyHasALineWithItsOrigin) {
  const std::string text = show_text(tiny({"optim.lr=0.5"}));
  EXPECT_EQ(text.rfind("[model]\npreset", 0), 0u) << text;
  const auto has_line = [&](const std::string& key, const std::string& value,
                            const std::string& origin) {
    const size_t begin = text.find("\n" + key + " ");
    if (begin == std::string::npos) return false;
    const std::string line = text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
    return line.find("= " + value + " ") != std::string::npos && line.ends_with("# " + origin);
  };
  EXPECT_TRUE(has_line("layers", "4", "preset tiny"));
  EXPECT_TRUE(has_line("lr", "0.5", "command line"));
  EXPECT_TRUE(has_line("beta1", "0.9", "default"));
  EXPECT_TRUE(has_line("micro", "8", "derived"));
  EXPECT_NE(text.find("# batch: global 8 = micro 8"), std::string::npos);
  const size_t lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_GT(lines, config_keys().size());
}

TEST(Show, OriginsStandInOneColumn) {
  const std::string text = show_text(tiny());
  std::set<size_t> columns;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const size_t column = line.find("  # ");
    if (column != std::string::npos) columns.insert(line.find("# "));
    begin = end + 1;
  }
  EXPECT_EQ(columns.size(), 1u);
}

TEST(Show, JsonHasEveryValueWithItsTypeAndOrigin) {
  const std::string text = show_json(tiny({"run.out=ä\"b"}));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["config"]["model"]["layers"], 4);
  EXPECT_EQ(json["config"]["model"]["tied"], true);
  EXPECT_EQ(json["config"]["run"]["out"], "ä\"b");
  EXPECT_EQ(json["origins"]["run.out"], "command line");
  EXPECT_EQ(json["origins"].size(), config_keys().size());
  EXPECT_EQ(json["notes"].size(), 1u);
}

TEST(Diff, NamesExactlyTheKeysThatDiffer) {
  const Config a = tiny().config, b = tiny({"optim.lr=1", "train.seed=3"}).config;
  const std::vector<Difference> differences = diff_configs(a, b);
  EXPECT_EQ(differences,
            (std::vector<Difference>{{"optim.lr", "3e-04", "1"}, {"train.seed", "0", "3"}}));
  EXPECT_EQ(diff_text(differences), "optim.lr    3e-04 -> 1\ntrain.seed  0     -> 3\n");
  EXPECT_EQ(diff_text(diff_configs(a, a)), "no difference\n");
  const auto json = nlohmann::json::parse(diff_json(differences));
  EXPECT_EQ(json["differences"][0]["key"], "optim.lr");
  EXPECT_EQ(json["differences"].size(), 2u);
}

TEST(KeysList, HasEveryKeyAndPresetInEveryForm) {
  const std::string text = keys_text(), page = keys_markdown();
  const auto json = nlohmann::json::parse(keys_json(keys_about("")));
  EXPECT_EQ(json["keys"].size(), config_keys().size());
  for (const Key& key : config_keys()) {
    EXPECT_NE(text.find(key.name + "  ("), std::string::npos) << key.name;
    EXPECT_NE(page.find("| `" + key.name.substr(key.name.find('.') + 1) + "` |"), std::string::npos)
        << key.name;
  }
  for (const std::string& name : model_preset_names()) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
    EXPECT_NE(page.find("| `" + name + "` |"), std::string::npos) << name;
  }
}

TEST(KeysList, CanBeThoseAboutAWord) {
  const auto names = [](std::string_view word) {
    std::vector<std::string> out;
    for (const Key* key : keys_about(word)) out.push_back(key->name);
    return out;
  };
  EXPECT_EQ(names("learning_rate"), std::vector<std::string>{"optim.lr"});  // another's name
  EXPECT_EQ(names("optim.beta"), (std::vector<std::string>{"optim.beta1", "optim.beta2"}));
  EXPECT_EQ(names("max_hours"), std::vector<std::string>{"train.max_hours"});
  EXPECT_TRUE(names("no such word").empty());
  EXPECT_TRUE(keys_text(keys_about("optim.beta")).starts_with("optim.beta1  ("));
}

TEST(KeysList, TheReferencePageIsCurrent) {
  const std::filesystem::path page = std::filesystem::path(source_dir()) / "docs/config.md";
  DiskStorage disk;
  EXPECT_EQ(read_text(disk, page.string()), keys_markdown())
      << "run: sextant config keys --markdown > docs/config.md";
}

}  // namespace
}  // namespace sextant
