#include "ops/swiglu.h"

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

TEST(SwiGlu, HandComputedRow) {
  Workbench bench;
  // silu(0) = 0, silu(ln 3) = ln 3 * 3/4, silu(-ln 3) = -ln 3 / 4.
  const float log3 = std::log(3.0F);
  const Tensor gate_up = bench.make<float>({1, 6}, {0, log3, -log3, 5, 4, 8});
  Tensor y = bench.empty<float>({1, 3});
  swiglu(bench.stream(), y, gate_up);
  expect_close(bench.read<float>(y), std::vector<float>{0, 3 * log3, -2 * log3}, 2e-7);
}

TEST(SwiGlu, GradientIsThatOfFiniteDifferences) {
  Workbench bench;
  Tensor gate_up = bench.random<double>({3, 10}, "gate_up", 2);
  const Tensor dy = bench.random<double>({3, 5}, "dy");
  Tensor y = bench.empty<double>({3, 5}), d = bench.empty<double>({3, 10});
  swiglu_backward(bench.stream(), d, dy, gate_up);
  expect_gradient(bench.stream(), gate_up, d, "gate_up", [&] {
    swiglu(bench.stream(), y, gate_up);
    return dot(bench.stream(), y, dy);
  });
}

TEST(SwiGlu, FloatsAgreeWithDoublesAndBackwardWorksInPlace) {
  Workbench bench(2);
  Tensor in32 = bench.random<float>({70, 262}, "gate_up", 3);
  const Tensor in64 = bench.random<double>({70, 262}, "gate_up", 3);
  Tensor y32 = bench.empty<float>({70, 131}), y64 = bench.empty<double>({70, 131});
  Tensor d64 = bench.empty<double>({70, 262});
  swiglu(bench.stream(), y32, in32);
  swiglu(bench.stream(), y64, in64);
  expect_close(bench.read<float>(y32), bench.read<double>(y64), 1e-6, "y");
  swiglu_backward(bench.stream(), in32, bench.random<float>({70, 131}, "dy"), in32);
  swiglu_backward(bench.stream(), d64, bench.random<double>({70, 131}, "dy"), in64);
  expect_close(bench.read<float>(in32), bench.read<double>(d64), 1e-6, "gradient");
}

TEST(SwiGlu, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const Tensor gate_up = bench.random<float>({301, 262}, "gate_up");
    const Tensor dy = bench.random<float>({301, 131}, "dy");
    Tensor y = bench.empty<float>({301, 131}), d = bench.empty<float>({301, 262});
    swiglu(bench.stream(), y, gate_up);
    swiglu_backward(bench.stream(), d, dy, gate_up);
    return bytes_of(bench, y, d);
  });
}

TEST(SwiGlu, RefusesWrongShapesAndTypes) {
  Workbench bench;
  Tensor y = bench.empty<float>({2, 3});
  EXPECT_ERROR(swiglu(bench.stream(), y, bench.empty<float>({2, 7})), Usage, "even last dim");
  EXPECT_ERROR(swiglu(bench.stream(), y, bench.empty<float>({2, 8})), Usage,
               "y is f32 [2, 3], must be f32 [2, 4]");
  EXPECT_ERROR(swiglu(bench.stream(), y, bench.empty<bf16>({2, 6})), Usage,
               "y is f32 [2, 3], must be bf16 [2, 3]");
  Tensor d = bench.empty<float>({2, 3});
  EXPECT_ERROR(swiglu_backward(bench.stream(), d, y, bench.empty<float>({2, 6})), Usage,
               "dgate_up is f32 [2, 3], must be f32 [2, 6]");
}

}  // namespace
}  // namespace sextant
