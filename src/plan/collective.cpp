#include "plan/collective.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sextant {
namespace {

// NCCL's tuning table: base and hop latencies in seconds, share of the bandwidth.
struct Protocol {
  double base, intra, inter, rate;
};
constexpr Protocol kRing[] = {{6.6e-6, 0.6e-6, 2.7e-6, 0.25},
                              {14.0e-6, 1.9e-6, 4.0e-6, 0.92},
                              {8.4e-6, 3.4e-6, 28.0e-6, 1.0}};
constexpr Protocol kTree[] = {{6.8e-6, 0.6e-6, 5.0e-6, 0.25},
                              {14.0e-6, 1.25e-6, 8.5e-6, 0.92},
                              {8.4e-6, 4.0e-6, 28.0e-6, 0.92}};
constexpr double kSwitchLatency = 25e-6;  // sums in the NVLink switch
constexpr double kSwitchRate = 0.8;       // of the link

double ring(const Constants& constants, double passes, double bytes, const LinkGroup& group,
            double rate) {
  const double n = static_cast<double>(group.ranks);
  const double nodes = std::ceil(n / static_cast<double>(group.local));
  const double steps = passes * (n - 1);
  const double inter = nodes > 1 ? passes * nodes : 0;
  double best = INFINITY;
  for (const Protocol& p : kRing) {
    const double hops = (steps - inter) * p.intra + inter * p.inter;
    const double wire = passes * (n - 1) / n * bytes / (rate * p.rate);
    best = std::min(best, p.base + constants.latency * hops + wire);
  }
  return best;
}

double tree(const Constants& constants, double bytes, const LinkGroup& group, double rate) {
  const double nodes =
      std::ceil(static_cast<double>(group.ranks) / static_cast<double>(group.local));
  double best = INFINITY;
  for (const Protocol& p : kTree) {
    const double hops =
        2 * ((static_cast<double>(group.local) - 1) * p.intra + std::log2(nodes) * p.inter);
    best = std::min(best, p.base + constants.latency * hops + 2 * bytes / (rate * p.rate));
  }
  return best;
}

// Whether a group does not share a leaf switch, so that it meets in the levels above.
bool is_spread(const Hardware& hardware, const LinkGroup& group) {
  return group.ranks > hardware.leaf * group.local;
}

double network_rate(const Hardware& hardware, const LinkGroup& group) {
  return is_spread(hardware, group) ? hardware.nic / hardware.oversubscribed : hardware.nic;
}

// GPUs along one axis of a torus.
double side_of(const Hardware& hardware, int64_t gpus) {
  return std::pow(static_cast<double>(gpus), 1.0 / hardware.torus);
}

// A ring inside a domain. On a torus it runs both ways along every axis that the group spans; where
// links fall between nodes, it leaves and enters a node over those of all its members there.
double rate_inside(const Hardware& hardware, const LinkGroup& group) {
  if (hardware.torus > 0) {
    const double side = std::max(2.0, side_of(hardware, hardware.domain));
    const double axes =
        std::log2(static_cast<double>(std::max<int64_t>(group.local, 2))) / std::log2(side);
    return 2 * hardware.link * std::clamp(std::ceil(axes - 1e-9), 1.0, 1.0 * hardware.torus);
  }
  if (group.local <= group.node) return hardware.link;
  return std::min(hardware.link, hardware.link / hardware.taper * static_cast<double>(group.node));
}

// All-to-all of `bytes` a rank inside the domain. On a torus a byte travels a quarter of each axis.
double to_all_inside(const Hardware& hardware, double bytes, const LinkGroup& group) {
  const double local = static_cast<double>(group.local), node = static_cast<double>(group.node);
  if (hardware.torus > 0) return bytes * side_of(hardware, group.local) / 8 / hardware.link;
  const double leaving = local > node ? bytes * (local - node) / local * hardware.taper : 0;
  return std::max(bytes, leaving) / hardware.link;
}

// The shortest run of ranks that a block of `block` has in a domain of `gpus`, over all blocks of
// the world.
int64_t least_piece(int64_t block, int64_t gpus, int64_t world) {
  if (gpus % block == 0 || world <= gpus) return std::min(block, gpus);
  if (block % gpus == 0) return gpus;
  const int64_t blocks = world / block, common = std::gcd(block, gpus);
  if (blocks >= gpus / common) return common;  // ends of blocks lie everywhere in a domain
  int64_t least = std::min(block, gpus);
  for (int64_t i = 1; i <= blocks; ++i) {
    const int64_t before = i * block % gpus;
    if (before == 0) continue;
    least = std::min(least, before);
    if (i < blocks) least = std::min(least, gpus - before);
  }
  return least;
}

}  // namespace

