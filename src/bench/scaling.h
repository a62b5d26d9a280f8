#pragma once
#include <functional>
#include <vector>

#include "bench/step.h"

namespace sextant {

// Strong: a fixed global batch over more ranks. Weak: a fixed batch per rank.
enum class Scaling { Strong, Weak };
const char* name_of(Scaling scaling);

// Training steps over data parallel ranks with equally many threads each.
struct ScalingRow {
  Scaling scaling = Scaling::Weak;
  int ranks = 0;
  StepBench step;
  double efficiency = 0;  // tokens/s per rank, relative to the first row of its kind

  double exposed_share() const { return step.comm_exposed_s / step.step_s; }
};

struct ScalingOptions {
  std::vector<Scaling> kinds{Scaling::Weak, Scaling::Strong};
  std::vector<int> ranks{1, 2, 4, 8, 16};
  int64_t batch = 1;  // sequences per rank (weak); times the largest number of ranks (strong)
  int zero = 0;       // 0: dp; 1, 2, 3: shard
  int rounds = 1;     // over all rows; the best of each counts
};

// The configuration of a row: `base` with its ranks and batch. Error(Config) for invalid ones.
using ConfigOf = std::function<Config(int ranks, int64_t batch, int zero)>;
// Measures a step of a configuration.
using MeasureStep = std::function<StepBench(const Config&)>;

// Rows by kind and ranks; the first number of ranks is the baseline of the others.
std::vector<ScalingRow> bench_scaling(const ScalingOptions& options, const ConfigOf& config_of,
                                      const MeasureStep& measure);

}  // namespace sextant
