// Start times depend on inputs alone, so one walk through the graph of operations suffices, in any
// topological order. A collective or message is a meeting: one operation of each member, with the
// same start and end. Where ranks share cores, operations end in order of time instead: all that
// run advance at the same pace, so an operation ends when the work that an undisturbed core would
// have done since its start equals its seconds.
#include "sim/trace_time.h"

#include <algorithm>
#include <map>
#include <queue>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace sextant {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Operations of all ranks have consecutive indices: those of ranks[0], of ranks[1], ...
class TraceTiming {
 public:
  explicit TraceTiming(const TracedRanks& traced);
  std::vector<std::vector<OpTimes>> run();

 private:
  using Kind = TraceLane::Kind;
  // Where operations of several ranks meet: a group's collectives, or the messages of a rank pair.
  struct Channel {
    std::string group;
    std::vector<int> members;  // places in `ranks`; for messages sender and receiver
    std::vector<uint32_t> meetings;
  };
  struct Meeting {
    uint32_t channel = 0;
    uint32_t first = kNone;  // operation; next_member_ links the others
    int missing = 0;         // members that have not reached it
    double seconds = 0;
  };
  struct Edge {
    uint32_t to = 0, next = kNone;
  };
  // On shared cores: an operation, or the first member of a meeting.
  struct Running {
    double until = 0;  // in seconds of an undisturbed core
    uint32_t number = 0;
    double begin = 0;
    int64_t cores = 0;
    bool operator<(const Running& other) const {  // the first to end is on top of the queue
      return until != other.until ? until > other.until : number > other.number;
    }
  };

  const RankTrace& rank_of(size_t place) const { return traced_.ranks[place]; }
  uint32_t number(size_t place, uint32_t op) const { return first_[place] + op; }
  size_t place_of(uint32_t number) const {
    return static_cast<size_t>(std::ranges::upper_bound(first_, number) - first_.begin()) - 1;
  }
  const TraceOp& op_of(uint32_t number) const {
    const size_t place = place_of(number);
    return rank_of(place).trace.ops[number - first_[place]];
  }

  void find_places();
  int place_of_rank(int rank, const std::string& group) const;
  void add_rank(size_t place);
  void add_edge(uint32_t from, uint32_t to);
  uint32_t channel_of(size_t place, const TraceLane& lane, int peer);
  void meet(uint32_t number, uint32_t channel, size_t call);
  void reach(uint32_t number);
  void run_on_shared_cores();
  void start(uint32_t number);
  int64_t cores_of(uint32_t number) const;
  void finish(uint32_t number, double start, double end);
  std::string name_meeting(const Meeting& meeting) const;
  [[noreturn]] void report_deadlock() const;

  const TracedRanks& traced_;
  std::vector<int> places_;      // by global rank
  std::vector<uint32_t> first_;  // index of the first operation, by place; then the total
  std::map<std::tuple<bool, std::string, std::vector<int>>, uint32_t> known_;
  std::vector<Channel> channels_;
  std::vector<Meeting> meetings_;
  // By operation:
  std::vector<uint32_t> meeting_, next_member_, edges_of_;
  std::vector<uint32_t> blocked_by_;  // unfinished dependencies
  std::vector<OpTimes> times_;        // start: latest end of its dependencies so far
  std::vector<Edge> edges_;
  std::vector<uint32_t> ready_;
  std::vector<int64_t> counts_;  // by place: ranks that it stands for
  std::priority_queue<Running> running_;
  double now_ = 0, work_ = 0;  // work_: seconds that an undisturbed core would have worked
  int64_t busy_ = 0;           // cores that running operations would use
};

TraceTiming::TraceTiming(const TracedRanks& traced) : traced_(traced) {
  uint32_t count = 0;
  for (const RankTrace& rank : traced.ranks) {
    first_.push_back(count);
    count += static_cast<uint32_t>(rank.trace.ops.size());
  }
  first_.push_back(count);
  meeting_.resize(count, kNone);
  next_member_.resize(count, kNone);
  edges_of_.resize(count, kNone);
  blocked_by_.resize(count);
  times_.resize(count);
  find_places();
  for (size_t place = 0; place < traced.ranks.size(); ++place) add_rank(place);
}

void TraceTiming::find_places() {
  places_ = traced_.stand_ins;
  if (!places_.empty()) return;
  for (size_t place = 0; place < traced_.ranks.size(); ++place) {
    const auto rank = static_cast<size_t>(rank_of(place).rank);
    if (places_.size() <= rank) places_.resize(rank + 1, -1);
    places_[rank] = static_cast<int>(place);
  }
}

int TraceTiming::place_of_rank(int rank, const std::string& group) const {
  const bool is_known = rank >= 0 && static_cast<size_t>(rank) < places_.size();
  const int place = is_known ? places_[static_cast<size_t>(rank)] : -1;
  SXT_CHECK(place >= 0, Internal, "rank ", rank, " of ", group, " has no trace");
  return place;
}

