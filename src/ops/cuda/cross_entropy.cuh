#pragma once
// What the kernels of cross_entropy.cu and cross_entropy_whole.cu share.
#include <algorithm>
#include <limits>

#include "ops/cross_entropy.h"
#include "ops/cuda/bad_rows.h"
#include "ops/cuda/kernel.h"
#include "ops/cuda/warp.cuh"
#include "ops/fault_texts.h"

namespace sextant::cuda {

// The largest of no logits.
inline constexpr float kNothing = -std::numeric_limits<float>::infinity();
inline constexpr float kLowest = std::numeric_limits<float>::lowest();

struct Targets {
  const int32_t* target;
  int64_t vocab;
  Report report;

  Targets(Stream& stream, const char* op, const Tensor& targets, int64_t words)
      : target(targets.data<int32_t>()),
        vocab(words),
        report(stream, Fault::Data, op, kBadTarget) {}

  __device__ bool counts(int64_t row) const { return target[row] >= 0 && target[row] < vocab; }
  // By one thread of a row.
  __device__ void report_bad(int64_t row) const {
    const auto is_bad = [this](int32_t value) {
      return value != -1 && (value < 0 || value >= vocab);
    };
    if (is_bad(target[row]) && is_first_bad(target, row, is_bad)) report(target[row], row, vocab);
  }
};

inline int64_t real_width(const Tensor& logits, int64_t first_column, int64_t vocab) {
  return std::clamp<int64_t>(vocab - first_column, 0, logits.dim(1));
}

// For logits that do not fit a cluster, in the order of their calls.
decltype(sextant::cross_entropy_begin) cross_entropy_begin;
decltype(sextant::cross_entropy_chunk) cross_entropy_chunk;
decltype(sextant::cross_entropy_end) cross_entropy_end;
decltype(sextant::cross_entropy_backward) cross_entropy_backward;

}  // namespace sextant::cuda
