#pragma once
#include <cstdint>
#include <vector>

namespace sextant {

// A cluster at flow level: ranks run programs of compute and transfers, transfers share links.
// The transfers of a channel run in order, one at a time. Those of different channels that are
// active together share links by max-min fairness: all rates rise together until a link is full;
// transfers over it keep theirs, the others rise on.
struct FlowLink {
  double capacity = 0;  // bytes per second
};

// Bytes on a link for each byte of a transfer.
struct FlowUse {
  int link = 0;
  double share = 1;
};

// A group of ranks that moves data together: a collective's group, or the sender and the receiver
// of messages. All its flows advance at one rate, as the steps of a ring do.
struct FlowChannel {
  int kind = 0;              // channels of different kinds are never taken for each other
  std::vector<int> posters;  // a transfer starts when all of them have posted it
  std::vector<FlowUse> uses;
};

enum class FlowStep : uint8_t {
  Compute,  // `amount` seconds
  Post,     // a transfer of `amount` bytes after `latency`; the rank goes on
  Wait      // until `count` transfers of the channel are complete
};

struct FlowOp {
  FlowStep step = FlowStep::Compute;
  int slot = 0;  // of the rank's channels
  int count = 0;
  double amount = 0, latency = 0;
};
using FlowProgram = std::vector<FlowOp>;

struct FlowRank {
  int program = 0;
  double slowness = 1;             // of its compute
  std::vector<int> channels = {};  // by slot; -1: none
};

struct FlowCluster {
  std::vector<FlowLink> links;
  std::vector<FlowChannel> channels;
  std::vector<FlowRank> ranks;
  std::vector<FlowProgram> programs;
  // Share of its rate that a rank's compute loses while a channel that it posts to is active.
  double overlap = 0;
};

struct FlowResult {
  double seconds = 0;              // until the last rank has finished
  std::vector<double> finished;    // by rank
  std::vector<double> link_bytes;  // by link
  int64_t events = 0;
  int rank_classes = 0, channel_classes = 0, link_classes = 0;
};

// Error(Config) on deadlock. `Exactly` simulates every rank, channel and link; `ByClass` one of
// each class of those that behave alike (flow_classes.h), with the same result.
enum class FlowDetail { Exactly, ByClass };
FlowResult simulate_flows(const FlowCluster& cluster, FlowDetail detail);

}  // namespace sextant
