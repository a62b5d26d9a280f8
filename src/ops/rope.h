#pragma once
#include "ops/dispatch.h"
#include "ops/heads.h"

namespace sextant {

// How frequencies are slowed for a longer context.
//   Llama3  long waves by the factor, short ones not, those in between in a straight line of turns
//   Linear  all by the factor
//   Yarn    as Llama3, in a straight line of pairs; the table is multiplied by attention_factor
enum class RopeSlowing : uint8_t { Llama3, Linear, Yarn };

struct RopeFrequencies {
  double theta = 10000;
  double factor = 1;                                 // 1: none
  double low_freq_factor = 1, high_freq_factor = 4;  // Llama3
  int64_t original_seq = 8192;                       // Llama3, Yarn
  RopeSlowing slowing = RopeSlowing::Llama3;
  double beta_fast = 32, beta_slow = 1;  // Yarn: turns in original_seq where the line ends, begins
  double attention_factor = 1;           // Yarn
};

// attention_factor times cos and sin of position * frequency. cos, sin: [positions, head_dim / 2]
void rope_table(Stream& stream, Tensor& cos, Tensor& sin, const RopeFrequencies& frequencies);

enum class RopeDirection { Forward, Backward };

// Rotates the pairs (i, i + head_dim / 2) of every query and key head, in place; Backward applies
// the inverse rotation to gradients. positions: [tokens], i32, table row of each token; one outside
// the table is reported as Error(Usage), and the nearest row is used.
void rope(Stream& stream, Tensor& qkv, const Tensor& positions, const Tensor& cos,
          const Tensor& sin, const Heads& heads, RopeDirection direction);

}  // namespace sextant
