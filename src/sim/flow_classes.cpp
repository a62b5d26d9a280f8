// NodeColours are 64-bit hashes. A round gives each node the hash of its colour and of its
// neighbours' colours; sets are hashed as sums, so their order does not matter. Rounds go on until
// the number of colours stays the same.
#include "sim/flow_classes.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>

namespace sextant {
namespace {

using NodeColour = uint64_t;

NodeColour mixed(NodeColour value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

NodeColour joined(NodeColour a, NodeColour b) {
  return mixed(a ^ std::rotl(mixed(b), 17));
}

struct NodeColours {
  std::vector<NodeColour> ranks, channels, links;
};

NodeColours first_colours(const FlowCluster& cluster) {
  NodeColours out;
  for (const FlowRank& rank : cluster.ranks)
    out.ranks.push_back(
        joined(static_cast<NodeColour>(rank.program), std::bit_cast<NodeColour>(rank.slowness)));
  for (const FlowChannel& channel : cluster.channels)
    out.channels.push_back(mixed(static_cast<NodeColour>(channel.kind) + 7));
  for (const FlowLink& link : cluster.links)
    out.links.push_back(std::bit_cast<NodeColour>(link.capacity));
  return out;
}

// The new colours of channels come from the old ones of ranks and links, and the other way around.
NodeColours next_colours(const FlowCluster& cluster, const NodeColours& old) {
  NodeColours out = old;
  std::vector<NodeColour> on_link(cluster.links.size(), 0);
  for (size_t i = 0; i < cluster.channels.size(); ++i) {
    const FlowChannel& channel = cluster.channels[i];
    NodeColour posters = 0, uses = 0;
    for (const int rank : channel.posters) posters += mixed(old.ranks[static_cast<size_t>(rank)]);
    for (const FlowUse& use : channel.uses) {
      const auto share = std::bit_cast<NodeColour>(use.share);
      uses += joined(old.links[static_cast<size_t>(use.link)], share);
      on_link[static_cast<size_t>(use.link)] += joined(old.channels[i], share);
    }
    out.channels[i] = joined(joined(old.channels[i], posters), uses);
  }
  for (size_t i = 0; i < cluster.links.size(); ++i) out.links[i] = joined(old.links[i], on_link[i]);
  for (size_t i = 0; i < cluster.ranks.size(); ++i) {
    NodeColour all = old.ranks[i];
    for (const int channel : cluster.ranks[i].channels)
      all = joined(all, channel < 0 ? 1 : old.channels[static_cast<size_t>(channel)]);
    out.ranks[i] = all;
  }
  return out;
}

// Numbers the colours in the order of their first member.
void number_nodes(const std::vector<NodeColour>& colours, std::vector<int>& of,
                  std::vector<int>& members) {
  std::unordered_map<NodeColour, int> seen;
  of.clear();
  members.clear();
  for (size_t i = 0; i < colours.size(); ++i) {
    const auto [found, is_new] = seen.emplace(colours[i], static_cast<int>(members.size()));
    if (is_new) members.push_back(static_cast<int>(i));
    of.push_back(found->second);
  }
}

FlowClasses numbered(const NodeColours& colours) {
  FlowClasses out;
  number_nodes(colours.ranks, out.of_rank, out.ranks);
  number_nodes(colours.channels, out.of_channel, out.channels);
  number_nodes(colours.links, out.of_link, out.links);
  return out;
}

}  // namespace

FlowClasses classes_of(const FlowCluster& cluster) {
  NodeColours colours = first_colours(cluster);
  FlowClasses classes = numbered(colours);
  const auto count = [](const FlowClasses& one) {
    return one.ranks.size() + one.channels.size() + one.links.size();
  };
  for (;;) {
    colours = next_colours(cluster, colours);
    FlowClasses finer = numbered(colours);
    const bool is_stable = count(finer) == count(classes);
    classes = std::move(finer);
    if (is_stable) return classes;
  }
}

FlowClasses no_classes(const FlowCluster& cluster) {
  FlowClasses out;
  const auto all = [](size_t n) {
    std::vector<int> numbers(n);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  };
  out.of_rank = out.ranks = all(cluster.ranks.size());
  out.of_channel = out.channels = all(cluster.channels.size());
  out.of_link = out.links = all(cluster.links.size());
  return out;
}

}  // namespace sextant
