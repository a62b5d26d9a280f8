#include "sim/trace_time.h"

#include <gtest/gtest.h>

#include <map>

#include "schedule/add_comms.h"
#include "schedule/make_schedule.h"
#include "sim/simulate.h"
#include "sim/time_use.h"
#include "support/cost_trace.h"
#include "support/expect_error.h"
#include "trace/recorder.h"

namespace sextant {
namespace {

// Seconds in hand-made traces: `flops` of compute, `sent` of a collective or message.
double written_in(const Trace& trace, const TraceOp& op) {
  return trace.lane_of(op).kind == TraceLane::Kind::Compute ? op.flops
                                                            : static_cast<double>(op.sent);
}

// A rank's program, operation by operation.
class Rank {
 public:
  explicit Rank(int rank) : rank_(rank) {}

  uint32_t compute(double seconds, const std::vector<uint32_t>& waits = {}) {
    for (const uint32_t wait : waits) recorder_.wait_for(wait);
    recorder_.begin("matmul", Trace::kCompute);
    recorder_.end().flops = seconds;
    return recorder_.last();
  }
  // As a group's communicator records it: after all compute so far, and after `waits`.
  uint32_t call(const char* name, const std::string& group, const std::vector<int>& ranks,
                int64_t seconds, const std::vector<uint32_t>& waits = {}) {
    recorder_.begin(name, recorder_.lane({group, TraceLane::Kind::Collective, group, ranks}));
    for (const uint32_t wait : waits) recorder_.wait_of_this(wait);
    recorder_.end().sent = seconds;
    return recorder_.last();
  }
  // Message groups have all ranks, so that peers are global ranks.
  uint32_t send(int to, int64_t seconds, int world, const std::string& group = "pp") {
    return message("send", TraceLane::Kind::Send, to, seconds, world, group);
  }
  uint32_t receive(int from, int world, const std::string& group = "pp") {
    return message("receive", TraceLane::Kind::Receive, from, 0, world, group);
  }
  RankTrace take(const SecondsOf& seconds_of = written_in) {
    return cost_trace(rank_, recorder_.take(), seconds_of);
  }

 private:
  uint32_t message(const char* name, TraceLane::Kind kind, int peer, int64_t seconds, int world,
                   const std::string& group) {
    std::vector<int> ranks;
    for (int rank = 0; rank < world; ++rank) ranks.push_back(rank);
    recorder_.begin(name,
                    recorder_.lane({concat(group, " ", name, " ", peer), kind, group, ranks}));
    TraceOp& op = recorder_.end();
    op.peer = peer;
    op.sent = seconds;
    return recorder_.last();
  }