void TraceTiming::add_rank(size_t place) {
  const RankTrace& rank = rank_of(place);
  const Trace& trace = rank.trace;
  SXT_CHECK(rank.seconds.size() == trace.ops.size(), Internal, "rank ", rank.rank, ": times of ",
            rank.seconds.size(), " operations, not ", trace.ops.size());
  struct LaneState {
    uint32_t last = kNone;  // operation
    uint32_t channel = kNone;
    size_t calls = 0;
  };
  std::vector<LaneState> lanes(trace.lanes.size());
  std::vector<std::pair<uint32_t, Kind>> used;  // channels
  for (uint32_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    const TraceLane& lane = trace.lane_of(op);
    LaneState& state = lanes[static_cast<size_t>(op.lane)];
    const uint32_t own = number(place, i);
    if (state.last != kNone) add_edge(state.last, own);
    state.last = own;
    for (const uint32_t wait : trace.waits_of(op)) add_edge(number(place, wait), own);
    if (lane.kind == Kind::Compute) continue;
    if (state.channel == kNone) {
      state.channel = channel_of(place, lane, op.peer);
      const std::pair<uint32_t, Kind> use(state.channel, lane.kind);
      SXT_CHECK(std::ranges::find(used, use) == used.end(), Internal, "rank ", rank.rank, ": ",
                lane.name, " and another lane both go to the rank that stands for their peers");
      used.push_back(use);
    }
    meet(own, state.channel, state.calls++);
  }
}

void TraceTiming::add_edge(uint32_t from, uint32_t to) {
  edges_.push_back({to, edges_of_[from]});
  edges_of_[from] = static_cast<uint32_t>(edges_.size()) - 1;
  ++blocked_by_[to];
}

uint32_t TraceTiming::channel_of(size_t place, const TraceLane& lane, int peer) {
  std::vector<int> members;
  const bool is_message = lane.kind != Kind::Collective;
  if (is_message) {
    SXT_CHECK(peer >= 0 && static_cast<size_t>(peer) < lane.ranks.size(), Internal, lane.name,
              ": its peer is rank ", peer, " of ", lane.ranks.size());
    const int own = static_cast<int>(place);
    const int other = place_of_rank(lane.ranks[static_cast<size_t>(peer)], lane.group);
    members = lane.kind == Kind::Send ? std::vector{own, other} : std::vector{other, own};
  } else {
    for (const int rank : lane.ranks) members.push_back(place_of_rank(rank, lane.group));
    std::ranges::sort(members);
    members.erase(std::unique(members.begin(), members.end()), members.end());
  }
  const auto [found, is_new] =
      known_.try_emplace({is_message, lane.group, members}, channels_.size());
  if (is_new) channels_.push_back({lane.group, members, {}});
  return found->second;
}

void TraceTiming::meet(uint32_t number, uint32_t channel, size_t call) {
  Channel& where = channels_[channel];
  if (where.meetings.size() == call) {
    where.meetings.push_back(static_cast<uint32_t>(meetings_.size()));
    meetings_.push_back({channel, kNone, static_cast<int>(where.members.size()), 0});
  }
  meeting_[number] = where.meetings[call];
  Meeting& meeting = meetings_[meeting_[number]];
  const size_t place = place_of(number);
  meeting.seconds = std::max(meeting.seconds, rank_of(place).seconds[number - first_[place]]);
  if (meeting.first != kNone &&
      rank_of(place).trace.lane_of(op_of(number)).kind == Kind::Collective)
    SXT_CHECK(std::string_view(op_of(meeting.first).name) == op_of(number).name, Internal, "rank ",
              rank_of(place_of(meeting.first)).rank, " calls ", op_of(meeting.first).name,
              " where rank ", rank_of(place).rank, " calls ", op_of(number).name, ": call ",
              call + 1, " of ", where.group);
  next_member_[number] = meeting.first;
  meeting.first = number;
}

// All dependencies of the operation are done.
void TraceTiming::reach(uint32_t number) {
  if (meeting_[number] == kNone) {
    const size_t place = place_of(number);
    const double start = times_[number].start;
    finish(number, start, start + rank_of(place).seconds[number - first_[place]]);
    return;
  }
  Meeting& meeting = meetings_[meeting_[number]];
  if (--meeting.missing > 0) return;
  double start = 0;
  for (uint32_t member = meeting.first; member != kNone; member = next_member_[member])
    start = std::max(start, times_[member].start);
  for (uint32_t member = meeting.first; member != kNone; member = next_member_[member])
    finish(member, start, start + meeting.seconds);
}

void TraceTiming::finish(uint32_t number, double start, double end) {
  times_[number] = {start, end};
  for (uint32_t edge = edges_of_[number]; edge != kNone; edge = edges_[edge].next) {
    const uint32_t to = edges_[edge].to;
    times_[to].start = std::max(times_[to].start, end);
    if (--blocked_by_[to] == 0) ready_.push_back(to);
  }
}

