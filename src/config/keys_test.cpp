#include "config/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

namespace sextant {
namespace {

// A value other than the default that the key accepts, if it has one.
std::optional<Value> other_value(const Key& key) {
  const Value fallback = key.get(Config{});
  std::vector<Value> candidates = {Value(true), Value(false), Value(int64_t{1}), Value(int64_t{3}),
                                   Value(0.5)};
  if (key.choices.empty()) candidates.emplace_back(std::string("x"));
  for (const std::string& choice : key.choices) candidates.emplace_back(choice);
  for (const Value& candidate : candidates) {
    Config config;
    if (key.set(config, candidate).empty() && key.get(config) != fallback) return candidate;
  }
  return {};
}

TEST(Keys, AreNamedOnceInSectionsAndExplained) {
  std::set<std::string> names;
  for (const Key& key : config_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_EQ(std::count(key.name.begin(), key.name.end(), '.'), 1) << key.name;
    EXPECT_FALSE(key.help.empty() || key.accepts.empty() || key.fallback.empty()) << key.name;
    EXPECT_EQ(find_key(key.name), &key);
  }
  EXPECT_EQ(find_key("model.nothing"), nullptr);
  EXPECT_EQ(key_names().size(), config_keys().size());
}

TEST(Keys, EachWritesItsOwnFieldAndNoOther) {
  const Config defaults;
  for (const Key& key : config_keys()) {
    const std::optional<Value> value = other_value(key);
    if (!value) continue;  // one value works in this build
    Config config;
    EXPECT_EQ(key.set(config, *value), "") << key.name;
    EXPECT_NE(config, defaults) << key.name;
    for (const Key& other : config_keys()) {
      if (other.name == key.name) continue;
      EXPECT_EQ(other.get(config), other.get(defaults)) << key.name << " moved " << other.name;
    }
  }
}

TEST(Keys, ARefusedValueChangesNothing) {
  for (const Key& key : config_keys()) {
    Config config;
    EXPECT_NE(key.set(config, Value(-7.5)), "") << key.name;
    EXPECT_EQ(config, Config{}) << key.name;
  }
}

TEST(Keys, OverrideTextBecomesTheTypeOfTheKey) {
  EXPECT_EQ(parse_value(*find_key("model.layers"), "12"), Value(int64_t{12}));
  EXPECT_EQ(parse_value(*find_key("optim.lr"), "3e-4"), Value(3e-4));
  EXPECT_EQ(parse_value(*find_key("model.tied"), "true"), Value(true));
  EXPECT_EQ(parse_value(*find_key("run.out"), "12"), Value(std::string("12")));
  EXPECT_EQ(parse_value(*find_key("run.memory_limit"), "1KiB"), Value(std::string("1KiB")));
}

TEST(Keys, UnknownNamesPointToTheNearestOrListTheSection) {
  EXPECT_EQ(unknown_key("optim.lrr"), "unknown key optim.lrr, did you mean 'optim.lr'?");
  // Names of other programs.
  EXPECT_EQ(unknown_key("optim.learning_rate"),
            "unknown key optim.learning_rate, did you mean 'optim.lr'?");
  EXPECT_EQ(unknown_key("parallel.fsdp"),
            "unknown key parallel.fsdp, did you mean 'parallel.shard'?");
  EXPECT_EQ(unknown_key("data_parallel_size"),
            "unknown key data_parallel_size, did you mean 'parallel.dp'?");
  EXPECT_EQ(unknown_key("memory.zzzzzzzzzz"),
            "unknown key memory.zzzzzzzzzz, [memory] has logits, recompute, recompute_layers, "
            "offload, offload_dir, experts");
  EXPECT_EQ(unknown_key("zzzzzzzzzzzzzzzzz"), "unknown key zzzzzzzzzzzzzzzzz");
}

TEST(Values, PrintAsTomlOnOneLine) {
  EXPECT_EQ(to_text(Value(true)), "true");
  EXPECT_EQ(to_text(Value(int64_t{-3})), "-3");
  EXPECT_EQ(to_text(Value(0.1)), "0.1");
  EXPECT_EQ(to_text(Value(std::string("a\"b\\c\nd"))), "\"a\\\"b\\\\c\\u000ad\"");
  EXPECT_EQ(to_short_text(Value(std::string(200, 'x'))).size(), 84u);
}

}  // namespace
}  // namespace sextant
