#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ops/heads.h"

namespace sextant {

// One causal attention to measure. FLOPs count only visible (query, key) pairs: seq (seq + 1) / 2
// per head and row, 4 head_dim forward and 10 head_dim backward.
struct AttentionShape {
  std::string name;
  Heads heads;

  double forward_flops() const;
  double backward_flops() const;
  // Minimal memory traffic in bytes, each tensor moved once, f32. Unfused, the score matrix is
  // moved four times forward (written and read as scores, and as probabilities) and seven times
  // backward.
  double forward_bytes() const;
  double backward_bytes() const;
  double unfused_forward_bytes() const;
  double unfused_backward_bytes() const;
};

// The attentions of the models of bench gemm, then longer ones.
std::vector<AttentionShape> attention_shapes();

struct AttentionOptions {
  std::vector<AttentionShape> shapes;
  std::vector<int> threads{1};
  int repeats = 5;             // turns per form, in rotation
  double turn_seconds = 0.05;  // per turn, at least one call
};

// Results of one form. `peak_bytes`: peak of the arena with all tensors, both directions, and the
// kernels' scratch.
struct AttentionForm {
  double forward_gflops = 0, backward_gflops = 0;  // medians over the turns
  double forward_flops_per_byte = 0, backward_flops_per_byte = 0;
  int64_t peak_bytes = 0;
};

struct AttentionRow {
  AttentionShape shape;
  int threads = 1;
  AttentionForm tiled, unfused;
  double limit_gflops = 0;  // peak of FMAs in registers, same run, same threads
  double ridge = 0;         // FLOPs per byte above which the attention is compute-bound

  double forward_ratio() const { return tiled.forward_gflops / limit_gflops; }
  double backward_ratio() const { return tiled.backward_gflops / limit_gflops; }
};

// Measures the tiled op and the unfused form (attention_unfused.h) in turn.
std::vector<AttentionRow> bench_attention(const AttentionOptions& options, const Clock& clock);

}  // namespace sextant
