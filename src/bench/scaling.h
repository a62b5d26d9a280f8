#pragma once
#include <functional>
#include <vector>

#include "bench/step.h"

namespace sextant {

// Strong: the same batch over more and more ranks. Weak: the same batch for each rank.
enum class Scaling { Strong, Weak };
const char* name_of(Scaling scaling);

// Training steps over data ranks that have as many threads each.
struct ScalingRow {
  Scaling scaling = Scaling::Weak;
  int ranks = 0;
  StepBench step;
  double efficiency = 0;  // tokens/s of a rank over those of a rank in the first row of its kind

  double exposed_share() const { return step.comm_exposed_s / step.step_s; }
};

struct ScalingOptions {
  std::vector<Scaling> kinds{Scaling::Weak, Scaling::Strong};
  std::vector<int> ranks{1, 2, 4, 8, 16};
  int64_t batch = 1;  // sequences: weak, of each rank; strong, times the most ranks, of all
  int zero = 0;       // 0: dp; 1, 2, 3: shard
  int rounds = 1;     // of all rows; the best of each counts
};

// The configuration of a row: `base` with its ranks and batch set. Error(Config) for what cannot
// be.
using ConfigOf = std::function<Config(int ranks, int64_t batch, int zero)>;
// What a step of a configuration takes.
using MeasureStep = std::function<StepBench(const Config&)>;

// Rows in the order of kinds and ranks; the first number of ranks is what the others are held
// against.
std::vector<ScalingRow> bench_scaling(const ScalingOptions& options, const ConfigOf& config_of,
                                      const MeasureStep& measure);

}  // namespace sextant
