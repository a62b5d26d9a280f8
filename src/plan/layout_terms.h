#pragma once
#include <string>
#include <vector>

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

// One message at a level of the topology takes latency + bytes / rate.
struct NetworkLevel {
  std::string name;
  double latency = 0, rate = 0;
  double equal_bytes() const { return latency * rate; }
};
std::vector<NetworkLevel> network_levels(const Case& asked, const Constants& constants);

// The groups of each axis with more than one rank: latency of an all-gather, and the size at which
// its bandwidth takes as long (pp: between neighbours).
struct AxisLatency {
  std::string axis;
  int64_t ranks = 1;
  double latency = 0, equal_bytes = 0;
};
std::vector<AxisLatency> axis_latencies(const Case& asked, const Constants& constants);

// What ZeRO-3 and tensor parallel over many ranks send of one layer for a micro-batch: parameters
// or activations. Below `equal_tokens` of a micro-batch ZeRO-3 sends more.
struct StatesOrActivations {
  double parameter_bytes = 0, activation_bytes = 0;
  double tokens = 0, equal_tokens = 0;
};
StatesOrActivations states_or_activations(const Case& asked);

}  // namespace sextant
