#include "plan/flow_step.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "plan/flow_program.h"
#include "plan/flow_topology.h"
#include "plan/pipeline_times.h"

namespace sextant {
namespace {

// Groups of `count` ranks `stride` apart that tile the ranks in order.
class ClusterMaker {
 public:
  ClusterMaker(const FlowStepRequest& request, const Constants& constants)
      : request_(request),
        layout_(request.asked.layout),
        flat_(request.asked),
        constants_(constants),
        topology_(request.asked.hardware, constants, request.asked.layout.world()) {
    flat_.hardware.oversubscribed = 1;  // the links say what is shared
    SXT_CHECK(layout_.world() <= kMaxRanks, Config, "the layout has ", layout_.world(),
              " ranks: at most ", kMaxRanks);
    world_ = static_cast<int>(layout_.world());
    stage_ = world_ / layout_.pp;
    rates_.assign(kFlowSlots, INFINITY);
  }

  FlowCluster make() {
    for (int rank = 0; rank < world_; ++rank)
      out_.ranks.push_back({rank / stage_, 1, std::vector<int>(kFlowSlots, -1)});
    const RankTimes times = rank_times(flat_, constants_);
    const StateTraffic traffic = state_traffic(flat_, constants_);
    const Schedule schedule = pipeline_schedule(flat_, times);
    add_groups(traffic);
    if (layout_.pp > 1) add_messages(schedule);
    const std::vector<RankTime> stages = stage_times(layout_, times, schedule);
    const double optimizer = step_time(flat_, constants_).optimizer;
    for (int p = 0; p < layout_.pp; ++p)
      out_.programs.push_back(
          flow_program({flat_, schedule, stages, traffic, times.message, optimizer}, p, rates_));
    disturb();
    out_.links = topology_.links();
    out_.overlap = flat_.practice.grads_overlap ? constants_.overlap : 0;
    return std::move(out_);
  }

 private:
  void add_groups(const StateTraffic& traffic) {
    const auto ring = [&](const std::vector<int>& members) { return topology_.ring(members); };
    const int inside = layout_.etp;
    const double chosen =
        static_cast<double>(std::max<int64_t>(1, request_.asked.shape.experts_per_token));
    add_axis(kSlotTp, layout_.tp, 1, ring);
    add_axis(kSlotCp, layout_.cp, layout_.tp, ring);
    add_axis(kSlotEp, layout_.ep, inside, [&](const std::vector<int>& members) {
      return topology_.all_to_all(members, chosen);
    });
    const auto state = [&](const StateTraffic::Group& group, int shard, int copies) {
      add_axis(shard, group.sharded, group.stride, ring);
      add_axis(copies, group.copies, group.stride * group.sharded, ring);
    };
    state(traffic.dense, kSlotShard, kSlotCopies);
    if (request_.asked.shape.experts > 0)
      state(traffic.experts, kSlotExpertShard, kSlotExpertCopies);
  }

  void add_axis(int slot, int64_t count, int64_t stride, const auto& uses) {
    if (count <= 1) return;
    const int n = static_cast<int>(count), step = static_cast<int>(stride);
    std::vector<int> members(static_cast<size_t>(n));
    for (int block = 0; block < world_; block += n * step)
      for (int first = block; first < std::min(block + step, world_); ++first) {
        for (int i = 0; i < n; ++i) members[static_cast<size_t>(i)] = first + i * step;
        add_channel(slot, members, uses(members));
      }
  }

  void add_channel(int slot, const std::vector<int>& posters, std::vector<FlowUse> uses) {
    const int index = static_cast<int>(out_.channels.size());
    // The closed form is that of the slowest group.
    double& rate = rates_[static_cast<size_t>(slot)];
    rate = std::min(rate, topology_.rate_alone(uses));
    for (const int rank : posters)
      out_.ranks[static_cast<size_t>(rank)].channels[static_cast<size_t>(slot)] = index;
    out_.channels.push_back({slot, posters, std::move(uses)});
  }

