#pragma once
#include <span>
#include <vector>

#include "plan/constants.h"
#include "plan/hardware.h"
#include "sim/flow.h"

namespace sextant {

// Links of a cluster and the paths of groups over them. Every rank has a link into and out of its
// NVLink domain's switch, and one to and from the network; as many domains as the hardware says
// share a leaf switch, whose links upwards are oversubscribed.
class FlowTopology {
 public:
  FlowTopology(const Hardware& hardware, const Constants& constants, int64_t ranks);

  const std::vector<FlowLink>& links() const { return links_; }
  void slow_down(int64_t rank, double factor);  // its link to the network

  // A ring enters and leaves each domain over the network links of all its members there.
  std::vector<FlowUse> ring(std::span<const int> members) const;
  // Every member sends to every other; `copies` of a token go to other domains, of `chosen` that it
  // has.
  std::vector<FlowUse> all_to_all(std::span<const int> members, double chosen) const;
  std::vector<FlowUse> message(int from, int to) const;

  // Bytes per second of a transfer alone, leaf switches not counted.
  double rate_alone(std::span<const FlowUse> uses) const;

  enum Level { kNvlink, kNetwork, kLeaf };
  Level level_of(size_t link) const;

 private:
  int domain_of(int rank) const { return rank / domain_; }
  void add_leaves(std::vector<FlowUse>& uses, int from_domain, int to_domain, double share) const;

  int domain_ = 1;
  int leaf_ = 1;  // domains
  int64_t ranks_ = 0;
  bool has_leaves_ = false;
  double near_share_ = 1, far_share_ = 1;  // of all-to-all, whose rate is lower
  std::vector<FlowLink> links_;
  std::vector<double> plain_;  // capacities without what is slow
};

}  // namespace sextant
