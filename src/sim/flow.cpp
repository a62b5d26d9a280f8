// An event is the end of a compute step, of a latency, or of a transfer. What runs keeps what is
// left of it, its rate, and since when; a change of the rate gives it a new version, and events of
// older versions are dropped. Rates are computed again only for the transfers that a change can
// reach over shared links. Events at the same time are taken together, so that what starts
// together shares from the start.
#include "sim/flow.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "base/error.h"
#include "sim/flow_classes.h"

namespace sextant {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSameTime = 1e-12;  // relative

// What advances at a rate.
struct FlowWork {
  double left = 0, rate = 0, since = 0;
  int version = 0;
  bool is_running = false;
  void advance(double now) {
    left = std::max(0.0, left - rate * (now - since));
    since = now;
  }
};

struct PostedTransfer {
  double bytes = 0, latency = 0;
};

struct ActiveChannel {
  std::vector<FlowUse> uses;          // of classes of links
  std::vector<int> posters;           // classes of ranks
  std::vector<int> waiting;           // classes of ranks
  std::vector<PostedTransfer> posts;  // in order
  std::vector<int> posted;            // by poster
  int complete = 0;                   // transfers
  enum class State { Idle, Latency, Active } state = State::Idle;
  FlowWork work;
  double bytes = 0;  // moved
  int mark = 0;      // of the search for transfers that share links
};

struct RunningRank {
  size_t next = 0;
  int waits_for = 0;  // complete transfers of the channel that it waits for
  bool is_waiting = false, is_done = false;
  int busy = 0;  // active channels that it posts to
  FlowWork work;
  double finished = 0;
};

struct FlowEvent {
  double time = 0;
  int version = 0;
  bool is_rank = false;
  int index = 0;
  bool operator>(const FlowEvent& other) const { return time > other.time; }
};

class FlowSimulation {
 public:
  FlowSimulation(const FlowCluster& cluster, const FlowClasses& classes)
      : cluster_(cluster), classes_(classes) {
    build_channels();
    ranks_.resize(classes.ranks.size());
    for (size_t i = 0; i < ranks_.size(); ++i) runnable_.push_back(static_cast<int>(i));
  }

  FlowResult run() {
    advance_ranks();
    while (!events_.empty()) {
      const double now = events_.top().time;
      SXT_CHECK(now < kNever, Internal, "a transfer without a rate");
      now_ = now;
      while (!events_.empty() && events_.top().time <= now * (1 + kSameTime)) {
        const FlowEvent event = events_.top();
        events_.pop();
        take(event);
      }
      advance_ranks();
    }
    return result();
  }

 private:
  // One member of a class stands for all: what it touches, counted by class.
  void build_channels() {
    channels_.resize(classes_.channels.size());
    for (size_t i = 0; i < channels_.size(); ++i) {
      const FlowChannel& one = cluster_.channels[static_cast<size_t>(classes_.channels[i])];
      for (const int rank : one.posters)
        channels_[i].posters.push_back(classes_.of_rank[static_cast<size_t>(rank)]);
      std::ranges::sort(channels_[i].posters);
      const auto same = std::ranges::unique(channels_[i].posters);
      channels_[i].posters.erase(same.begin(), same.end());
      channels_[i].posted.resize(channels_[i].posters.size());
    }
    // From the side of the links: shares of all channels of a class that use one link.
    std::vector<int> link_of(cluster_.links.size(), -1);
    for (size_t i = 0; i < classes_.links.size(); ++i)
      link_of[static_cast<size_t>(classes_.links[i])] = static_cast<int>(i);
    for (size_t i = 0; i < cluster_.channels.size(); ++i)
      for (const FlowUse& use : cluster_.channels[i].uses) {
        const int link = link_of[static_cast<size_t>(use.link)];
        if (link < 0) continue;
        std::vector<FlowUse>& uses = channels_[static_cast<size_t>(classes_.of_channel[i])].uses;
        const auto found = std::ranges::find(uses, link, &FlowUse::link);
        if (found == uses.end())
          uses.push_back({link, use.share});
        else
          found->share += use.share;
      }
    on_link_.resize(classes_.links.size());
    for (size_t i = 0; i < channels_.size(); ++i)
      for (const FlowUse& use : channels_[i].uses)
        on_link_[static_cast<size_t>(use.link)].push_back(static_cast<int>(i));
    room_.resize(on_link_.size());
    load_.resize(on_link_.size());
    link_mark_.resize(on_link_.size());
  }

  // Runs everything that takes no time, then gives rates to what has started or ended.
  void advance_ranks() {
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      advance_rank(rank);
    }
    if (!changed_.empty()) share_again();
  }

