// Updates of bf16 and f16 weights: with fp32 masters, and with stochastic rounding.
#include "ops/adamw.h"
#include "ops/sgd.h"
#include "support/agree.h"
#include "support/narrow_tensors.h"
#include "support/update.h"

namespace sextant {
namespace {

// One parameter in some types, and its update.
struct Update {
  Tensor weight, master, first, second;

  Update(Workbench& bench, DType dtype, bool has_master, DType moments, int64_t count) {
    weight = make_tensor(bench, narrow({count}), 0, DType::BF16, false);
    if (dtype != DType::F32) {
      const Tensor floats = weight;
      weight = make_tensor(bench, narrow({count}), 0, dtype, true);
      if (has_master) master = floats;
    }
    first = bench.arena().allocate(Category::Optimizer, moments, {count});
    second = bench.arena().allocate(Category::Optimizer, moments, {count});
    fill_zero(bench.stream(), first);
    fill_zero(bench.stream(), second);
  }
  void step(Workbench& bench, const Tensor& gradient, int64_t number,
            const ElementIndex& index = {}) const {
    const AdamWPart part{weight, first, second, gradient, 0.1, master, 77, index};
    const auto t = static_cast<double>(number + 1);
    adamw(bench.stream(), {&part, 1},
          update_scalars(bench, 1e-3, 1 - std::pow(0.9, t), 1 - std::pow(0.95, t), 0.5, 1,
                         static_cast<double>(number)),
          {0.9, 0.95, 1e-8, 5});
  }
};

TEST(NarrowAdamW, AMasterIsUpdatedAsFloatsAreAndTheWeightIsItsRounding) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    Workbench bench(2);
    const Update floats(bench, DType::F32, false, DType::F32, 1001);
    Update mixed(bench, dtype, true, DType::F32, 1001);
    copy(bench.stream(), mixed.master, floats.weight);
    const Tensor gradient = make_tensor(bench, narrow({1001}), 9, dtype, false);
    const Tensor narrow_gradient = make_tensor(bench, narrow({1001}), 9, dtype, true);
    for (int step = 0; step < 3; ++step) {
      floats.step(bench, gradient, step);
      mixed.step(bench, narrow_gradient, step);
    }
    EXPECT_EQ(bytes_of(bench, mixed.master, mixed.first, mixed.second),
              bytes_of(bench, floats.weight, floats.first, floats.second));
    EXPECT_EQ(bench.bytes(mixed.weight), rounded(bench.read<float>(mixed.master), dtype));
  }
}

// Without a master a small update moves a few of many weights, and their mean as far as floats
// move.
TEST(NarrowAdamW, WithoutAMasterTheMeanMovesAsFarAsFloats) {
  constexpr int64_t kCount = 200000;
  Workbench bench(2);
  const auto mean_after = [&](DType dtype) {
    Tensor weight = bench.arena().allocate(Category::Weights, dtype, {kCount});
    const std::vector<float> ones(kCount, 1);
    copy_floats_from_host(bench.stream(), weight, ones);
    Tensor first = bench.arena().allocate(Category::Optimizer, dtype, {kCount});
    Tensor second = bench.arena().allocate(Category::Optimizer, dtype, {kCount});
    fill_zero(bench.stream(), first);
    fill_zero(bench.stream(), second);
    const Tensor gradient = bench.make<float>({kCount}, ones);
    const AdamWPart part{weight, first, second, gradient, 0, Tensor(), 77, {}};
    for (int step = 0; step < 4; ++step) {
      const double t = step + 1;
      adamw(bench.stream(), {&part, 1},
            update_scalars(bench, 1e-4, 1 - std::pow(0.9, t), 1 - std::pow(0.95, t), 1, 1, step),
            {0.9, 0.95, 1e-8, 5});
    }
    std::vector<float> values(kCount);
    copy_floats_to_host(bench.stream(), values, weight);
    double sum = 0;
    for (const float value : values) sum += value;
    return sum / kCount;
  };
  // 4 steps of 1e-4; a step between neighbours of bf16 is 2^-8, its spread over all weights 2e-5.
  EXPECT_NEAR(mean_after(DType::F32), 1 - 4e-4, 1e-6);
  EXPECT_NEAR(mean_after(DType::BF16), 1 - 4e-4, 1e-4);
}

// Parts of a parameter round as the whole does: slices, and columns of its rows.
TEST(NarrowAdamW, StochasticRoundingDoesNotDependOnTheLayout) {
  constexpr int64_t kRows = 13, kColumns = 50;
  Workbench bench(3);
  const Update whole(bench, DType::BF16, false, DType::BF16, kRows * kColumns);
  const Update slices(bench, DType::BF16, false, DType::BF16, kRows * kColumns);
  const Tensor gradient = make_tensor(bench, narrow({kRows * kColumns}), 9, DType::BF16, true);
  whole.step(bench, gradient, 3, {0, 0, kColumns, kColumns});
  const auto part = [&](int64_t begin, int64_t end) {
    Update update = slices;
    update.weight = slices.weight.slice(begin, end);
    update.first = slices.first.slice(begin, end);
    update.second = slices.second.slice(begin, end);
    update.step(bench, gradient.slice(begin, end), 3, {0, begin, kColumns, kColumns});
  };
  part(0, 7);
  part(7, 301);
  part(301, kRows * kColumns);
  EXPECT_EQ(bytes_of(bench, slices.weight, slices.first, slices.second),
            bytes_of(bench, whole.weight, whole.first, whole.second));

  // Columns 20 ... 49 as a shard of its own.
  constexpr int64_t kFirst = 20, kWidth = kColumns - kFirst;
  const auto columns_of = [&](const Tensor& tensor) {
    const std::vector<bf16> all = bench.read<bf16>(tensor);
    std::vector<bf16> some;
    for (int64_t i = 0; i < kRows; ++i)
      some.insert(some.end(), all.begin() + i * kColumns + kFirst,
                  all.begin() + (i + 1) * kColumns);
    return bench.make<bf16>({kRows * kWidth}, some);
  };
  const Update before(bench, DType::BF16, false, DType::BF16, kRows * kColumns);
  Update shard = before;
  shard.weight = columns_of(before.weight);
  shard.first = columns_of(before.first);
  shard.second = columns_of(before.second);
  shard.step(bench, columns_of(gradient), 3, {kFirst, 0, kWidth, kColumns});
  EXPECT_EQ(
      bytes_of(bench, shard.weight, shard.first, shard.second),
      bytes_of(bench, columns_of(whole.weight), columns_of(whole.first), columns_of(whole.second)));
}

TEST(NarrowSgd, AMasterIsUpdatedAsFloatsAre) {
  Workbench bench;
  const Tensor floats = make_tensor(bench, narrow({77}), 0, DType::BF16, false);
  const Tensor master = make_tensor(bench, narrow({77}), 0, DType::BF16, false);
  const Tensor weight = make_tensor(bench, narrow({77}), 0, DType::BF16, true);
  const Tensor gradient = make_tensor(bench, narrow({77}), 1, DType::BF16, false);
  const SgdPart plain{floats, Tensor(), gradient, 0.1},
      mixed{weight, Tensor(), gradient, 0.1, master};
  for (const SgdPart& part : {plain, mixed})
    sgd(bench.stream(), {&part, 1}, update_scalars(bench, 0.01), 0);
  EXPECT_EQ(bench.bytes(master), bench.bytes(floats));
  EXPECT_EQ(bench.bytes(weight), rounded(bench.read<float>(floats), DType::BF16));
}

}  // namespace
}  // namespace sextant