int64_t used_domain(const Hardware& hardware, int64_t world) {
  if (world <= hardware.domain) return hardware.domain;
  for (int64_t used = hardware.domain; 2 * used > hardware.domain; used -= hardware.node_gpus)
    if (world % used == 0) return used;  // 256 GPUs take 64 of each 72
  return hardware.domain;
}

LinkGroup group_of(int64_t ranks, int64_t stride, const Hardware& hardware, int64_t world) {
  const auto within = [&](int64_t gpus) {
    const int64_t piece = least_piece(ranks * stride, gpus, world);
    return std::clamp<int64_t>(piece / std::max<int64_t>(stride, 1), 1, ranks);
  };
  const int64_t local = within(used_domain(hardware, world));
  return {ranks, local, std::min(local, within(hardware.node_gpus))};
}

double bus_rate(const Hardware& hardware, const Constants& constants, const LinkGroup& group) {
  const double inside = rate_inside(hardware, group) * constants.link;
  if (group.local >= group.ranks) return inside;
  // A ring enters and leaves each domain over the NICs of all its members there.
  const double outside =
      network_rate(hardware, group) * constants.nic * static_cast<double>(group.local) *
      (is_spread(hardware, group) ? 1 - hardware.static_routes * (1 - constants.far) : 1);
  return std::min(inside, outside);
}

double bisection(const Hardware& hardware, int64_t gpus) {
  const double n = static_cast<double>(gpus);
  if (gpus > hardware.domain) {
    const LinkGroup all{gpus, hardware.domain, hardware.node_gpus};
    return n * network_rate(hardware, all);
  }
  if (hardware.torus > 0) return 4 * n / side_of(hardware, gpus) * hardware.link;
  return n * hardware.link / (gpus > hardware.node_gpus ? hardware.taper : 1);
}

double reduce_rate(const Hardware& hardware, int64_t gpus) {
  const LinkGroup all = group_of(gpus, 1, hardware);
  const double inside = rate_inside(hardware, all) / (has_switch_sums(hardware) ? 1 : 2);
  if (gpus <= hardware.domain) return inside;
  return std::min(inside, network_rate(hardware, all) * static_cast<double>(all.local) / 2);
}

double collective_seconds(const Hardware& hardware, const Constants& constants, CollectiveKind kind,
                          double bytes, const LinkGroup& group) {
  if (group.ranks <= 1 && kind != CollectiveKind::Send) return 0;
  const double rate = bus_rate(hardware, constants, group);
  const double n = static_cast<double>(group.ranks);
  switch (kind) {
    case CollectiveKind::AllReduce: {
      double best = ring(constants, 2, bytes, group, rate);
      best = std::min(best, tree(constants, bytes, group, rate));
      if (group.local >= group.ranks && group.ranks >= 4 && has_switch_sums(hardware))
        best = std::min(
            best, constants.latency * kSwitchLatency + bytes * (n + 1) / n / (rate * kSwitchRate));
      return best;
    }
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
      return ring(constants, 1, bytes, group, rate);
    case CollectiveKind::AllToAll: {
      const double local = static_cast<double>(group.local);
      const double inside =
          to_all_inside(hardware, bytes * (local - 1) / n, group) / constants.to_all;
      const double outside =
          bytes * (n - local) / n / (network_rate(hardware, group) * constants.to_all_far);
      return constants.latency * (kRing[2].base + 2e-6 * (n - 1)) + std::max(inside, outside);
    }
    case CollectiveKind::Send: {
      const bool near = group.local >= 2;
      const double speed = near ? hardware.link * constants.link : hardware.nic * constants.nic;
      return constants.latency * (near ? 6e-6 : 14e-6) + bytes / speed;
    }
  }
  return 0;
}

}  // namespace sextant
