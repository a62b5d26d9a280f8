#include "ops/dropout.h"

#include <numeric>

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

Tensor tokens_from(Workbench& bench, int32_t first, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return bench.make<int32_t>({count}, tokens);
}

// A mask of a step.
struct StepMask {
  uint64_t seed = 0;
  std::string_view name;
  double p = 0;
  int64_t step = 0, first_feature = 0;
};

void drop(Workbench& bench, Tensor& y, const Tensor& x, const Tensor& tokens,
          const StepMask& mask) {
  dropout(bench.stream(), y, x, tokens, bench.make<double>({1}, {static_cast<double>(mask.step)}),
          {mask.seed, mask.name, mask.p, mask.first_feature});
}

TEST(Dropout, DropsByTheWordOfTokenFeatureAndStep) {
  Workbench bench;
  const StepMask mask{9, "layer.3.out", 0.25, 5, 6};
  const Tensor x = bench.make<double>({2, 7}, std::vector<double>(14, 3));
  const Tensor tokens = bench.make<int32_t>({2}, {70, 4});
  Tensor y = bench.empty<double>({2, 7});
  drop(bench, y, x, tokens, mask);
  std::vector<double> wanted;
  const PhiloxKey key{9, static_cast<uint32_t>(stable_hash("layer.3.out"))};
  for (const uint32_t token : {70, 4})
    for (uint32_t feature = 6; feature < 13; ++feature) {
      const uint32_t word = philox({token, feature / 4, 5, 0}, key)[feature % 4];
      wanted.push_back(word < 0x40000000 ? 0 : 4);
    }
  EXPECT_EQ(bench.read<double>(y), wanted);
}

TEST(Dropout, APartOfTokensAndFeaturesHasTheMaskOfTheWhole) {
  Workbench bench(2);
  const int64_t rows = 40, columns = 700;
  const Tensor x = bench.make<float>({rows, columns}, std::vector<float>(rows * columns, 1));
  StepMask mask{1, "a", 0.4, 3, 0};
  Tensor y = bench.empty<float>({rows, columns});
  drop(bench, y, x, tokens_from(bench, 100, rows), mask);
  const std::vector<float> whole = bench.read<float>(y);
  for (const int64_t first : {0, 1, 255, 402}) {
    const int64_t width = columns - first, from = 17;
    Tensor part = bench.empty<float>({rows - from, width});
    mask.first_feature = first;
    drop(bench, part,
         bench.make<float>({rows - from, width}, std::vector<float>((rows - from) * width, 1)),
         tokens_from(bench, static_cast<int32_t>(100 + from), rows - from), mask);
    const std::vector<float> got = bench.read<float>(part);
    for (int64_t i = 0; i < part.elements(); ++i)
      ASSERT_EQ(got[i], whole[(from + i / width) * columns + first + i % width])
          << first << " " << i;
  }
}

TEST(Dropout, KeepsTheAskedShareAndTheMean) {
  Workbench bench;
  const int64_t rows = 200, columns = 500;
  const Tensor x = bench.make<float>({rows, columns}, std::vector<float>(rows * columns, 1));
  Tensor y = bench.empty<float>({rows, columns});
  for (const double p : {0.1, 0.5, 0.9}) {
    drop(bench, y, x, tokens_from(bench, 0, rows), {1, "a", p, 0, 0});
    double kept = 0, sum = 0;
    for (const float value : bench.read<float>(y)) {
      kept += value != 0;
      sum += value;
    }
    EXPECT_NEAR(kept / 1e5, 1 - p, 0.006) << p;  // four deviations at p = 0.5
    EXPECT_NEAR(sum / 1e5, 1, 0.006 / (1 - p)) << p;
  }
}

TEST(Dropout, AnotherSeedNameStepOrTokenGivesAnotherMask) {
  Workbench bench;
  const Tensor x = bench.make<float>({1, 128}, std::vector<float>(128, 1));
  const auto drawn = [&](const StepMask& mask, int32_t token) {
    Tensor y = bench.empty<float>({1, 128});
    drop(bench, y, x, tokens_from(bench, token, 1), mask);
    return bench.read<float>(y);
  };
  const std::vector<float> first = drawn({1, "a", 0.5, 0, 0}, 0);
  EXPECT_EQ(drawn({1, "a", 0.5, 0, 0}, 0), first);
  EXPECT_NE(drawn({2, "a", 0.5, 0, 0}, 0), first);
  EXPECT_NE(drawn({uint64_t{1} << 32, "a", 0.5, 0, 0}, 0), drawn({0, "a", 0.5, 0, 0}, 0));
  EXPECT_NE(drawn({1, "b", 0.5, 0, 0}, 0), first);
  EXPECT_NE(drawn({1, "a", 0.5, 1, 0}, 0), first);
  EXPECT_NE(drawn({1, "a", 0.5, 0, 0}, 1), first);
}

