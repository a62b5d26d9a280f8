#include "infer/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/tiny_batch.h"
#include "support/workbench.h"

namespace sextant {
namespace {

HostBatch host_batch(int64_t batch, int64_t seq, uint64_t salt) {
  const Random random(salt, "evaluate");
  HostBatch host;
  host.batch = batch;
  host.seq = seq;
  for (int64_t i = 0; i < batch * seq; ++i) {
    const auto element = static_cast<uint64_t>(i);
    host.tokens.push_back(static_cast<int32_t>(random.below(19, element)));
    const bool counts = random.below(4, element, 1) != 0;
    host.targets.push_back(counts ? static_cast<int32_t>(random.below(19, element, 2)) : -1);
    host.positions.push_back(static_cast<int32_t>(i % seq));
    host.starts.push_back(0);
  }
  return host;
}

class Evaluate : public testing::Test {
 protected:
  Evaluate()
      : model_(bench_.stream(), make_blueprint(tiny_config(Family::Llama)),
               {all_of(DType::F32), LogitsPolicy::Chunked, false}) {
    model_.transformer().initialize(bench_.stream(), 5);
  }
  // -log softmax of each target by hand, from the logits.
  double sum_of_losses(const HostBatch& host) {
    const Tensor tensor = model_.executor().forward(host, {.output = HeadOutput::Logits});
    const std::vector<float> logits = bench_.read<float>(tensor);
    const auto width = static_cast<size_t>(model_.blueprint().padded_vocab);
    double total = 0;
    for (size_t i = 0; i < host.targets.size(); ++i) {
      if (host.targets[i] < 0) continue;
      double sum = 0;
      for (size_t token = 0; token < 19; ++token)
        sum += std::exp(static_cast<double>(logits[i * width + token]));
      total += std::log(sum) - logits[i * width + static_cast<size_t>(host.targets[i])];
    }
    return total;
  }

  Workbench bench_;
  SerialModel model_;
};

TEST_F(Evaluate, IsTheMeanOverTheTokensThatCount) {
  const HostBatch large = host_batch(3, 6, 1), small = host_batch(1, 6, 2);
  Evaluator evaluator(model_);
  evaluator.add(large);
  evaluator.add(small);
  const int64_t tokens = valid_tokens(large) + valid_tokens(small);
  ASSERT_LT(tokens, 24);
  EXPECT_EQ(evaluator.result().tokens, tokens);
  const double expected =
      (sum_of_losses(large) + sum_of_losses(small)) / static_cast<double>(tokens);
  EXPECT_NEAR(evaluator.result().loss, expected, 1e-5 * expected);
  EXPECT_DOUBLE_EQ(evaluator.result().perplexity(), std::exp(evaluator.result().loss));
}

TEST_F(Evaluate, OfNothingIsNothing) {
  const Evaluator evaluator(model_);
  EXPECT_EQ(evaluator.result().tokens, 0);
  EXPECT_EQ(evaluator.result().loss, 0);
}

}  // namespace
}  // namespace sextant
