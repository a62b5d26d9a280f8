#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/blas_peers.h"
#include "ops/matmul.h"

namespace sextant {

// One GEMM to measure, c[m, n] = op(a) * op(b).
struct GemmShape {
  std::string name;
  int64_t m = 0, n = 0, k = 0;
  Transpose transpose_a = Transpose::No, transpose_b = Transpose::No;

  double flops() const;           // 2 m n k
  double flops_per_byte() const;  // each of a, b and c moved once, f32
};

// The GEMMs of a GPT's linears in a step: forward, input gradient, weight gradient.
struct GemmModel {
  std::string name;
  int64_t tokens = 0, hidden = 0, ffn = 0, qkv = 0, vocab = 0;
};
std::vector<GemmShape> gemm_shapes(const GemmModel& model);
// Two reference models: a small GPT with many tokens, GPT-2 124M with few.
std::vector<GemmModel> gemm_models();

struct GemmOptions {
  std::vector<GemmShape> shapes;
  std::vector<int> threads{1};
  std::vector<BlasPeer> peers;
  int repeats = 5;              // turns per library, in rotation
  double turn_seconds = 0.05;   // per turn, at least one call
  double pause_seconds = 0.03;  // before a turn, so that other libraries' threads go to sleep
};

// GFLOP/s of one turn: a warm-up call of `work`, then calls until the turn is over.
double take_turn(const GemmOptions& options, const Clock& clock, double flops,
                 const std::function<void()>& work);

// Best of the turns, as for the limit, since other load only slows them down. A peer counts with
// its best number of threads up to `threads`.
struct GemmRow {
  GemmShape shape;
  int threads = 1;
  double gflops = 0;
  std::string peer{};  // fastest peer; "" without any
  double peer_gflops = 0;
  double limit_gflops = 0;  // peak of FMAs in registers, same run, same threads
  double ridge = 0;         // FLOPs per byte above which the GEMM is compute-bound

  double peer_ratio() const { return peer_gflops > 0 ? gflops / peer_gflops : 0; }
  double limit_ratio() const { return gflops / limit_gflops; }
  bool is_compute_bound() const { return shape.flops_per_byte() >= ridge; }
};
std::vector<GemmRow> bench_gemm(const GemmOptions& options, const Clock& clock);

}  // namespace sextant
