#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ops/heads.h"

namespace sextant {

// One causal attention to measure. FLOPs count the pairs of a query and a key it sees and no
// others: seq (seq + 1) / 2 for each head and row, 4 head_dim forward and 10 head_dim backward.
struct AttentionShape {
  std::string name;
  Heads heads;

  double forward_flops() const;
  double backward_flops() const;
  // Bytes that must move between memory and the core when every tensor goes once, f32. Unfused, the
  // matrix of scores goes four times forward (written and read as scores, and as probabilities) and
  // seven times backward.
  double forward_bytes() const;
  double backward_bytes() const;
  double unfused_forward_bytes() const;
  double unfused_backward_bytes() const;
};

// The attentions that speed is judged by: those of the models of bench gemm, then longer ones.
std::vector<AttentionShape> attention_shapes();

struct AttentionOptions {
  std::vector<AttentionShape> shapes;
  std::vector<int> threads{1};
  int repeats = 5;             // turns that each form gets, in rotation
  double turn_seconds = 0.05;  // of one turn, at least one call
};

// What one form reached. `peak_bytes` is what the arena held at most: all tensors, both
// directions, and the kernels' scratch.
struct AttentionForm {
  double forward_gflops = 0, backward_gflops = 0;  // medians over the turns
  double forward_flops_per_byte = 0, backward_flops_per_byte = 0;
  int64_t peak_bytes = 0;
};

struct AttentionRow {
  AttentionShape shape;
  int threads = 1;
  AttentionForm tiled, unfused;
  double limit_gflops = 0;  // multiply-adds in registers, same run, same threads
  double ridge = 0;         // FLOPs per byte above which arithmetic is the limit, not memory

  double forward_ratio() const { return tiled.forward_gflops / limit_gflops; }
  double backward_ratio() const { return tiled.backward_gflops / limit_gflops; }
};

// The tiled op and the unfused form (attention_unfused.h) in turn.
std::vector<AttentionRow> bench_attention(const AttentionOptions& options, const Clock& clock);

}  // namespace sextant
