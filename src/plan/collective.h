#pragma once
#include "plan/constants.h"
#include "plan/hardware.h"

namespace sextant {

// A group of ranks as the network sees it: `local` of its members share an NVLink domain.
struct LinkGroup {
  int64_t ranks = 1;
  int64_t local = 1;
  int64_t node = 1;  // members in a node of the domain
};
// Members `stride` ranks apart; domains and nodes have consecutive ranks. Such groups tile the
// `world` ranks, and this is the worst of them: `local` is the least number of members that one has
// in a domain. Without `world` they lie as well as they can.
LinkGroup group_of(int64_t ranks, int64_t stride, const Hardware& hardware, int64_t world = 0);

// Ranks that a job of `world` takes in each domain: whole nodes, as many in each where they divide.
int64_t used_domain(const Hardware& hardware, int64_t world);

enum class CollectiveKind { AllReduce, AllGather, ReduceScatter, AllToAll, Send };

// Seconds of one collective whose full buffer has `bytes` (AllToAll: what a rank holds; Send: the
// message), all groups of this kind running at once. The best of ring, tree and in-switch
// algorithms with NCCL's protocols, whose latencies are those of its tuning table.
double collective_seconds(const Hardware& hardware, const Constants& constants, CollectiveKind kind,
                          double bytes, const LinkGroup& group);

// Bytes per second that the ring of a group sustains at each rank.
double bus_rate(const Hardware& hardware, const Constants& constants, const LinkGroup& group);

// Of a cluster of this many GPUs, at peak rates: bytes per second between its halves, both
// directions together, and bytes of a large buffer that an all-reduce sums per second.
double bisection(const Hardware& hardware, int64_t gpus);
double reduce_rate(const Hardware& hardware, int64_t gpus);

}  // namespace sextant
