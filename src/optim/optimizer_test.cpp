#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/workbench.h"

namespace sextant {
namespace {

// A weight of 1 with decay and one without.
class OptimizerTest : public testing::Test {
 protected:
  OptimizerTest() {
    for (const char* name : {"with", "without"}) {
      slices_.push_back({name,
                         {1},
                         1,
                         slices_.empty(),
                         {0, 1},
                         bench_.make<double>({1}, {1}),
                         bench_.make<double>({1}, {0})});
      slices_.back().types = all_of(DType::F64);
    }
  }
  void set_gradient(double value) {
    for (OwnedSlice& slice : slices_)
      copy_from_host<double>(bench_.stream(), slice.grad, {{value}});
  }
  double weight(size_t i) { return bench_.read<double>(slices_[i].value)[0]; }
  static OptimConfig settings(OptimizerKind kind) {
    OptimConfig optim;
    optim.name = kind;
    optim.beta1 = 0.5;
    optim.beta2 = 0.75;
    optim.eps = 0;
    optim.weight_decay = 0.1;
    optim.momentum = 0.5;
    return optim;
  }

  Workbench bench_;
  std::vector<OwnedSlice> slices_;
};

TEST_F(OptimizerTest, TwoStepsOfAdamWByHand) {
  Optimizer optimizer(bench_.stream(), slices_, settings(OptimizerKind::AdamW));
  set_gradient(2);
  optimizer.set_scalars(bench_.stream(), 0, 0.1, 1);
  optimizer.step(bench_.stream());
  // m = 1, v = 1; corrected 2 and 4: the step is 2 / sqrt(4) = 1.
  EXPECT_NEAR(weight(1), 1 - 0.1, 1e-12);
  EXPECT_NEAR(weight(0), (1 - 0.1 * 0.1) - 0.1, 1e-12);
  set_gradient(-8);
  optimizer.set_scalars(bench_.stream(), 1, 0.1, 0.5);
  optimizer.step(bench_.stream());  // scaled to -4
  // m = 0.5 - 2 = -1.5, v = 0.75 + 4 = 4.75; corrections 0.75 and 0.4375.
  const double change = (-1.5 / 0.75) / std::sqrt(4.75 / 0.4375);
  EXPECT_NEAR(weight(1), 0.9 - 0.1 * change, 1e-12);
  EXPECT_NEAR(weight(0), 0.89 * (1 - 0.01) - 0.1 * change, 1e-12);
}

TEST_F(OptimizerTest, TwoStepsOfSgdWithMomentumByHand) {
  Optimizer optimizer(bench_.stream(), slices_, settings(OptimizerKind::Sgd));
  set_gradient(2);
  optimizer.set_scalars(bench_.stream(), 0, 0.1, 1);
  optimizer.step(bench_.stream());
  EXPECT_NEAR(weight(1), 0.8, 1e-12);
  EXPECT_NEAR(weight(0), 0.99 - 0.2, 1e-12);
  set_gradient(1);
  optimizer.set_scalars(bench_.stream(), 1, 0.1, 2);
  optimizer.step(bench_.stream());  // velocity 0.5 * 2 + 2 = 3
  EXPECT_NEAR(weight(1), 0.8 - 0.3, 1e-12);
  EXPECT_NEAR(weight(0), 0.79 * 0.99 - 0.3, 1e-12);
}

TEST_F(OptimizerTest, SgdWithoutMomentumKeepsNothing) {
  OptimConfig optim = settings(OptimizerKind::Sgd);
  optim.momentum = 0;
  Optimizer optimizer(bench_.stream(), slices_, optim);
  EXPECT_EQ(moment_count(optim), 0);
  EXPECT_TRUE(optimizer.state().empty());
  set_gradient(2);
  for (int64_t step = 0; step < 2; ++step) {
    optimizer.set_scalars(bench_.stream(), step, 0.1);
    optimizer.step(bench_.stream());
  }
  EXPECT_NEAR(weight(1), 0.6, 1e-12);
}

TEST_F(OptimizerTest, StateIsNamedAfterItsParameters) {
  const auto names = [](const Optimizer& optimizer) {
    std::vector<std::string> all;
    for (const NamedTensor& tensor : optimizer.state()) all.push_back(tensor.name);
    return all;
  };
  const Optimizer adamw(bench_.stream(), slices_, settings(OptimizerKind::AdamW));
  EXPECT_EQ(names(adamw), (std::vector<std::string>{
                              "optim.first_moment.with", "optim.second_moment.with",
                              "optim.first_moment.without", "optim.second_moment.without"}));
  const Optimizer sgd(bench_.stream(), slices_, settings(OptimizerKind::Sgd));
  EXPECT_EQ(names(sgd),
            (std::vector<std::string>{"optim.first_moment.with", "optim.first_moment.without"}));
  EXPECT_EQ(adamw.state()[0].valid_rows, 1);
  EXPECT_EQ(bench_.read<double>(adamw.state()[1].tensor)[0], 0);
}

}  // namespace
}  // namespace sextant
