// Property: whatever settings load, the TOML of the result loads to the same result.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "config/keys.h"
#include "config/load.h"
#include "config/model_presets.h"

namespace sextant {
namespace {

// Draws in a row from one named stream.
class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed, "round trip") {}
  uint64_t below(uint64_t bound) { return random_.below(bound, next_++); }
  double uniform() { return random_.uniform(next_++); }

 private:
  Random random_;
  uint64_t next_ = 0;
};

std::string random_text(Draws& draws) {
  static const std::vector<std::string> parts = {"a", "B",  "\"", "\\", "#", " ", "=",
                                                 "ü", "漢", "'",  ".",  "/", "[", "\U0001F600"};
  std::string out;
  for (uint64_t i = draws.below(8) + 1; i > 0; --i) out += parts[draws.below(parts.size())];
  return "x" + out + "x";  // an override drops quotes around the whole
}

std::string random_value(const Key& key, Draws& draws) {
  switch (key.type) {
    case ValueType::Bool:
      return draws.below(2) == 0 ? "true" : "false";
    case ValueType::Float:
      return to_text(Value(std::pow(10.0, -6 * draws.uniform())));
    case ValueType::Int:
    case ValueType::Bytes:
      return std::to_string(uint64_t{1} << draws.below(7));
    case ValueType::Text:
    case ValueType::Choice:
      break;
  }
  return key.choices.empty() ? random_text(draws) : key.choices[draws.below(key.choices.size())];
}

std::vector<std::string> random_overrides(Draws& draws) {
  const std::vector<std::string> presets = model_preset_names();
  std::vector<std::string> out = {"model.preset=" + presets[draws.below(presets.size())]};
  for (uint64_t i = draws.below(12); i > 0; --i) {
    const Key& key = config_keys()[draws.below(config_keys().size())];
    if (key.name != "model.hf") out.push_back(key.name + "=" + random_value(key, draws));
  }
  return out;
}

TEST(ToToml, ReadsBackToTheSameConfig) {
  int loaded = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Draws draws(seed);
    ResolvedConfig first;
    try {
      first = parse_config("", "none", random_overrides(draws));
    } catch (const Error&) {
      continue;  // settings that cannot be together are tested elsewhere
    }
    ++loaded;
    const std::string text = to_toml(first.config);
    const ResolvedConfig second = parse_config(text, "again.toml", {});
    ASSERT_EQ(second.config, first.config) << "seed " << seed << "\n" << text;
    ASSERT_EQ(to_toml(second.config), text);
    // Nothing it wrote is without effect or replaces what it wrote itself.
    for (const std::string& note : second.notes) {
      EXPECT_EQ(note.find("no effect"), std::string::npos) << note;
    }
  }
  EXPECT_GT(loaded, 400) << "the generator hardly makes anything that loads";
}

TEST(ToToml, WritesWhatHasAnEffectAndNothingElse) {
  const std::vector<std::string> overrides = {"model.preset=tiny"};
  const std::string text = to_toml(parse_config("", "none", overrides).config);
  EXPECT_EQ(text.rfind("schema = 1\n\n[model]\npreset = \"tiny\"\nfamily = \"gpt2\"\n", 0), 0u)
      << text;
  for (const char* idle : {"hf", "rope_theta", "momentum", "path", "dir"})
    EXPECT_EQ(text.find(std::string("\n") + idle + " ="), std::string::npos) << idle;
}

TEST(ToToml, KeepsEveryBitOfANumber) {
  const std::vector<std::string> overrides = {"model.preset=tiny", "optim.lr=0.1234567890123456789",
                                              "model.norm_eps=1.0000000000000002e-7"};
  const ResolvedConfig first = parse_config("", "none", overrides);
  EXPECT_EQ(first.config.optim.lr, 0.1234567890123456789);
  EXPECT_EQ(parse_config(to_toml(first.config), "again.toml", {}).config, first.config);
}

}  // namespace
}  // namespace sextant