int64_t TraceTiming::cores_of(uint32_t number) const {
  const size_t place = place_of(number);
  const Kind kind = rank_of(place).trace.lane_of(op_of(number)).kind;
  if (kind == Kind::Compute) return counts_[place] * traced_.cores.threads;
  if (kind != Kind::Collective) return counts_[place];
  int64_t cores = 0;
  const Meeting& meeting = meetings_[meeting_[number]];
  for (const int member : channels_[meeting.channel].members)
    cores += counts_[static_cast<size_t>(member)];
  return cores;
}

// All dependencies of the operation are done, those of its peers perhaps not.
void TraceTiming::start(uint32_t number) {
  double seconds = 0;
  if (meeting_[number] == kNone) {
    const size_t place = place_of(number);
    seconds = rank_of(place).seconds[number - first_[place]];
  } else {
    Meeting& meeting = meetings_[meeting_[number]];
    if (--meeting.missing > 0) return;
    seconds = meeting.seconds;
  }
  const int64_t cores = cores_of(number);
  running_.push({work_ + seconds, number, now_, cores});
  busy_ += cores;
}

void TraceTiming::run_on_shared_cores() {
  counts_.assign(traced_.ranks.size(), traced_.stand_ins.empty() ? 1 : 0);
  for (const int place : traced_.stand_ins) ++counts_[static_cast<size_t>(place)];
  for (;;) {
    while (!ready_.empty()) {
      const uint32_t number = ready_.back();
      ready_.pop_back();
      start(number);
    }
    if (running_.empty()) return;
    const Running next = running_.top();
    running_.pop();
    const double pace =
        std::min(1.0, static_cast<double>(traced_.cores.count) / static_cast<double>(busy_));
    now_ += (next.until - work_) / pace;
    work_ = next.until;
    busy_ -= next.cores;
    if (meeting_[next.number] == kNone) {
      finish(next.number, next.begin, now_);
      continue;
    }
    for (uint32_t member = meetings_[meeting_[next.number]].first; member != kNone;
         member = next_member_[member])
      finish(member, next.begin, now_);
  }
}

std::vector<std::vector<OpTimes>> TraceTiming::run() {
  for (uint32_t number = 0; number < times_.size(); ++number)
    if (blocked_by_[number] == 0) ready_.push_back(number);
  if (traced_.cores.count > 0) run_on_shared_cores();
  while (!ready_.empty()) {
    const uint32_t next = ready_.back();
    ready_.pop_back();
    reach(next);
  }
  if (std::ranges::any_of(meetings_, [](const Meeting& one) { return one.missing > 0; }))
    report_deadlock();
  std::vector<std::vector<OpTimes>> out;
  for (size_t place = 0; place + 1 < first_.size(); ++place)
    out.emplace_back(times_.begin() + first_[place], times_.begin() + first_[place + 1]);
  return out;
}

// "all_gather of shard, call 3, which rank 0 has come to (layer 1, micro 0, forward) and rank 1 has
// not".
std::string TraceTiming::name_meeting(const Meeting& meeting) const {
  const Channel& channel = channels_[meeting.channel];
  const auto call = std::ranges::find_if(channel.meetings,
                                         [&](uint32_t one) { return &meetings_[one] == &meeting; });
  std::string come, blocked,
      text = concat(op_of(meeting.first).name, " of ", channel.group, ", call ",
                    call - channel.meetings.begin() + 1, ":");
  std::vector<int> absent = channel.members;
  for (uint32_t member = meeting.first; member != kNone; member = next_member_[member]) {
    const size_t place = place_of(member);
    absent.erase(std::ranges::find(absent, static_cast<int>(place)));
    const TraceOp& op = op_of(member);
    text += concat(" rank ", rank_of(place).rank,
                   blocked_by_[member] == 0 ? " waits in " : " has not come to ", op.name,
                   op.scope.layer < 0 ? ""
                                      : concat(" (layer ", op.scope.layer, ", micro ",
                                               op.scope.micro, ", ", op.scope.pass, ")"),
                   ",");
  }
  for (const int place : absent)
    text += concat(" rank ", rank_of(static_cast<size_t>(place)).rank, " never calls it,");
  text.pop_back();
  return text;
}

// Reports a meeting at which a rank waits.
void TraceTiming::report_deadlock() const {
  constexpr int kMost = 4;
  std::string text;
  int count = 0;
  for (const Meeting& meeting : meetings_) {
    bool is_waited_in = false;
    for (uint32_t member = meeting.first; member != kNone; member = next_member_[member])
      is_waited_in |= blocked_by_[member] == 0 && meeting.missing > 0;
    if (!is_waited_in || ++count > kMost) continue;
    text += concat(text.empty() ? "" : "; ", name_meeting(meeting));
  }
  if (count > kMost) text += concat("; and ", count - kMost, " more");
  SXT_FAIL(Internal, "ranks never meet: ", text);
}

}  // namespace

std::vector<std::vector<OpTimes>> time_traces(const TracedRanks& traced) {
  return TraceTiming(traced).run();
}

}  // namespace sextant
