#include "infer/generate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/tiny_batch.h"
#include "support/workbench.h"

namespace sextant {
namespace {

using Tokens = std::vector<int32_t>;

class Generate : public testing::TestWithParam<Family> {
 protected:
  Generate()
      : model_(bench_.stream(), make_blueprint(tiny_config(GetParam())),
               {all_of(DType::F32), LogitsPolicy::Chunked, false}) {
    model_.transformer().initialize(bench_.stream(), 5);
  }
  Tokens make(const Tokens& prompt, const GenerateOptions& options) {
    return generate(model_, prompt, options, [](int32_t) { return true; });
  }
  // The most likely token after `text`, without a cache.
  int32_t next(std::span<const int32_t> text) {
    HostBatch host;
    fill_row(host, text, 0);
    const Tensor all = model_.executor().forward(host, {.output = HeadOutput::Logits});
    const std::vector<float> logits = bench_.read<float>(all);
    const auto last = logits.end() - model_.blueprint().padded_vocab;
    return static_cast<int32_t>(std::max_element(last, last + model_.blueprint().model.vocab) -
                                last);
  }

  Workbench bench_;
  SerialModel model_;
};

GenerateOptions greedy(int64_t tokens) {
  GenerateOptions options;
  options.tokens = tokens;
  options.sampling.temperature = 0;
  return options;
}

TEST_P(Generate, WithTheCacheIsAsWithoutBeyondTheLongestSequence) {
  const size_t seq = 6, half = 3;
  Tokens text = {4, 7}, seen = text, expected;
  for (int i = 0; i < 20; ++i) {
    if (seen.size() > seq) seen.assign(text.end() - half, text.end());
    expected.push_back(next(seen));
    text.push_back(expected.back());
    seen.push_back(expected.back());
  }
  EXPECT_EQ(make({4, 7}, greedy(20)), expected);
}

TEST_P(Generate, APromptThatIsTooLongIsReadFromItsLastHalf) {
  EXPECT_EQ(make({1, 2, 3, 4, 5, 6, 7}, greedy(3)), make({5, 6, 7}, greedy(3)));
  // A text of exactly the maximum sequence length is read whole.
  for (int32_t i = 0; i < 10; ++i) {
    const Tokens prompt = {i, 9, 5 + i, 2, 1, 18 - i};
    EXPECT_EQ(make(prompt, greedy(1)).at(0), next(prompt)) << i;
  }
}

TEST_P(Generate, EndsWhereItIsTold) {
  const Tokens all = make({1}, greedy(10));
  ASSERT_EQ(all.size(), 10u);
  GenerateOptions options = greedy(10);
  options.stop_tokens = {all[0]};
  EXPECT_TRUE(make({1}, options).empty());
  options.stop_tokens = {18, all[0]};  // any of them
  EXPECT_TRUE(make({1}, options).empty());
  int calls = 0;
  const Tokens cut = generate(model_, Tokens{1}, greedy(10), [&](int32_t) { return ++calls < 4; });
  EXPECT_EQ(cut, Tokens(all.begin(), all.begin() + 4));
  EXPECT_TRUE(make({1}, greedy(0)).empty());
}

TEST_P(Generate, IsAFunctionOfTheSeed) {
  GenerateOptions options;
  options.tokens = 30;
  const Tokens once = make({1}, options);
  EXPECT_EQ(make({1}, options), once);
  options.sampling.seed = 1;
  EXPECT_NE(make({1}, options), once);
  for (const int32_t token : once) EXPECT_TRUE(token >= 0 && token < 19);  // never padding
}

TEST_P(Generate, NeedsAPrompt) {
  EXPECT_ERROR(make({}, greedy(1)), Usage, "prompt is empty");
}

TEST_P(Generate, RefusesATokenThatTheModelDoesNotHave) {
  EXPECT_ERROR(make({3, 19}, greedy(1)), Data, "19");
  EXPECT_ERROR(make({-1}, greedy(1)), Data, "-1");
}

INSTANTIATE_TEST_SUITE_P(EveryFamily, Generate,
                         testing::Values(Family::Gpt2, Family::Llama, Family::Mistral,
                                         Family::Qwen2, Family::Qwen3, Family::Qwen3Moe,
                                         Family::DeepseekMoe));

}  // namespace
}  // namespace sextant
