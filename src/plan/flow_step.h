#pragma once
#include <optional>
#include <string>

#include "plan/step_time.h"
#include "sim/flow.h"

namespace sextant {

// One rank whose compute takes `factor` times as long, or whose network link has 1 / factor of its
// rate.
struct SlowPart {
  int64_t rank = 0;
  double factor = 1;
};

struct FlowStepRequest {
  Case asked;
  std::optional<SlowPart> slow_rank = {}, slow_link = {};
};

// Links of one level, by the share of the step that their capacity would take to move what they
// moved.
struct LevelLoad {
  std::string level;
  int64_t links = 0;
  double mean = 0, most = 0;
};

struct FlowStepTime {
  FlowResult flow;
  std::vector<LevelLoad> levels;  // NVLink, network, leaf switches up where they are oversubscribed
  int64_t channels = 0;
};

// The cluster of a case: NVLink and network links of each rank, leaf switches of eight domains, the
// groups of every axis, and the program of each pipeline rank. A transfer moves as many bytes as
// make it take, alone, what the closed form says. Error(Config) for a torus and for a tapered
// domain, whose links it does not describe.
FlowCluster flow_cluster(const FlowStepRequest& request, const Constants& constants);

// One step: what every rank does, with transfers that share links.
FlowStepTime flow_step_time(const FlowStepRequest& request, const Constants& constants);

}  // namespace sextant
