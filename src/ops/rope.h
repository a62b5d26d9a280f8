#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

struct RopeFrequencies {
  double theta = 10000;
  double factor = 1;  // Llama-3 scaling; 1 means none
  double low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_seq = 8192;
};

// cos and sin of position * frequency. cos, sin: [positions, head_dim / 2]
void rope_table(Stream& stream, Tensor& cos, Tensor& sin, const RopeFrequencies& frequencies);

enum class RopeDirection { Forward, Backward };

// Rotates the pairs (i, i + head_dim / 2) of every query and key head, in place; Backward applies
// the inverse rotation to gradients. positions: [tokens], i32, table row of each token; one outside
// the table is reported as Error(Usage), and the nearest row is used.
void rope(Stream& stream, Tensor& qkv, const Tensor& positions, const Tensor& cos,
          const Tensor& sin, const Heads& heads, RopeDirection direction);

}  // namespace sextant
