#include "train/preflight.h"

#include <gtest/gtest.h>

#include "base/parse.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

ResolvedConfig resolved(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(),
                   {"model.preset=gpt2-s", "run.threads=2", "batch.global=16", "batch.micro=8"});
  return parse_config("", "test", overrides);
}

TEST(Preflight, CountsParametersAndMemoryOfGpt2s) {
  const ResolvedConfig config = resolved();
  const Preflight flight = preflight(config.config, 0);
  // Tied tables of 256 x 384 tokens and positions, six layers, the last norm.
  const int64_t layer = 4 * 384 * 384 + 4 * 384 + 2 * 384 * 1536 + 1536 + 384 + 4 * 384;
  const int64_t tied = 2 * 256 * 384 + 2 * 384, parameters = tied + 6 * layer;
  EXPECT_EQ(flight.blueprint.parameters(), parameters);
  EXPECT_EQ(flight.memory[0].weights, 4 * parameters);
  // The second micro-batch makes the gradient of the tied group apart before it is added.
  EXPECT_EQ(flight.memory[0].gradients, 4 * (parameters + tied));
  EXPECT_EQ(flight.memory[0].optimizer, 8 * parameters);
  EXPECT_EQ(flight.threads, 2);
}

TEST(Preflight, SgdNeedsLessForItsMoments) {
  const int64_t weights = preflight(resolved().config, 0).memory[0].weights;
  EXPECT_EQ(
      preflight(resolved({"optim.name=sgd", "optim.momentum=0.9"}).config, 0).memory[0].optimizer,
      weights);
  EXPECT_EQ(
      preflight(resolved({"optim.name=sgd", "optim.momentum=0"}).config, 0).memory[0].optimizer, 0);
}

TEST(Preflight, ALimitIsKeptToTheByte) {
  const int64_t needed = preflight(resolved().config, 0).memory[0].peak;
  const auto with = [](int64_t limit) {
    return resolved({"run.memory_limit=" + std::to_string(limit)}).config;
  };
  EXPECT_EQ(preflight(with(needed), 0).memory_limit, needed);
  EXPECT_ERROR(preflight(with(needed - 1), 0), Memory, "the run needs " + format_bytes(needed));
}

TEST(Preflight, AFaultThatCouldNeverStrikeIsRefused) {
  const auto with = [](const std::string& inject, const std::string& degree = "parallel.dp=2") {
    preflight(resolved({"fault.inject=" + inject, degree}).config, 0);
  };
  with("drop_bucket:group=6,rank=1,step=1");
  EXPECT_ERROR(with("drop_bucket:group=7"), Config, "the groups are 0 to 6");
  EXPECT_ERROR(with("stall:rank=2"), Config, "the ranks are 0 to 1");
  EXPECT_ERROR(with("scale_shard:step=0"), Config, "steps count from 1");
  EXPECT_ERROR(with("die:group=1"), Config, "take rank=, step= and micro=");
  EXPECT_ERROR(with("skip_gather"), Config, "nothing is gathered");
  with("skip_gather", "parallel.shard=2");
  EXPECT_ERROR(with("drop_bucket", "parallel.dp=1"), Config, "reduces nothing");
}

TEST(Preflight, TheTableSaysWhatWillRun) {
  const ResolvedConfig config = resolved();
  const std::string text = preflight_text(preflight(config.config, 150e9), config);
  for (const char* part :
       {"gpt2 gpt2-s: 6 layers, hidden 384, 6/6 heads of 64, ffn 1536, vocab 256", "per token",
        "step of 4096 tokens", "weights", "gradients", "optimizer", "activations", "workspace",
        "peak", "2 threads", "150 GFLOP/s", "global 16 = micro 8"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

}  // namespace
}  // namespace sextant