  void advance_rank(int index) {
    RunningRank& rank = ranks_[static_cast<size_t>(index)];
    const FlowRank& spec =
        cluster_.ranks[static_cast<size_t>(classes_.ranks[static_cast<size_t>(index)])];
    const FlowProgram& program = cluster_.programs[static_cast<size_t>(spec.program)];
    while (rank.next < program.size()) {
      const FlowOp& op = program[rank.next];
      if (op.step == FlowStep::Compute) {
        ++rank.next;
        if (op.amount <= 0) continue;
        rank.work.left = op.amount * spec.slowness;
        rank.work.is_running = true;
        return start(rank.work, rate_of(rank), true, index);
      }
      const int whole = spec.channels[static_cast<size_t>(op.slot)];
      const int channel = classes_.of_channel[static_cast<size_t>(whole)];
      ActiveChannel& one = channels_[static_cast<size_t>(channel)];
      if (op.step == FlowStep::Wait && one.complete < op.count) {
        rank.is_waiting = true;
        rank.waits_for = op.count;
        one.waiting.push_back(index);
        return;
      }
      ++rank.next;
      if (op.step == FlowStep::Post) post(channel, index, op);
    }
    rank.is_done = true;
    rank.finished = now_;
  }

  void post(int channel, int rank, const FlowOp& op) {
    ActiveChannel& one = channels_[static_cast<size_t>(channel)];
    const auto place = std::ranges::lower_bound(one.posters, rank) - one.posters.begin();
    int& posted = one.posted[static_cast<size_t>(place)];
    if (static_cast<size_t>(posted) == one.posts.size())
      one.posts.push_back({op.amount, op.latency});
    ++posted;
    start_next(channel);
  }

  void start_next(int index) {
    ActiveChannel& one = channels_[static_cast<size_t>(index)];
    if (one.state != ActiveChannel::State::Idle || std::ranges::min(one.posted) <= one.complete)
      return;
    const PostedTransfer& next = one.posts[static_cast<size_t>(one.complete)];
    one.state = ActiveChannel::State::Latency;
    one.work.left = next.latency;
    set_busy(one, 1);
    start(one.work, 1, false, index);
  }

  // Compute loses a share of its rate while a transfer of its rank is on its way.
  void set_busy(const ActiveChannel& channel, int change) {
    if (cluster_.overlap == 0) return;
    for (const int index : channel.posters) {
      RunningRank& rank = ranks_[static_cast<size_t>(index)];
      rank.busy += change;
      if (rank.work.is_running) start(rank.work, rate_of(rank), true, index);
    }
  }

  double rate_of(const RunningRank& rank) const { return rank.busy > 0 ? 1 - cluster_.overlap : 1; }

  void start(FlowWork& work, double rate, bool is_rank, int index) {
    if (work.rate > 0) work.advance(now_);
    work.since = now_;
    work.rate = rate;
    ++work.version;
    const double end = work.left <= 0 ? now_ : now_ + work.left / rate;
    events_.push({end, work.version, is_rank, index});
  }

  void take(const FlowEvent& event) {
    ++taken_;
    if (event.is_rank) {
      RunningRank& rank = ranks_[static_cast<size_t>(event.index)];
      if (event.version != rank.work.version) return;
      rank.work.is_running = false;
      rank.work.rate = 0;
      ++rank.work.version;
      runnable_.push_back(event.index);
      return;
    }
    ActiveChannel& one = channels_[static_cast<size_t>(event.index)];
    if (event.version != one.work.version) return;
    ++one.work.version;
    one.work.rate = 0;
    const double bytes = one.posts[static_cast<size_t>(one.complete)].bytes;
    if (one.state == ActiveChannel::State::Latency && bytes > 0 && !one.uses.empty()) {
      one.state = ActiveChannel::State::Active;
      one.work.left = bytes;
      one.work.since = now_;
      changed_.push_back(event.index);
      return;
    }
    if (one.state == ActiveChannel::State::Active) changed_.push_back(event.index);
    one.bytes += bytes;
    complete(event.index);
  }

  void complete(int index) {
    ActiveChannel& one = channels_[static_cast<size_t>(index)];
    one.state = ActiveChannel::State::Idle;
    ++one.complete;
    set_busy(one, -1);
    std::erase_if(one.waiting, [&](int waiting) {
      RunningRank& rank = ranks_[static_cast<size_t>(waiting)];
      if (rank.waits_for > one.complete) return false;
      rank.is_waiting = false;
      runnable_.push_back(waiting);
      return true;
    });
    start_next(index);
  }