  TraceRecorder recorder_;
  int rank_;
};

double makespan(const std::vector<std::vector<OpTimes>>& times) {
  double end = 0;
  for (const std::vector<OpTimes>& rank : times)
    for (const OpTimes& op : rank) end = std::max(end, op.end);
  return end;
}

TEST(TraceTime, LanesRunBesideEachOtherUntilOneWaits) {
  Rank rank(0);
  rank.compute(2);
  const uint32_t first = rank.call("all_gather", "shard", {0}, 5);   // 2 ... 7
  rank.compute(1);                                                   // 2 ... 3
  const uint32_t second = rank.call("all_gather", "shard", {0}, 1);  // 7 ... 8, behind the first
  rank.compute(4, {first});                                          // 7 ... 11
  const uint32_t third = rank.call("all_gather", "shard", {0}, 3);   // 11 ... 14
  const uint32_t fourth = rank.call("all_gather", "shard", {0}, 2);  // 14 ... 16
  rank.compute(1, {second, third, fourth});                          // 16 ... 17
  TracedRanks traced;
  traced.ranks.push_back(rank.take());
  const std::vector<OpTimes> times = time_traces(traced)[0];
  const double starts[] = {0, 2, 2, 7, 7, 11, 14, 16};
  ASSERT_EQ(times.size(), std::size(starts));
  for (size_t i = 0; i < times.size(); ++i) EXPECT_DOUBLE_EQ(times[i].start, starts[i]) << i;
  const TimeUse use = time_use(traced.ranks[0].trace, times, 0, times.size());
  EXPECT_DOUBLE_EQ(use.end, 17);
  EXPECT_DOUBLE_EQ(use.compute, 8);
  EXPECT_DOUBLE_EQ(use.exposed, (7 - 3) + (16 - 11));  // both of the last two gathers count
  EXPECT_DOUBLE_EQ(use.waiting, 0);
  EXPECT_DOUBLE_EQ(use.busy[1], 11);
  const TimeUse last = time_use(traced.ranks[0].trace, times, 5, times.size());
  EXPECT_DOUBLE_EQ(last.compute, 1);
  EXPECT_DOUBLE_EQ(last.exposed, 5);
}

TEST(TraceTime, ACollectiveStartsWithItsLastMemberAndTakesAsLongAsItsSlowest) {
  TracedRanks traced;
  for (const int rank : {0, 1, 2}) {
    Rank one(rank);
    one.compute(1 + rank);
    one.compute(1, {one.call("all_reduce", "dp", {0, 1, 2}, 10 - rank)});
    traced.ranks.push_back(one.take());
  }
  const std::vector<std::vector<OpTimes>> times = time_traces(traced);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_DOUBLE_EQ(times[rank][1].start, 3);
    EXPECT_DOUBLE_EQ(times[rank][1].end, 13);
    EXPECT_DOUBLE_EQ(times[rank][2].end, 14);
    const TimeUse use = time_use(traced.ranks[rank].trace, times[rank], 0, 3);
    EXPECT_DOUBLE_EQ(use.waiting, 2 - static_cast<double>(rank));
    EXPECT_DOUBLE_EQ(use.exposed, 10);
  }
}

// Each rank passes its output to the next one and continues with what it receives.
TEST(TraceTime, ARingOfMessagesWaitsForItsNeighbour) {
  constexpr int kRanks = 3;
  constexpr int kBusy[] = {5, 1, 2};
  TracedRanks traced;
  for (int rank = 0; rank < kRanks; ++rank) {
    Rank one(rank);
    const uint32_t comes = one.receive((rank + kRanks - 1) % kRanks, kRanks);
    one.compute(kBusy[rank]);
    one.send((rank + 1) % kRanks, 3, kRanks);
    one.compute(1, {comes});
    traced.ranks.push_back(one.take());
  }
  const std::vector<std::vector<OpTimes>> times = time_traces(traced);
  EXPECT_DOUBLE_EQ(times[0][3].start, 5);      // max(5, 2 + 3)
  EXPECT_DOUBLE_EQ(times[1][3].start, 5 + 3);  // rank 0 sends late
  EXPECT_DOUBLE_EQ(times[2][3].start, 1 + 3);
  EXPECT_DOUBLE_EQ(times[1][0].start, 5);
  const TimeUse use = time_use(traced.ranks[1].trace, times[1], 0, 4);
  EXPECT_DOUBLE_EQ(use.exposed, 3);
  EXPECT_DOUBLE_EQ(use.waiting, 4);
}

// ZeRO-3: the parameters of a layer are gathered while the previous one computes.
TEST(TraceTime, APrefetchedGatherHidesBehindALayerOfItsLength) {
  for (const int gather : {1, 4, 6, 9}) {
    TracedRanks traced;
    for (const int rank : {0, 1}) {
      Rank one(rank);
      const std::vector<int> group = {0, 1};
      uint32_t comes = one.call("all_gather", "shard", group, gather);
      for (int layer = 0; layer < 3; ++layer) {
        const uint32_t now = comes;
        if (layer < 2) comes = one.call("all_gather", "shard", group, gather, {now});
        one.compute(4, {now});
      }
      traced.ranks.push_back(one.take());
    }
    const std::vector<std::vector<OpTimes>> times = time_traces(traced);
    // The first gather is exposed. The next two are issued before the previous layer.
    EXPECT_DOUBLE_EQ(makespan(times), gather + 2 * std::max(4, gather) + 4);
    EXPECT_DOUBLE_EQ(time_use(traced.ranks[0].trace, times[0], 0, times[0].size()).exposed,
                     gather + 2 * std::max(0, gather - 4));
  }
}

TEST(TraceTime, ARankStandsForThoseThatDoTheSame) {
  const auto program = [](int rank, int shard) {
    Rank one(rank);
    const uint32_t comes = one.receive((rank + 2) % 4, 4, "cp");
    one.compute(1 + shard);
    one.send((rank + 2) % 4, 2, 4, "cp");
    one.compute(3, {comes});
    one.compute(1, {one.call("all_gather", "shard", {rank / 2 * 2, rank / 2 * 2 + 1}, 4)});
    one.compute(1, {one.call("all_reduce", "data", {0, 1, 2, 3}, 4)});
    return one.take();
  };
  TracedRanks all, some;
  for (const int rank : {0, 1, 2, 3}) all.ranks.push_back(program(rank, rank % 2));
  for (const int rank : {0, 1}) some.ranks.push_back(program(rank, rank % 2));
  some.stand_ins = {0, 1, 0, 1};
  const std::vector<std::vector<OpTimes>> expected = time_traces(all), times = time_traces(some);
  EXPECT_DOUBLE_EQ(makespan(expected), 2 + 2 + 3 + 4 + 1 + 4 + 1);
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t op = 0; op < expected[rank].size(); ++op)
      EXPECT_EQ(times[rank % 2][op].end, expected[rank][op].end) << rank << " " << op;
}

