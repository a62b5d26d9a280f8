#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "plan/search.h"

namespace sextant {

// A layout that somebody chose, as the planner prices it. Error(Config) for a schedule from a file.
Layout layout_of(const Config& config);
// Model, batch, number formats and policies of a configuration on a cluster, priced as `train` runs
// it.
PlanRequest request_of(const Config& config, const Cluster& cluster);
// Both together, with the stages of parallel.split.
Case case_of(const Config& config, const Cluster& cluster);
// Layers of the pipeline ranks with parallel.split = `split`; nothing where it is even.
StageLayers split_of(const ModelConfig& model, const Layout& layout, const std::string& split);
// Settings that cost time or memory and have no model, such as "parallel.ep_node = 4".
std::vector<std::string> not_priced(const Config& config);

}  // namespace sextant
