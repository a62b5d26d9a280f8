#pragma once
#include <string>
#include <vector>

namespace sextant {

// A CBLAS library of this machine, to compare with our GEMM. Libraries stay loaded: their threads
// cannot be unloaded safely.
struct BlasPeer {
  using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                         float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                         float* c, int ldc);
  static constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;

  std::string name;
  Sgemm sgemm = nullptr;
  void (*set_threads)(int) = nullptr;
};

struct BlasPeers {
  std::vector<BlasPeer> found;
  std::vector<std::string> missing;  // "BLIS (apt-get install libblis4-openmp)"
};
BlasPeers find_blas_peers();

}  // namespace sextant