  // Messages between ranks of neighbouring places in the pipeline, as far as the schedule has any.
  void add_messages(const Schedule& schedule) {
    for (int p = 0; p < layout_.pp; ++p)
      for (const Kind kind : {Kind::SendF, Kind::SendB})
        for (const bool is_next : {true, false}) {
          const int peer = (p + (is_next ? 1 : layout_.pp - 1)) % layout_.pp;
          if (!is_next && peer == (p + 1) % layout_.pp) continue;
          const bool used = std::ranges::any_of(
              schedule.ranks[static_cast<size_t>(p)], [&](const Action& action) {
                const int step = kind == Kind::SendF ? 1 : -1;
                return action.kind == kind &&
                       schedule.rank_of(action.stage + step, action.micro) == peer;
              });
          if (used) add_edges(p, peer, is_next, kind == Kind::SendF ? 0 : 1);
        }
  }

  void add_edges(int from_place, int to_place, bool is_next, int kind) {
    const int slot = (is_next ? kSlotNextF : kSlotPrevF) + kind;
    const int there = (is_next ? kSlotFromPrevF : kSlotFromNextF) + kind;
    for (int i = 0; i < stage_; ++i) {
      const int from = from_place * stage_ + i, to = to_place * stage_ + i;
      add_channel(slot, {from}, topology_.message(from, to));
      out_.ranks[static_cast<size_t>(to)].channels[static_cast<size_t>(there)] =
          static_cast<int>(out_.channels.size()) - 1;
    }
  }

  void disturb() {
    const auto check = [&](const SlowPart& part) {
      SXT_CHECK(part.rank >= 0 && part.rank < world_, Config, "rank ", part.rank,
                " is not one of 0 to ", world_ - 1);
      SXT_CHECK(part.factor >= 1, Config, "a slow part is ", part.factor,
                " times slower; it takes 1 or more");
    };
    if (request_.slow_rank) {
      check(*request_.slow_rank);
      out_.ranks[static_cast<size_t>(request_.slow_rank->rank)].slowness =
          request_.slow_rank->factor;
    }
    if (request_.slow_link) {
      check(*request_.slow_link);
      topology_.slow_down(request_.slow_link->rank, request_.slow_link->factor);
    }
  }

  const FlowStepRequest& request_;
  const Layout& layout_;
  Case flat_;
  const Constants& constants_;
  FlowTopology topology_;
  FlowCluster out_;
  std::vector<double> rates_;
  int world_ = 1, stage_ = 1;
};

std::vector<LevelLoad> loads_of(const FlowStepRequest& request, const Constants& constants,
                                const FlowCluster& cluster, const FlowResult& flow) {
  const FlowTopology topology(request.asked.hardware, constants, request.asked.layout.world());
  std::vector<LevelLoad> levels = {{"NVLink"}, {"network"}, {"leaf switches"}};
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    LevelLoad& level = levels[static_cast<size_t>(topology.level_of(i))];
    const double load = flow.link_bytes[i] / (cluster.links[i].capacity * flow.seconds);
    ++level.links;
    level.mean += load;
    level.most = std::max(level.most, load);
  }
  std::erase_if(levels, [](const LevelLoad& level) { return level.links == 0; });
  for (LevelLoad& level : levels) level.mean /= static_cast<double>(level.links);
  return levels;
}

}  // namespace

FlowCluster flow_cluster(const FlowStepRequest& request, const Constants& constants) {
  return ClusterMaker(request, constants).make();
}

FlowStepTime flow_step_time(const FlowStepRequest& request, const Constants& constants) {
  const FlowCluster cluster = flow_cluster(request, constants);
  FlowStepTime out;
  out.flow = simulate_flows(cluster, FlowDetail::ByClass);
  out.levels = loads_of(request, constants, cluster, out.flow);
  out.channels = static_cast<int64_t>(cluster.channels.size());
  return out;
}

}  // namespace sextant