  // The active transfers that share links with those that changed, directly or through others.
  std::vector<int> reached() {
    ++mark_;
    std::vector<int> out, todo;
    for (const int index : changed_) {  // one that ended and started again is there twice
      int& mark = channels_[static_cast<size_t>(index)].mark;
      if (mark != mark_) todo.push_back(index);
      mark = mark_;
    }
    changed_.clear();
    while (!todo.empty()) {
      const int index = todo.back();
      todo.pop_back();
      const ActiveChannel& one = channels_[static_cast<size_t>(index)];
      if (one.state == ActiveChannel::State::Active) out.push_back(index);
      for (const FlowUse& use : one.uses) {
        if (link_mark_[static_cast<size_t>(use.link)] == mark_) continue;
        link_mark_[static_cast<size_t>(use.link)] = mark_;
        for (const int other : on_link_[static_cast<size_t>(use.link)]) {
          ActiveChannel& neighbour = channels_[static_cast<size_t>(other)];
          if (neighbour.mark == mark_ || neighbour.state != ActiveChannel::State::Active) continue;
          neighbour.mark = mark_;
          todo.push_back(other);
        }
      }
    }
    return out;
  }

  void share_again() {
    const std::vector<int> active = reached();
    if (active.empty()) return;
    std::vector<int> links, open = active;
    for (const int index : active)
      for (const FlowUse& use : channels_[static_cast<size_t>(index)].uses) {
        const auto link = static_cast<size_t>(use.link);
        if (link_mark_[link] != -mark_) {
          link_mark_[link] = -mark_;
          room_[link] = cluster_.links[static_cast<size_t>(classes_.links[link])].capacity;
          load_[link] = 0;
          links.push_back(use.link);
        }
        load_[link] += use.share;
      }
    while (!open.empty()) {
      double level = kNever;
      for (const int link : links)
        if (load_[static_cast<size_t>(link)] > kSameTime)
          level =
              std::min(level, room_[static_cast<size_t>(link)] / load_[static_cast<size_t>(link)]);
      freeze(open, level);
    }
  }

  // Transfers over a link that is full at this rate keep it.
  void freeze(std::vector<int>& open, double level) {
    std::vector<int> frozen;
    std::erase_if(open, [&](int index) {
      const ActiveChannel& one = channels_[static_cast<size_t>(index)];
      const bool is_full = std::ranges::any_of(one.uses, [&](const FlowUse& use) {
        const auto link = static_cast<size_t>(use.link);
        return room_[link] <= level * load_[link] * (1 + kSameTime);
      });
      if (is_full) frozen.push_back(index);
      return is_full;
    });
    SXT_CHECK(!frozen.empty(), Internal, "transfers without a link at rate ", level);
    for (const int index : frozen) {
      ActiveChannel& one = channels_[static_cast<size_t>(index)];
      for (const FlowUse& use : one.uses) {
        room_[static_cast<size_t>(use.link)] -= level * use.share;
        load_[static_cast<size_t>(use.link)] -= use.share;
      }
      if (one.work.rate != level) start(one.work, level, false, index);
    }
  }

  FlowResult result() {
    FlowResult out;
    out.events = taken_;
    out.rank_classes = static_cast<int>(ranks_.size());
    out.channel_classes = static_cast<int>(channels_.size());
    out.link_classes = static_cast<int>(on_link_.size());
    for (size_t i = 0; i < ranks_.size(); ++i) {
      SXT_CHECK(ranks_[i].is_done, Config, "flow simulation: rank ", classes_.ranks[i],
                " waits forever at step ", ranks_[i].next, " of its program");
      out.seconds = std::max(out.seconds, ranks_[i].finished);
    }
    for (const int rank : classes_.of_rank)
      out.finished.push_back(ranks_[static_cast<size_t>(rank)].finished);
    std::vector<double> bytes(on_link_.size(), 0);
    for (const ActiveChannel& one : channels_)
      for (const FlowUse& use : one.uses)
        bytes[static_cast<size_t>(use.link)] += one.bytes * use.share;
    for (const int link : classes_.of_link)
      out.link_bytes.push_back(bytes[static_cast<size_t>(link)]);
    return out;
  }

  const FlowCluster& cluster_;
  const FlowClasses& classes_;
  std::vector<ActiveChannel> channels_;
  std::vector<RunningRank> ranks_;
  std::vector<std::vector<int>> on_link_;
  std::vector<double> room_, load_;
  std::vector<int> link_mark_;
  std::vector<int> runnable_, changed_;
  std::priority_queue<FlowEvent, std::vector<FlowEvent>, std::greater<>> events_;
  double now_ = 0;
  int mark_ = 0;
  int64_t taken_ = 0;
};

}  // namespace

FlowResult simulate_flows(const FlowCluster& cluster, FlowDetail detail) {
  const FlowClasses classes =
      detail == FlowDetail::ByClass ? classes_of(cluster) : no_classes(cluster);
  return FlowSimulation(cluster, classes).run();
}

}  // namespace sextant
