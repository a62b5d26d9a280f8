#include "ops/linear.h"
#include "ops/matmul_tuning.h"
#include "support/cuda_cases.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;

class MatmulCuda : public CudaTest {
 protected:
  // cuBLASLt may round a sum to the narrow type before it adds c or applies an activation.
  void expect_product(CudaCase test) {
    test.roundings = 1;
    expect_like_cpu(test);
  }
};

struct Size {
  int64_t m, n, k;
};
// Odd and even, with nothing to add up, with one row or column, and such that cuBLASLt fuses ends.
constexpr Size kGpuSizes[] = {{1, 1, 1},      {3, 5, 7},     {65, 65, 65},   {1, 1000, 96},
                              {128, 256, 64}, {200, 1, 300}, {96, 200, 256}, {64, 72, 1000},
                              {4, 6, 0},      {0, 8, 4}};

std::string sized(const char* op, const Size& size) {
  return std::string(op) + " of " + std::to_string(size.m) + " x " + std::to_string(size.n) +
         " x " + std::to_string(size.k);
}
Use use_of(Write write) {
  return write == Write::Replace ? Use::Out : Use::InOut;
}

// c is of the compute type or f32.
TEST_F(MatmulCuda, ProductsAreThoseOfTheCpu) {
  for (const Size& size : kGpuSizes)
    for (const Transpose ta : {Transpose::No, Transpose::Yes})
      for (const Transpose tb : {Transpose::No, Transpose::Yes})
        for (const Write write : {Write::Replace, Write::Add, Write::Chain}) {
          const auto [m, n, k] = size;
          expect_product(
              {sized("matmul", size),
               {gradient({m, n}, use_of(write)),
                in(ta == Transpose::Yes ? Shape{k, m} : Shape{m, k}),
                in(tb == Transpose::Yes ? Shape{n, k} : Shape{k, n})},
               [=](Stream& s, T t) { matmul(s, t[0], t[1], ta, t[2], tb, {.write = write}); }});
        }
  const Size vocabulary{9, 50257, 24};
  expect_product(
      {sized("matmul", vocabulary),
       {gradient({vocabulary.m, vocabulary.n}, Use::Out), in({vocabulary.m, vocabulary.k}),
        in({vocabulary.n, vocabulary.k})},
       [](Stream& s, T t) { matmul(s, t[0], t[1], Transpose::No, t[2], Transpose::Yes, {}); }});
}

TEST_F(MatmulCuda, EndsOfTheForwardAreThoseOfTheCpu) {
  for (const Size& size : kGpuSizes)
    for (const Activation activation :
         {Activation::None, Activation::GeluTanh, Activation::GeluExact})
      for (const bool has_bias : {false, true})
        for (const bool keeps : {false, true})
          for (const Write write : {Write::Replace, Write::Add, Write::Chain}) {
            const auto [m, n, k] = size;
            if (keeps && activation == Activation::None) continue;
            std::vector<CudaTensor> tensors = {gradient({m, n}, use_of(write)), in({m, k}, 0.3),
                                               in({n, k}, 0.3), in({n}), out({m, n})};
            if (!keeps) tensors[4] = in({m, n});
            expect_product({sized("linear", size), tensors, [=](Stream& s, T t) {
                              linear(s, t[0], t[1], t[2],
                                     {.write = write,
                                      .activation = activation,
                                      .bias = has_bias ? t[3] : Tensor(),
                                      .pre_activation = keeps ? t[4] : Tensor()});
                            }});
          }
}

TEST_F(MatmulCuda, EndsOfTheBackwardAreThoseOfTheCpu) {
  for (const Size& size : kGpuSizes)
    for (const Activation activation : {Activation::GeluTanh, Activation::GeluExact})
      for (const Write write : {Write::Replace, Write::Add, Write::Chain}) {
        const auto [m, n, k] = size;
        expect_product({sized("linear_backward_input", size),
                        {gradient({m, n}, use_of(write)), in({m, k}), in({k, n}), in({m, n})},
                        [=](Stream& s, T t) {
                          linear_backward_input(
                              s, t[0], t[1], t[2],
                              {.write = write, .activation = activation, .backward_of = t[3]});
                        }});
      }
}

TEST_F(MatmulCuda, TheGradientMayReplaceWhatItIsTheBackwardOf) {
  for (const Size& size : {Size{65, 65, 65}, Size{128, 256, 64}})
    expect_product({sized("linear_backward_input over its activation", size),
                    {changed({size.m, size.n}), in({size.m, size.k}), in({size.k, size.n})},
                    [](Stream& s, T t) {
                      linear_backward_input(
                          s, t[0], t[1], t[2],
                          {.activation = Activation::GeluTanh, .backward_of = t[0]});
                    }});
}

TEST_F(MatmulCuda, WeightGradientsAreThoseOfTheCpu) {
  for (const Size& size :
       {Size{1, 3, 5}, Size{65, 65, 7}, Size{1000, 768, 64}, Size{5000, 40, 24}, Size{0, 8, 8}})
    for (const Write write : {Write::Replace, Write::Add, Write::Chain}) {
      const auto [rows, outs, ins] = size;
      expect_product(
          {sized("linear_backward_weight", size),
           {gradient({outs, ins}, use_of(write)), gradient({outs}, use_of(write)), in({rows, outs}),
            in({rows, ins})},
           [=](Stream& s, T t) { linear_backward_weight(s, t[0], t[1], t[2], t[3], write); }});
    }
}

// Whichever way is the faster one here: the library's sums or a kernel of ours.
TEST_F(MatmulCuda, WeightGradientsOfMeasuredKernelsAreThoseOfTheCpu) {
  const TempDir directory;
  for (const Size& size : {Size{4096, 512, 256}, Size{2000, 1024, 768}, Size{640, 8, 16}}) {
    const auto [rows, outs, ins] = size;
    // The first call measures, the second one finds the choice in the file.
    for (const char* name : {"measured linear_backward_weight", "kept linear_backward_weight"}) {
      CudaCase test{sized(name, size),
                    {gradient({outs, ins}, Use::Out), gradient({outs}, Use::Out), in({rows, outs}),
                     in({rows, ins})},
                    [&](Stream& s, T t) {
                      tune_matmul(s, directory.path());
                      linear_backward_weight(s, t[0], t[1], t[2], t[3], Write::Replace);
                      tune_matmul(s, "");
                    },
                    1};
      expect_like_cpu(test, {DType::BF16, DType::BF16, {0}});
      expect_like_cpu(test, {DType::BF16, DType::F32, {0}});
      expect_like_cpu(test, {DType::F16, DType::F32, {0}});
    }
  }
}

// More rows than the scratch holds sums of: 300 x 40000 floats.
TEST_F(MatmulCuda, SumsThatDoNotFitTheScratchAreMadeInParts) {
  const int64_t m = 300, n = 40000, k = 16;
  for (const Transpose ta : {Transpose::No, Transpose::Yes}) {
    const CudaCase test{
        "matmul in parts",
        {out({m, n}), in(ta == Transpose::Yes ? Shape{k, m} : Shape{m, k}), in({n, k}), in({n})},
        [=](Stream& s, T t) {
          matmul(s, t[0], t[1], ta, t[2], Transpose::Yes,
                 {.activation = Activation::GeluExact, .bias = t[3]});
        }};
    expect_like_cpu(test, {DType::BF16, DType::BF16, {0}});
  }
}

}  // namespace
}  // namespace sextant
