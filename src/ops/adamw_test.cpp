#include "ops/adamw.h"

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/update.h"

namespace sextant {
namespace {

// One update of one parameter, as numbers.
struct AdamWStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double correction1 = 1, correction2 = 1, gradient_scale = 1, apply = 1;
};

void update(Workbench& bench, const Tensor& weight, const Tensor& first, const Tensor& second,
            const Tensor& gradient, const AdamWStep& step) {
  const AdamWPart part{weight, first, second, gradient, step.weight_decay};
  adamw(bench.stream(), {&part, 1},
        update_scalars(bench, step.lr, step.correction1, step.correction2, step.gradient_scale,
                       step.apply),
        {step.beta1, step.beta2, step.eps});
}

AdamWStep step_number(int step) {
  AdamWStep out{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  out.correction1 = 1 - std::pow(out.beta1, step);
  out.correction2 = 1 - std::pow(out.beta2, step);
  return out;
}

struct Parameter {
  Tensor weight, first, second;
};

template <class T>
Parameter make_parameter(Workbench& bench, int64_t count) {
  Parameter out{bench.random<T>({count}, "weight"), bench.empty<T>({count}),
                bench.empty<T>({count})};
  fill_zero(bench.stream(), out.first);
  fill_zero(bench.stream(), out.second);
  return out;
}

template <class T>
Parameter three_steps(Workbench& bench, int64_t count) {
  Parameter p = make_parameter<T>(bench, count);
  for (int step = 1; step <= 3; ++step)
    update(bench, p.weight, p.first, p.second,
           bench.random<T>({count}, std::string("gradient ") + std::to_string(step)),
           step_number(step));
  return p;
}

TEST(AdamW, FirstStepByHand) {
  Workbench bench;
  Tensor weight = bench.make<double>({2}, {2, 2}), first = bench.make<double>({2}, {0, 0});
  Tensor second = bench.make<double>({2}, {0, 0});
  const Tensor gradient = bench.make<double>({2}, {4, -0.5});
  AdamWStep step{.lr = 0.5, .beta1 = 0.75, .beta2 = 0.75, .eps = 0, .weight_decay = 0.25};
  step.correction1 = step.correction2 = 0.25;
  step.gradient_scale = 0.5;
  update(bench, weight, first, second, gradient, step);
  EXPECT_EQ(bench.read<double>(first), (std::vector<double>{0.5, -0.0625}));
  EXPECT_EQ(bench.read<double>(second), (std::vector<double>{1, 0.015625}));
  // Decay first: 2 * (1 - 0.5 * 0.25) = 1.75; then lr times the sign of the gradient.
  EXPECT_EQ(bench.read<double>(weight), (std::vector<double>{1.25, 2.25}));
}

TEST(AdamW, FollowsTheTextbookOverSteps) {
  Workbench bench(2);
  const int64_t count = 20011;
  const Parameter p = three_steps<double>(bench, count);
  std::vector<double> w = bench.read<double>(bench.random<double>({count}, "weight"));
  std::vector<double> m(w.size()), v(w.size());
  for (int number = 1; number <= 3; ++number) {
    const AdamWStep k = step_number(number);
    const std::vector<double> g = bench.read<double>(
        bench.random<double>({count}, std::string("gradient ") + std::to_string(number)));
    for (size_t i = 0; i < w.size(); ++i) {
      m[i] = k.beta1 * m[i] + (1 - k.beta1) * g[i];
      v[i] = k.beta2 * v[i] + (1 - k.beta2) * g[i] * g[i];
      w[i] -= k.lr * k.weight_decay * w[i];
      w[i] -= k.lr * (m[i] / k.correction1) / (std::sqrt(v[i] / k.correction2) + k.eps);
    }
  }
  expect_close(bench.read<double>(p.weight), w, 1e-14, "weight");
  expect_close(bench.read<double>(p.first), m, 1e-14, "first moment");
  expect_close(bench.read<double>(p.second), v, 1e-14, "second moment");
  const Parameter f32 = three_steps<float>(bench, count);
  expect_close(bench.read<float>(f32.weight), w, 3e-7, "weight in f32");
  expect_close(bench.read<float>(f32.second), v, 3e-7, "second moment in f32");
}

TEST(AdamW, ZeroGradientOnlyDecays) {
  Workbench bench;
  Parameter p = make_parameter<float>(bench, 3);
  Tensor zero = bench.make<float>({3}, {0, 0, 0});
  std::vector<float> wanted = bench.read<float>(p.weight);
  for (float& w : wanted) w *= static_cast<float>(1 - 0.01 * 0.1);
  update(bench, p.weight, p.first, p.second, zero, step_number(1));
  EXPECT_EQ(bench.read<float>(p.weight), wanted);
}

TEST(AdamW, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const Parameter p = three_steps<float>(bench, 40003);
    return bytes_of(bench, p.weight, p.first, p.second);
  });
}

TEST(AdamW, UpdatesAllPartsInOneCallAndNothingUnlessToldTo) {
  Workbench bench;
  std::vector<Parameter> whole, cut;
  for (const int64_t count : {3, 70}) whole.push_back(make_parameter<float>(bench, count));
  for (const int64_t count : {3, 70}) cut.push_back(make_parameter<float>(bench, count));
  std::vector<AdamWPart> parts;
  for (const Parameter& p : whole)
    parts.push_back({p.weight, p.first, p.second, bench.random<float>(p.weight.shape(), "g"), 0.1});
  const AdamWStep step = step_number(2);
  const std::vector<std::byte> before = bench.bytes(whole[1].weight);
  adamw(bench.stream(), parts, update_scalars(bench, 0.01, 0.1, 0.1, 1, 0), {});
  EXPECT_EQ(bench.bytes(whole[1].weight), before);
  adamw(bench.stream(), parts, update_scalars(bench, step.lr, step.correction1, step.correction2),
        {step.beta1, step.beta2, step.eps});
  EXPECT_NE(bench.bytes(whole[1].weight), before);
  for (size_t i = 0; i < cut.size(); ++i) {
    update(bench, cut[i].weight, cut[i].first, cut[i].second,
           bench.random<float>(cut[i].weight.shape(), "g"), step);
    EXPECT_EQ(bench.bytes(cut[i].weight), bench.bytes(whole[i].weight));
    EXPECT_EQ(bench.bytes(cut[i].second), bench.bytes(whole[i].second));
  }
}

TEST(AdamW, RefusesWrongShapesAndTypes) {
  Workbench bench;
  Parameter p = make_parameter<float>(bench, 4);
  const auto run = [&](const Tensor& gradient, int step) {
    update(bench, p.weight, p.first, p.second, gradient, step_number(step));
  };
  EXPECT_ERROR(run(bench.empty<float>({2, 2}), 1), Usage,
               "gradient is f32 [2, 2], must be f32 [4]");
  EXPECT_ERROR(run(bench.empty<bf16>({4}), 1), Usage, "gradient is bf16 [4]");
  p.second = Tensor();
  EXPECT_ERROR(run(bench.empty<float>({4}), 1), Usage, "second_moment is empty");
}

}  // namespace
}  // namespace sextant
