#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "plan/search.h"

namespace sextant {

// A term of a step, with the bytes that a rank of a middle stage sends for it.
struct LayoutTerm {
  std::string name;
  double seconds = 0;
  double bytes = 0;
  std::string bound;  // compute, memory, network, latency or waiting
};
std::vector<LayoutTerm> layout_terms(const Case& asked, const Constants& constants);

// Bytes that a rank of a middle stage sends in one step, by axis; of one or two stages, of the
// fullest, which has embedding or head.
struct AxisBytes {
  double tp = 0, cp = 0, ep = 0, pp = 0, data = 0;
};
AxisBytes axis_bytes(const Case& asked);

// The size of an all-gather whose latency and bandwidth terms are equal in a group.
double balanced_bytes(const Hardware& hardware, const Constants& constants, int64_t ranks,
                      int64_t stride, int64_t world);

// A layout that somebody chose, as the planner prices it. Error(Config) for a schedule from a file.
Layout layout_of(const Config& config);
// Model, batch and number format of a configuration on a cluster, priced as `train` runs it.
PlanRequest request_of(const Config& config, const Cluster& cluster);

}  // namespace sextant