TEST(TraceTime, NamesTheRanksThatNeverMeet) {
  const std::vector<int> both = {0, 1};
  TracedRanks traced;
  for (const int rank : {0, 1}) {  // two groups in opposite order
    Rank one(rank);
    const uint32_t first = one.call("all_reduce", rank == 0 ? "dp" : "shard", both, 1);
    one.call("all_reduce", rank == 0 ? "shard" : "dp", both, 1, {first});
    traced.ranks.push_back(one.take());
  }
  EXPECT_ERROR(time_traces(traced), Internal,
               "ranks never meet: all_reduce of dp, call 1: rank 1 has not come to all_reduce, "
               "rank 0 waits in all_reduce; all_reduce of shard, call 1:");
}

TEST(TraceTime, NamesAPeerThatNeverCalls) {
  TracedRanks traced;
  Rank first(0), second(1);
  first.compute(1, {first.receive(1, 2)});
  second.compute(1);
  traced.ranks.push_back(first.take());
  traced.ranks.push_back(second.take());
  EXPECT_ERROR(time_traces(traced), Internal,
               "ranks never meet: receive of pp, call 1: rank 0 waits in receive, rank 1 never "
               "calls it");
  traced.ranks.pop_back();
  EXPECT_ERROR(time_traces(traced), Internal, "rank 1 of pp has no trace");
}

TEST(TraceTime, RefusesDifferentCallsOfAGroup) {
  TracedRanks traced;
  for (const int rank : {0, 1}) {
    Rank one(rank);
    one.call("all_reduce", "dp", {0, 1}, 1);
    one.call(rank == 0 ? "all_gather" : "all_reduce", "dp", {0, 1}, 1);
    traced.ranks.push_back(one.take());
  }
  EXPECT_ERROR(time_traces(traced), Internal,
               "rank 0 calls all_gather where rank 1 calls all_reduce: call 2 of dp");
}

TEST(TraceTime, SpansAreThoseOfTheOperations) {
  Rank rank(3);
  rank.compute(2);
  rank.call("all_gather", "shard", {3}, 5);
  const RankTrace trace = rank.take();
  TracedRanks traced;
  traced.ranks.push_back(trace);
  const std::vector<Span> spans = timed_spans(trace, time_traces(traced)[0], 1, 2, 2);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].name, "all_gather shard");
  EXPECT_EQ(spans[0].rank, 3);
  EXPECT_DOUBLE_EQ(spans[0].begin, 0);
  EXPECT_DOUBLE_EQ(spans[0].end, 5);
}

// A pipeline schedule as traces: one operation per action, receives posted first.
class PipelineTraces {
 public:
  PipelineTraces(const std::string& name, int ranks, int micros, int chunks,
                 std::vector<StageCost> costs) {
    ScheduleRequest request;
    request.name = name;
    request.ranks = ranks;
    request.micros = micros;
    request.chunks = chunks;
    request.costs = {{1, 1, 1}};
    schedule = make_schedule(request);
    costs.resize(static_cast<size_t>(schedule.stages), costs.back());
    stages = costs;
    const Schedule with_comms = add_comms(schedule);
    for (int rank = 0; rank < ranks; ++rank) add_rank(with_comms, rank);
  }

  TracedRanks cost(double scale, double message) const {
    TracedRanks out;
    for (size_t rank = 0; rank < traces.size(); ++rank)
      out.ranks.push_back(cost_trace(
          static_cast<int>(rank), traces[rank], [&](const Trace& trace, const TraceOp& op) {
            return trace.lane_of(op).kind == TraceLane::Kind::Compute ? scale * op.flops
                   : std::string_view(op.name) == "send"              ? scale * message
                                                                      : 0;
          }));
    return out;
  }

  Schedule schedule;
  std::vector<StageCost> stages;
  std::vector<Trace> traces;
  std::vector<std::vector<uint32_t>> computes;  // indices of compute operations, by rank

