#include "plan/flow_topology.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "plan/collective.h"

namespace sextant {
namespace {

constexpr size_t kOut = 0, kIn = 1, kNetOut = 2, kNetIn = 3, kLinks = 4;  // of a rank

int link_of(int rank, size_t which) {
  return static_cast<int>(kLinks * static_cast<size_t>(rank) + which);
}

// Members by domain, in order.
std::vector<std::span<const int>> by_domain(std::span<const int> members, int domain) {
  std::vector<std::span<const int>> out;
  for (size_t begin = 0, end = 0; begin < members.size(); begin = end) {
    while (end < members.size() && members[end] / domain == members[begin] / domain) ++end;
    out.push_back(members.subspan(begin, end - begin));
  }
  return out;
}

// One use for each link.
std::vector<FlowUse> merged(std::vector<FlowUse> uses) {
  std::ranges::sort(uses, {}, &FlowUse::link);
  std::vector<FlowUse> out;
  for (const FlowUse& use : uses) {
    if (use.share <= 0) continue;
    if (!out.empty() && out.back().link == use.link)
      out.back().share += use.share;
    else
      out.push_back(use);
  }
  return out;
}

}  // namespace

FlowTopology::FlowTopology(const Hardware& hardware, const Constants& constants, int64_t ranks)
    : domain_(static_cast<int>(used_domain(hardware, ranks))),
      leaf_(hardware.leaf),
      ranks_(ranks),
      has_leaves_(hardware.oversubscribed > 1),
      near_share_(constants.link / constants.to_all),
      far_share_(constants.nic / constants.to_all_far) {
  SXT_CHECK(hardware.torus == 0 && hardware.taper <= 1, Config, hardware.name,
            " is a torus or a tapered domain; the flow level describes domains of equal links and "
            "leaf switches");
  const double inside = hardware.link * constants.link, outside = hardware.nic * constants.nic;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (const double capacity : {inside, inside, outside, outside}) links_.push_back({capacity});
  const int64_t below = int64_t{1} * leaf_ * domain_;
  for (int64_t first = 0; has_leaves_ && first < ranks; first += below)
    for (int side = 0; side < 2; ++side)
      links_.push_back({outside * static_cast<double>(below) / hardware.oversubscribed});
  for (const FlowLink& link : links_) plain_.push_back(link.capacity);
}

void FlowTopology::slow_down(int64_t rank, double factor) {
  for (const size_t which : {kNetOut, kNetIn})
    links_[static_cast<size_t>(link_of(static_cast<int>(rank), which))].capacity /= factor;
}

void FlowTopology::add_leaves(std::vector<FlowUse>& uses, int from, int to, double share) const {
  const int a = from / leaf_, b = to / leaf_;
  if (!has_leaves_ || a == b) return;
  const int first = static_cast<int>(kLinks * static_cast<size_t>(ranks_));
  uses.push_back({first + 2 * a, share});
  uses.push_back({first + 2 * b + 1, share});
}

std::vector<FlowUse> FlowTopology::ring(std::span<const int> members) const {
  std::vector<FlowUse> uses;
  const auto domains = by_domain(members, domain_);
  for (size_t i = 0; i < domains.size(); ++i) {
    const double local = static_cast<double>(domains[i].size());
    const bool leaves = domains.size() > 1;
    for (const int rank : domains[i]) {
      const double inside = leaves ? (local - 1) / local : 1;
      uses.push_back({link_of(rank, kOut), inside});
      uses.push_back({link_of(rank, kIn), inside});
      if (!leaves) continue;
      uses.push_back({link_of(rank, kNetOut), 1 / local});
      uses.push_back({link_of(rank, kNetIn), 1 / local});
    }
    if (leaves)
      add_leaves(uses, domain_of(domains[i][0]), domain_of(domains[(i + 1) % domains.size()][0]),
                 1);
  }
  return merged(std::move(uses));
}

std::vector<FlowUse> FlowTopology::all_to_all(std::span<const int> members, double chosen) const {
  std::vector<FlowUse> uses;
  const auto domains = by_domain(members, domain_);
  const double n = static_cast<double>(members.size());
  const double count = static_cast<double>(domains.size());
  // A token goes once to each domain that it is needed in, and is copied there.
  const double far = std::min(chosen, count) / chosen * (count - 1) / count;
  std::map<int, double> leaf_domains;
  for (const auto& domain : domains) leaf_domains[domain_of(domain[0]) / leaf_] += 1;
  for (const auto& domain : domains) {
    const double near = count > 1 ? 1 : (n - 1) / n;
    for (const int rank : domain) {
      uses.push_back({link_of(rank, kOut), near * near_share_});
      uses.push_back({link_of(rank, kIn), near * near_share_});
      uses.push_back({link_of(rank, kNetOut), far * far_share_});
      uses.push_back({link_of(rank, kNetIn), far * far_share_});
    }
    if (!has_leaves_ || count == 1) continue;
    const int leaf = domain_of(domain[0]) / leaf_;
    const double beyond = (count - leaf_domains[leaf]) / (count - 1);
    const int first = static_cast<int>(kLinks * static_cast<size_t>(ranks_));
    const double all = static_cast<double>(domain.size()) * far * far_share_ * beyond;
    uses.push_back({first + 2 * leaf, all});
    uses.push_back({first + 2 * leaf + 1, all});
  }
  return merged(std::move(uses));
}

std::vector<FlowUse> FlowTopology::message(int from, int to) const {
  if (domain_of(from) == domain_of(to)) return {{link_of(from, kOut), 1}, {link_of(to, kIn), 1}};
  std::vector<FlowUse> uses = {{link_of(from, kNetOut), 1}, {link_of(to, kNetIn), 1}};
  add_leaves(uses, domain_of(from), domain_of(to), 1);
  return uses;
}

double FlowTopology::rate_alone(std::span<const FlowUse> uses) const {
  double rate = INFINITY;
  for (const FlowUse& use : uses)
    if (level_of(static_cast<size_t>(use.link)) != kLeaf)
      rate = std::min(rate, plain_[static_cast<size_t>(use.link)] / use.share);
  return rate;
}

FlowTopology::Level FlowTopology::level_of(size_t link) const {
  if (link >= kLinks * static_cast<size_t>(ranks_)) return kLeaf;
  return link % kLinks < kNetOut ? kNvlink : kNetwork;
}

}  // namespace sextant
