#include "bench/scaling.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {

const char* name_of(Scaling scaling) {
  return scaling == Scaling::Strong ? "strong" : "weak";
}

std::vector<ScalingRow> bench_scaling(const ScalingOptions& options, const ConfigOf& config_of,
                                      const MeasureStep& measure) {
  SXT_CHECK(!options.ranks.empty() && options.batch > 0 && options.rounds > 0, Usage,
            "bench scaling: batch=", options.batch, " rounds=", options.rounds,
            ", both must be at least 1, over at least one number of ranks");
  const int most = *std::max_element(options.ranks.begin(), options.ranks.end());
  std::vector<ScalingRow> rows;
  for (const Scaling kind : options.kinds)
    for (const int ranks : options.ranks) rows.push_back({kind, ranks, {}, 0});
  for (int round = 0; round < options.rounds; ++round)
    for (ScalingRow& row : rows) {
      const int64_t batch = options.batch * (row.scaling == Scaling::Weak ? row.ranks : most);
      const StepBench step = measure(config_of(row.ranks, batch, options.zero));
      if (step.tokens_per_s > row.step.tokens_per_s) row.step = step;
    }
  for (size_t i = 0; i < rows.size(); ++i) {
    const ScalingRow& first = rows[i - i % options.ranks.size()];
    rows[i].efficiency =
        (rows[i].step.tokens_per_s / rows[i].ranks) / (first.step.tokens_per_s / first.ranks);
  }
  return rows;
}

}  // namespace sextant
