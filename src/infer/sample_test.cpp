#include "infer/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"

namespace sextant {
namespace {

// Probabilities 0.1, 0.4, 0.2, 0.3 of tokens 0 to 3.
const std::vector<float> kLogits = {std::log(1.0f), std::log(4.0f), std::log(2.0f), std::log(3.0f)};

std::vector<int32_t> tokens_of(std::span<const Sampler::Candidate> candidates) {
  std::vector<int32_t> tokens;
  for (const Sampler::Candidate& candidate : candidates) tokens.push_back(candidate.token);
  return tokens;
}

TEST(Sampler, OrdersTokensByProbability) {
  Sampler sampler({});
  const auto from = sampler.candidates(kLogits);
  EXPECT_EQ(tokens_of(from), (std::vector<int32_t>{1, 3, 2, 0}));
  const double expected[] = {0.4, 0.3, 0.2, 0.1};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(from[i].probability, expected[i], 1e-7);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  Sampler half({.temperature = 0.5});  // p^2: 16, 9, 4, 1 of 30
  EXPECT_NEAR(half.candidates(kLogits)[0].probability, 16.0 / 30, 1e-7);
  EXPECT_NEAR(half.candidates(kLogits)[3].probability, 1.0 / 30, 1e-7);
  Sampler flat({.temperature = 1e6});
  EXPECT_NEAR(flat.candidates(kLogits)[3].probability, 0.25, 1e-5);
}

TEST(Sampler, TopKKeepsTheMostLikelyAndSharesOutTheRest) {
  Sampler sampler({.top_k = 2});
  const auto from = sampler.candidates(kLogits);
  EXPECT_EQ(tokens_of(from), (std::vector<int32_t>{1, 3}));
  EXPECT_NEAR(from[0].probability, 4.0 / 7, 1e-7);
  Sampler many({.top_k = 100});
  EXPECT_EQ(many.candidates(kLogits).size(), 4u);
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  const auto kept = [](double top_p) {
    Sampler sampler({.top_p = top_p});
    return sampler.candidates(kLogits).size();
  };
  EXPECT_EQ(kept(0.01), 1u);
  EXPECT_EQ(kept(0.39), 1u);
  EXPECT_EQ(kept(0.41), 2u);
  EXPECT_EQ(kept(0.69), 2u);
  EXPECT_EQ(kept(0.71), 3u);
  EXPECT_EQ(kept(1), 4u);
  Sampler sampler({.top_p = 0.5});
  EXPECT_NEAR(sampler.candidates(kLogits)[0].probability, 4.0 / 7, 1e-7);
  EXPECT_NEAR(sampler.candidates(kLogits)[1].probability, 3.0 / 7, 1e-7);
}

TEST(Sampler, TopPIsAShareOfWhatTopKLeaves) {
  Sampler sampler({.top_k = 2, .top_p = 0.57});  // 4/7 = 0.5714 is enough
  EXPECT_EQ(sampler.candidates(kLogits).size(), 1u);
}

TEST(Sampler, TemperatureZeroTakesTheMostLikelyAndTheFirstOfEquals) {
  Sampler sampler({.temperature = 0});
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(sampler.sample(kLogits, i), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{0, 5, 5, 1}, 0), 1);
}

TEST(Sampler, DrawsAsOftenAsTheProbabilitiesSay) {
  Sampler sampler({.seed = 3});
  constexpr int kDraws = 20000;
  std::vector<int> counts(4);
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(sampler.sample(kLogits, i))];
  const double expected[] = {0.1, 0.4, 0.2, 0.3};
  double chi = 0;
  for (size_t i = 0; i < 4; ++i) {
    const double due = expected[i] * kDraws;
    chi += (counts[i] - due) * (counts[i] - due) / due;
  }
  EXPECT_LT(chi, 16.3);  // three degrees of freedom, one in a thousand
}

TEST(Sampler, ADrawIsAFunctionOfSeedAndIndex) {
  const auto draws = [](uint64_t seed) {
    Sampler sampler({.seed = seed});
    std::vector<int32_t> made;
    for (uint64_t i = 0; i < 50; ++i) made.push_back(sampler.sample(kLogits, i));
    return made;
  };
  EXPECT_EQ(draws(1), draws(1));
  EXPECT_NE(draws(1), draws(2));
}

TEST(Sampler, HugeLogitsDoNotOverflow) {
  Sampler sampler({.temperature = 0.01});
  EXPECT_EQ(sampler.sample(std::vector<float>{-3e38f, 3e38f, 0}, 0), 1);
}

TEST(Sampler, SettingsThatCannotBeAreRefused) {
  EXPECT_ERROR(Sampler({.temperature = -1}), Usage, "temperature is -1");
  EXPECT_ERROR(Sampler({.temperature = std::nan("")}), Usage, "temperature is nan");
  EXPECT_ERROR(Sampler({.top_k = -1}), Usage, "top-k is -1");
  EXPECT_ERROR(Sampler({.top_p = 0}), Usage, "top-p is 0");
  EXPECT_ERROR(Sampler({.top_p = 1.01}), Usage, "top-p is 1.01");
  EXPECT_ERROR(Sampler({.top_p = std::nan("")}), Usage, "top-p is nan");
}

TEST(Sampler, LogitsThatAreNoNumbersAreRefused) {
  Sampler sampler({});
  EXPECT_ERROR(sampler.sample(std::vector<float>{0, std::nanf(""), 1}, 0), Failure, "token 1");
  EXPECT_ERROR(sampler.sample(std::vector<float>{std::numeric_limits<float>::infinity(), 1}, 0),
               Failure, "token 0");
}

}  // namespace
}  // namespace sextant
