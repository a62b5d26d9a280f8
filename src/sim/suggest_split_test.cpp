#include "sim/suggest_split.h"

#include <gtest/gtest.h>

#include "program/stages.h"
#include "support/small_blueprint.h"

namespace sextant {
namespace {

// A block takes 3 in total, embedding and head as given; twice, and once ten times as long.
std::vector<Span> spans_of(const Blueprint& blueprint, double embedding, double head) {
  std::vector<Span> spans;
  for (const LayerSpec& layer : blueprint.layers) {
    const double time = layer.kind == LayerKind::Embedding ? embedding
                        : layer.kind == LayerKind::Head    ? head
                                                           : 1.5;
    for (const double factor : {1.0, 10.0, 1.0}) {
      spans.push_back({"compute", "forward " + layer.name, 0, 0, 7, 7 + factor * time / 3});
      spans.push_back({"compute", "backward " + layer.name, 0, 0, 7, 7 + factor * time * 2 / 3});
    }
  }
  return spans;
}

TEST(SuggestSplit, GivesAStageWithADearHeadFewerBlocks) {
  const Blueprint blueprint = small_blueprint(24);
  const std::vector<Range> even = split_stages(blueprint, 4, "even");
  const std::optional<SplitAdvice> advice =
      suggest_split(spans_of(blueprint, 0.1, 6), blueprint, even);
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->split, "6,6,7,5");
  EXPECT_DOUBLE_EQ(advice->now, 24);
  EXPECT_DOUBLE_EQ(advice->then, 21);
}

TEST(SuggestSplit, SaysNothingWhereLittleIsGained) {
  const Blueprint blueprint = small_blueprint(24);
  EXPECT_FALSE(
      suggest_split(spans_of(blueprint, 0.1, 0.2), blueprint, split_stages(blueprint, 4, "even")));
  EXPECT_FALSE(
      suggest_split(spans_of(blueprint, 0.1, 6), blueprint, split_stages(blueprint, 4, "6,6,7,5")));
}

TEST(SuggestSplit, CountsTheHalvesOfBackwardAndNeedsAllLayers) {
  const Blueprint blueprint = small_blueprint(8);
  std::vector<Span> spans;
  for (const Span& span : spans_of(blueprint, 0.1, 6)) {
    if (span.name.starts_with("forward")) {
      spans.push_back(span);
      continue;
    }
    const std::string layer = span.name.substr(span.name.find(' '));
    const double half = (span.begin + span.end) / 2;
    spans.push_back({"compute", "backward input" + layer, 0, 0, span.begin, half});
    spans.push_back({"compute", "backward weight" + layer, 0, 0, half, span.end});
  }
  const std::vector<Range> even = split_stages(blueprint, 2, "even");
  const std::optional<SplitAdvice> advice = suggest_split(spans, blueprint, even);
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->split, "5,3");
  EXPECT_DOUBLE_EQ(advice->now, 18);
  std::erase_if(spans, [](const Span& span) { return span.name == "forward layers.3.mlp"; });
  EXPECT_FALSE(suggest_split(spans, blueprint, even));
}

}  // namespace
}  // namespace sextant
