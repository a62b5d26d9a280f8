// OpenBLAS beside ours: an oracle for the values, and the reason for a GEMM of our own, because its
// bits depend on the shape around an element.
#include <dlfcn.h>

#include "ops/matmul.h"
#include "support/agree.h"

namespace sextant {
namespace {

using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                       float* c, int ldc);

// y = x * weight^T by OpenBLAS on one thread; nullptr without the library.
class OpenBlas {
 public:
  OpenBlas() : library_(dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(library_, "cblas_sgemm"));
    const auto set_threads =
        reinterpret_cast<void (*)(int)>(dlsym(library_, "openblas_set_num_threads"));
    if (set_threads) set_threads(1);
  }
  explicit operator bool() const { return sgemm_ != nullptr; }

  std::vector<float> linear(const std::vector<float>& x, const std::vector<float>& weight, int rows,
                            int out, int in) const {
    std::vector<float> y(static_cast<size_t>(rows) * static_cast<size_t>(out));
    constexpr int kRowMajor = 101, kNo = 111, kYes = 112;
    sgemm_(kRowMajor, kNo, kYes, rows, out, in, 1, x.data(), in, weight.data(), in, 0, y.data(),
           out);
    return y;
  }

 private:
  void* library_;
  Sgemm sgemm_ = nullptr;
};

constexpr int kRows = 150, kOut = 130, kIn = 900;

TEST(MatmulOracle, ValuesAreThoseOfOpenBlas) {
  const OpenBlas blas;
  if (!blas) GTEST_SKIP() << "libopenblas.so.0 is not installed: no values to compare with";
  Workbench bench(2);
  const Tensor x = bench.random<float>({kRows, kIn}, "x", 1 / std::sqrt(kIn));
  const Tensor weight = bench.random<float>({kOut, kIn}, "w");
  Tensor y = bench.empty<float>({kRows, kOut});
  matmul(bench.stream(), y, x, Transpose::No, weight, Transpose::Yes, {});
  expect_close(bench.read<float>(y),
               blas.linear(bench.read<float>(x), bench.read<float>(weight), kRows, kOut, kIn),
               2e-6);
}

// The rows of a product, each computed alone, against the same rows in the whole.
TEST(MatmulOracle, OpenBlasChangesBitsWithTheShapeAndOursDoesNot) {
  const OpenBlas blas;
  if (!blas) GTEST_SKIP() << "libopenblas.so.0 is not installed: no bits to compare with";
  Workbench bench;
  const Tensor x = bench.random<float>({kRows, kIn}, "x"),
               w = bench.random<float>({kOut, kIn}, "w");
  const std::vector<float> x_values = bench.read<float>(x), w_values = bench.read<float>(w);
  Tensor y = bench.empty<float>({kRows, kOut}), row = bench.empty<float>({1, kOut});
  matmul(bench.stream(), y, x, Transpose::No, w, Transpose::Yes, {});
  const std::vector<float> theirs = blas.linear(x_values, w_values, kRows, kOut, kIn);
  const std::vector<float> ours = bench.read<float>(y);
  int ours_differ = 0, theirs_differ = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    matmul(bench.stream(), row, x.slice(i, i + 1), Transpose::No, w, Transpose::Yes, {});
    const std::vector<float> alone = bench.read<float>(row);
    const std::vector<float> x_row(x_values.begin() + i * kIn, x_values.begin() + (i + 1) * kIn);
    const std::vector<float> their_alone = blas.linear(x_row, w_values, 1, kOut, kIn);
    for (size_t j = 0; j < alone.size(); ++j) {
      ours_differ += alone[j] != ours[static_cast<size_t>(i * kOut) + j];
      theirs_differ += their_alone[j] != theirs[static_cast<size_t>(i * kOut) + j];
    }
  }
  EXPECT_EQ(ours_differ, 0);
  EXPECT_GT(theirs_differ, 0) << "this OpenBLAS keeps bits under a cut of the rows";
  RecordProperty("openblas_elements_that_changed", theirs_differ);
}

}  // namespace
}  // namespace sextant
