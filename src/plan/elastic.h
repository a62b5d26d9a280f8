#pragma once
#include <string>
#include <vector>

#include "plan/search.h"

namespace sextant {

// The smallest group of GPUs that a model copy with all its experts fills, and with which a cluster
// can grow: pp * lcm(tp * cp, ep) GPUs, rounded up to whole nodes.
struct ElasticUnit {
  int64_t gpus = 1, nodes = 1;
  std::string reason;  // "pp 16 × ep 16 = 256 GPUs = 32 nodes of 8"
};
ElasticUnit elastic_unit(const FixedAxes& fixed, const Hardware& hardware);

// A cluster of whole units; `fits_batch`: the data ranks divide the batch (true without one).
struct ElasticCount {
  int64_t nodes = 0, gpus = 0, data_ranks = 0;
  bool fits_batch = true;
};
// All counts up to the cluster, smallest first. Error(Config) where the cluster itself is none.
std::vector<ElasticCount> elastic_counts(const FixedAxes& fixed, const Cluster& cluster,
                                         int64_t batch);

}  // namespace sextant
