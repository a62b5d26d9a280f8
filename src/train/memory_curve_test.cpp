#include "train/memory_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/parse.h"
#include "support/built.h"
#include "support/same_picture.h"

namespace sextant {
namespace {

using Overrides = std::vector<std::string>;

Config config_of(Overrides overrides) {
  overrides.insert(overrides.begin(), {"model.preset=gpt2-s", "run.threads=1"});
  return parse_config("", "test", overrides).config;
}

const Overrides kPipeline = {"model.layers=8", "parallel.pp=4", "batch.global=16", "batch.micro=2",
                             "run.memory_limit=200MiB"};
const Overrides kRecomputed = {
    "parallel.shard=4", "parallel.zero=3",         "memory.recompute=full", "batch.global=64",
    "batch.micro=8",    "run.memory_limit=180MiB", "precision.compute=bf16"};

size_t count_of(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// A step of a steady state reaches what the whole rehearsal reaches, and ends as it began.
TEST(MemoryCurve, ReachesThePeaksOfTheForecast) {
  for (const Overrides& layout :
       {Overrides{"batch.global=8"}, Overrides{"batch.global=32", "batch.micro=4", "parallel.dp=2"},
        Overrides{"batch.global=8", "batch.micro=2", "parallel.tp=2", "memory.recompute=selective"},
        Overrides{"batch.global=8", "batch.micro=1", "parallel.pp=2", "parallel.schedule=zb-v",
                  "model.layers=4"},
        kPipeline, kRecomputed}) {
    const Config config = config_of(layout);
    const Preflight flight = forecast(config, 0);
    const std::vector<MemoryCurve> curves = memory_curves(config, flight);
    ASSERT_EQ(static_cast<int>(curves.size()), flight.kinds.size());
    std::set<int> ranks;
    for (const MemoryCurve& curve : curves) {
      for (const int rank : curve.ranks) {
        EXPECT_TRUE(ranks.insert(rank).second);
        EXPECT_EQ(flight.memory[static_cast<size_t>(rank)], curve.memory);
      }
      int64_t peak = 0;
      CategoryBytes most{};
      for (const MemoryAt& point : curve.points) {
        peak = std::max(peak, point.total());
        for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], point.bytes[i]);
      }
      EXPECT_EQ(peak, curve.memory.peak) << join(layout, " ");
      EXPECT_EQ(most, curve.memory.categories()) << join(layout, " ");
      EXPECT_EQ(curve.points.front().bytes, curve.points.back().bytes) << join(layout, " ");
      EXPECT_TRUE(std::ranges::is_sorted(curve.points, {}, &MemoryAt::time));
      EXPECT_EQ(curve.points.front().time, 0);
      EXPECT_EQ(curve.points.back().time, 1);
    }
    EXPECT_EQ(static_cast<int>(ranks.size()), world_size(config.parallel));
  }
}

// 1f1b: rank r of four has 4 - r micro-batches in flight before its first backward.
TEST(MemoryCurve, HasThePhasesOfTheSchedule) {
  const Config config = config_of(kPipeline);
  const std::vector<MemoryCurve> curves = memory_curves(config, forecast(config, 0));
  ASSERT_EQ(curves.size(), 4u);
  for (size_t rank = 0; rank < 4; ++rank) {
    std::vector<std::string> order;
    for (const StepPhase& phase : curves[rank].phases)
      if (order.empty() || phase.micro >= 0 || order.back() != phase.pass)
        order.push_back(phase.micro < 0 ? phase.pass : concat(phase.pass, " ", phase.micro));
    for (size_t micro = 0; micro < 4 - rank; ++micro)
      EXPECT_EQ(order[micro], concat("forward ", micro)) << rank;
    EXPECT_EQ(order[4 - rank], "backward 0") << rank;
    EXPECT_EQ(order.size(), 17u) << join(order, " ");
    EXPECT_EQ(order.back(), "update");
    for (const StepPhase& phase : curves[rank].phases) EXPECT_LE(phase.begin, phase.end);
  }
}

TEST(MemorySvg, DrawsAPanelForEachKindAndTheLimitWhereItIsNear) {
  const Config config = config_of(kPipeline);
  const std::vector<MemoryCurve> curves = memory_curves(config, forecast(config, 0));
  const std::string near = memory_svg(curves, config, int64_t{200} << 20);
  EXPECT_EQ(count_of(near, "<circle "), 4u);
  EXPECT_EQ(count_of(near, ": peak of the step "), 4u);
  EXPECT_EQ(count_of(near, "stroke-dasharray"), 5u);  // of each panel, and the legend
  EXPECT_EQ(count_of(near, ">limit 200.0 MiB<"), 1u);
  EXPECT_EQ(count_of(near, ">F7<"), 4u);
  EXPECT_EQ(count_of(near, ">communication<"), 0u) << "no bytes of it";
  const std::string far = memory_svg(curves, config, int64_t{2} << 30);
  EXPECT_EQ(count_of(far, "stroke-dasharray"), 1u);
  EXPECT_EQ(count_of(far, ">limit 2.00 GiB, far above<"), 1u);
  EXPECT_EQ(count_of(memory_svg(curves, config, 0), "limit"), 0u);
}

TEST(MemorySvg, OfManyKindsTheLargestAreDrawn) {
  const Config config = config_of({"model.layers=16", "parallel.pp=16", "batch.global=16"});
  const std::vector<MemoryCurve> curves = memory_curves(config, forecast(config, 0));
  const std::string svg = memory_svg(curves, config, 0);
  EXPECT_EQ(count_of(svg, "<circle "), 12u);
  EXPECT_EQ(count_of(svg, ">rank 0: "), 1u);
  EXPECT_NE(svg.find("12 of 16 kinds of ranks"), std::string::npos);
}

// docs/dry-run.md has the commands that draw them.
TEST(MemorySvg, TheDrawingsInTheDocumentsAreCurrent) {
  const auto expect_drawn = [](const std::string& name, const Overrides& overrides) {
    const Config config = config_of(overrides);
    expect_same_picture(
        source_dir() + "/docs/memory/" + name + ".svg",
        memory_svg(memory_curves(config, forecast(config, 0)), config, config.run.memory_limit));
  };
  expect_drawn("pipeline", kPipeline);
  expect_drawn("recompute", kRecomputed);
}

}  // namespace
}  // namespace sextant
