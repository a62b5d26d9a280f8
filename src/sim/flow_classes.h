#pragma once
#include "sim/flow.h"

namespace sextant {

// Classes of ranks, channels and links such that members of a class have, class by class, the same
// neighbours: a rank the channels in its slots, a channel its posters and the shares of links it
// uses, a link the channels that use it. Max-min fair rates are unique, so members of a class have
// the same rates and times, and one of them stands for all.
struct FlowClasses {
  std::vector<int> of_rank, of_channel, of_link;
  // One member of each class.
  std::vector<int> ranks, channels, links;
};

// The coarsest such classes, by colour refinement from programs, kinds and capacities on.
FlowClasses classes_of(const FlowCluster& cluster);
// Everything by itself.
FlowClasses no_classes(const FlowCluster& cluster);

}  // namespace sextant
