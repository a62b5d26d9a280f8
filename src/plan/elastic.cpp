#include "plan/elastic.h"

#include <numeric>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {

ElasticUnit elastic_unit(const FixedAxes& fixed, const Hardware& hardware) {
  const int64_t tp = fixed.tp.value_or(1), cp = fixed.cp.value_or(1), pp = fixed.pp.value_or(1);
  const int64_t etp = fixed.etp.value_or(1), ep = fixed.ep.value_or(1) * etp;
  const int64_t stage = std::lcm(tp * cp, ep);
  const std::string experts = etp > 1 ? "ep × etp = " : "ep ";
  ElasticUnit out;
  const int64_t copy = pp * stage;
  out.gpus = std::lcm(copy, int64_t{hardware.node_gpus});
  out.nodes = out.gpus / hardware.node_gpus;
  std::vector<std::string> factors;
  if (pp > 1) factors.push_back(concat("pp ", pp));
  if (ep > 1 && tp * cp > 1)
    factors.push_back(concat(stage, " ranks of a stage that tp × cp = ", tp * cp, " and ", experts,
                             ep, " divide"));
  else if (stage > 1)
    factors.push_back(concat(ep > 1 ? experts : "tp × cp ", stage));
  if (factors.empty()) factors.push_back("one GPU");
  out.reason =
      concat(join(factors, " × "), " = ", copy, " GPUs, whole nodes of ", hardware.node_gpus, ": ",
             out.gpus, " GPUs = ", out.nodes, out.nodes == 1 ? " node" : " nodes");
  return out;
}

std::vector<ElasticCount> elastic_counts(const FixedAxes& fixed, const Cluster& cluster,
                                         int64_t batch) {
  const ElasticUnit unit = elastic_unit(fixed, cluster.hardware);
  SXT_CHECK(cluster.gpus % unit.gpus == 0, Config, cluster.gpus, " GPUs (",
            cluster.gpus / cluster.hardware.node_gpus, " nodes) are no multiple of ", unit.gpus,
            " GPUs (", unit.nodes, " nodes): ", unit.reason);
  const int64_t copy = fixed.tp.value_or(1) * fixed.cp.value_or(1) * fixed.pp.value_or(1);
  const int64_t micro = fixed.micro.value_or(1);
  std::vector<ElasticCount> out;
  for (int64_t gpus = unit.gpus; gpus <= cluster.gpus; gpus += unit.gpus) {
    ElasticCount one;
    one.gpus = gpus;
    one.nodes = gpus / cluster.hardware.node_gpus;
    one.data_ranks = gpus / copy;
    one.fits_batch = batch == 0 || batch % (one.data_ranks * micro) == 0;
    out.push_back(one);
  }
  return out;
}

}  // namespace sextant