 private:
  void add_rank(const Schedule& with_comms, int rank) {
    TraceRecorder recorder;
    std::vector<int> all(static_cast<size_t>(with_comms.size()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    const auto message = [&](const Action& action, bool is_sent) {
      const bool forward = action.kind == Kind::SendF || action.kind == Kind::RecvF;
      const int other =
          with_comms.rank_of(action.stage + (forward == is_sent ? 1 : -1), action.micro);
      const char* group = forward ? "activations" : "gradients";
      const char* name = is_sent ? "send" : "receive";
      recorder.begin(
          name,
          recorder.lane({concat(group, " ", name, " ", other),
                         is_sent ? TraceLane::Kind::Send : TraceLane::Kind::Receive, group, all}));
      recorder.end().peer = other;
      return recorder.last();
    };
    std::map<std::tuple<bool, int, int>, uint32_t> comes;
    const std::vector<Action>& actions = with_comms.ranks[static_cast<size_t>(rank)];
    for (const Action& action : actions)
      if (action.kind == Kind::RecvF || action.kind == Kind::RecvB)
        comes[{action.kind == Kind::RecvF, action.stage, action.micro}] = message(action, false);
    computes.emplace_back();
    for (const Action& action : actions) {
      if (action.kind == Kind::SendF || action.kind == Kind::SendB) message(action, true);
      if (action.kind > Kind::W) continue;
      const auto found = comes.find({action.kind == Kind::F, action.stage, action.micro});
      if (found != comes.end() && action.kind != Kind::W) recorder.wait_for(found->second);
      const StageCost& cost = stages[static_cast<size_t>(action.stage)];
      recorder.begin("action", Trace::kCompute);
      recorder.end().flops = action.kind == Kind::F   ? cost.forward_time
                             : action.kind == Kind::B ? cost.input_grad_time + cost.weight_grad_time
                             : action.kind == Kind::I ? cost.input_grad_time
                                                      : cost.weight_grad_time;
      computes.back().push_back(recorder.last());
    }
    traces.push_back(recorder.take());
  }
};

struct Case {
  const char* name;
  int chunks;
};
constexpr Case kCases[] = {{"gpipe", 1},       {"1f1b", 1},       {"zb-h1", 1}, {"zb-h2", 1},
                           {"interleaved", 2}, {"looped-bfs", 2}, {"zb-v", 2},  {"v-half", 2}};

// The schedule simulator is the oracle: every action starts at the same time.
TEST(TraceTime, PipelinesTakeAsLongAsTheirSchedules) {
  for (const Case& one : kCases)
    for (const int ranks : {2, 3, 4})
      for (const int micros : {ranks, 2 * ranks, 4 * ranks})
        for (const double message : {0.0, 0.25})
          for (const std::vector<StageCost>& stages :
               {std::vector<StageCost>{{1, 1, 1}}, {{2, 3, 1}, {1, 1, 1}, {1, 2, 2}}}) {
            const PipelineTraces pipeline(one.name, ranks, micros, one.chunks, stages);
            const Timeline timeline =
                simulate(pipeline.schedule, {.stages = pipeline.stages, .latency = message});
            const auto times = time_traces(pipeline.cost(1, message));
            for (size_t rank = 0; rank < times.size(); ++rank) {
              ASSERT_EQ(timeline.ranks[rank].size(), pipeline.computes[rank].size());
              for (size_t i = 0; i < pipeline.computes[rank].size(); ++i)
                ASSERT_DOUBLE_EQ(times[rank][pipeline.computes[rank][i]].start,
                                 timeline.ranks[rank][i].start)
                    << one.name << " p " << ranks << " m " << micros << " rank " << rank << " at "
                    << i;
            }
            ASSERT_DOUBLE_EQ(makespan(times), measure(timeline).makespan);
          }
}

TEST(TraceTime, TimesScaleAndASlowerLinkIsNeverFaster) {
  for (const Case& one : kCases) {
    const PipelineTraces pipeline(one.name, 4, 8, one.chunks, {{2, 3, 1}, {1, 1, 1}});
    double before = 0;
    for (const double message : {0.0, 0.1, 0.5, 1.0, 3.0, 20.0}) {
      const double now = makespan(time_traces(pipeline.cost(1, message)));
      EXPECT_GE(now, before) << one.name;
      EXPECT_EQ(makespan(time_traces(pipeline.cost(4, message))), 4 * now) << one.name;
      before = now;
    }
  }
}

}  // namespace
}  // namespace sextant
