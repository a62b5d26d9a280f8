#pragma once
#include <map>
#include <string>
#include <vector>

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

// The statistics that forward leaves for backward: of norms, and log-sum-exps. They are fp32
// whatever the type of activations is. Layers record each before backward reads it, under the name
// of a weight beside it.
class Statistics {
 public:
  // Whether they are rounded to bf16: a bug, for tests.
  enum class Rounding { None, ToBf16 };
  explicit Statistics(Rounding rounding) : rounding_(rounding) {}

  // From now on every value is looked at, on the host.
  void watch() { is_watched_ = true; }
  // Weights with a statistic of a type narrower than f32, or none of whose values has more bits
  // than f16: of f32 values that happens to one in 2^13.
  std::vector<std::string> narrow() const;

  bool is_rounded() const { return rounding_ == Rounding::ToBf16; }
  // After forward or recomputation wrote it.
  void round(Stream& stream, Tensor& statistic) const;
  // Before backward reads it.
  void read(Stream& stream, const std::string& weight, const Tensor& statistic);

 private:
  struct Count {
    bool is_narrow_type = false;
    int64_t values = 0, coarse = 0;  // those that f16 or bf16 could hold
  };
  Rounding rounding_;
  bool is_watched_ = false;
  std::map<std::string, Count> counts_;  // by weight
};

}  // namespace sextant