TEST(Dropout, WorksInPlace) {
  Workbench bench;
  const StepMask mask{3, "a", 0.5, 0, 0};
  const Tensor x = bench.random<float>({30, 50}, "x");
  const Tensor tokens = tokens_from(bench, 0, 30);
  Tensor apart = bench.empty<float>({30, 50}), same = bench.empty<float>({30, 50});
  drop(bench, apart, x, tokens, mask);
  copy(bench.stream(), same, x);
  drop(bench, same, same, tokens, mask);
  EXPECT_EQ(bench.read<float>(same), bench.read<float>(apart));
}

TEST(Dropout, WithoutChanceItChangesNothing) {
  Workbench bench;
  const Tensor x = bench.random<float>({9, 33}, "x");
  Tensor y = bench.empty<float>({9, 33});
  drop(bench, y, x, tokens_from(bench, 0, 9), {1, "a", 0, 0, 0});
  EXPECT_EQ(bench.bytes(y), bench.bytes(x));
}

TEST(Dropout, GradientIsThatOfFiniteDifferences) {
  Workbench bench;
  const StepMask mask{3, "a", 0.3, 2, 5};
  Tensor x = bench.random<double>({4, 9}, "x"), y = bench.empty<double>({4, 9});
  Tensor dx = bench.empty<double>({4, 9});
  const Tensor dy = bench.random<double>({4, 9}, "dy"), tokens = tokens_from(bench, 8, 4);
  drop(bench, dx, dy, tokens, mask);
  expect_gradient(bench.stream(), x, dx, "x", [&] {
    drop(bench, y, x, tokens, mask);
    return dot(bench.stream(), y, dy);
  });
}

TEST(Dropout, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    Tensor y = bench.empty<float>({300, 301});
    drop(bench, y, bench.random<float>({300, 301}, "x"), tokens_from(bench, 7, 300),
         {1, "a", 0.1, 9, 3});
    return bytes_of(bench, y);
  });
}

TEST(Dropout, RefusesWrongShapesAndChances) {
  Workbench bench;
  Tensor x = bench.random<float>({2, 3}, "x"), y = bench.empty<float>({2, 3});
  const Tensor tokens = bench.make<int32_t>({2}, {0, 1});
  Tensor wide = bench.empty<float>({2, 4});
  const auto with = [&](const StepMask& mask) { drop(bench, y, x, tokens, mask); };
  EXPECT_ERROR(with({1, "a", 1, 0, 0}), Usage, "dropout: p=1");
  EXPECT_ERROR(with({1, "a", -0.1, 0, 0}), Usage, "p=-0.1");
  EXPECT_ERROR(with({1, "a", 0.1, 0, -4}), Usage, "first_feature=-4");
  EXPECT_ERROR(drop(bench, wide, x, tokens, {}), Usage, "y is f32 [2, 4]");
  EXPECT_ERROR(drop(bench, y, x, bench.empty<int64_t>({2}), {}), Usage,
               "tokens is i64 [2], must be i32 [2]");
  EXPECT_ERROR(dropout(bench.stream(), y, x, tokens, tokens, {}), Usage,
               "step is i32 [2], must be f64 [1]");
}

TEST(Dropout, ReportsNegativeTokensAndTakesThemAsZero) {
  Workbench bench(1, DeviceKind::Guarded);
  const Tensor x = bench.random<float>({3, 40}, "x");
  const auto dropped = [&](const std::vector<int32_t>& tokens) {
    Tensor y = bench.empty<float>({3, 40});
    drop(bench, y, x, bench.make<int32_t>({3}, tokens), {1, "a", 0.5, 0, 0});
    return bench.bytes(y);
  };
  EXPECT_EQ(dropped({5, -1, -7}), dropped({5, 0, 0}));
  EXPECT_ERROR(bench.stream().check_data(), Usage,
               "dropout: token index -1 at row 1, must not be negative");
}

TEST(Dropout, ReportsANegativeStepAndTakesItAsZero) {
  Workbench bench;
  const Tensor x = bench.random<float>({3, 40}, "x"), tokens = tokens_from(bench, 0, 3);
  Tensor y = bench.empty<float>({3, 40}), first = bench.empty<float>({3, 40});
  drop(bench, y, x, tokens, {1, "a", 0.5, -2, 0});
  EXPECT_ERROR(bench.stream().check_data(), Usage, "dropout: step=-2, must not be negative");
  drop(bench, first, x, tokens, {1, "a", 0.5, 0, 0});
  EXPECT_EQ(bench.bytes(y), bench.bytes(first));
}

}  // namespace
}  // namespace sextant
