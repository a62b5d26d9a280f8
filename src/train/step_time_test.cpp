#include "train/step_time.h"

#include <map>
#include <string_view>

#include "schedule/validate.h"
#include "sim/rates.h"
#include "sim/simulate.h"
#include "support/cost_trace.h"
#include "support/layouts.h"
#include "support/random_layout.h"
#include "train/phantom.h"

namespace sextant {
namespace {

constexpr Rates kRates{.flops = 1e9, .memory = 1e9, .launch = 1e-6, .link = 1e8, .latency = 1e-5};

double at_rates(const Trace& trace, const TraceOp& op) {
  return seconds_of(kRates, trace, op);
}

class StepTimeTest : public LayoutTest {
 protected:
  StepTimeTest() : LayoutTest({"run.threads=1"}) {}
};

// Every rank traced, without representatives.
double seconds_of_all_ranks(const Config& config, const Preflight& flight) {
  TracedRanks traced;
  std::vector<StepTraces> steps;
  for (int rank = 0; rank < world_size(config.parallel); ++rank) {
    steps.push_back(trace_steps(config, flight, rank, flight.plans[static_cast<size_t>(rank)]));
    traced.ranks.push_back(cost_trace(rank, steps.back().trace, at_rates));
    queue_copies_with_compute(traced.ranks.back().trace);
  }
  double begin = 0, end = 0;
  const std::vector<std::vector<OpTimes>> times = time_traces(traced);
  for (size_t rank = 0; rank < times.size(); ++rank)
    for (size_t i = 0; i < steps[rank].end; ++i) {
      double& latest = i < steps[rank].second ? begin : end;
      latest = std::max(latest, times[rank][i].end);
    }
  return end - begin;
}

TEST_F(StepTimeTest, OneRankOfEachClassTakesAsLongAsAllRanks) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomLayout layout(seed, 16);
    SCOPED_TRACE(concat("seed ", seed, ": ", layout.text()));
    const Preflight flight = preflight(layout.config(), 0);
    const StepTime step = time_step(layout.config(), flight, at_rates);
    int ranks = 0;
    for (const TimedRank& rank : step.ranks) ranks += rank.count;
    ASSERT_EQ(ranks, world_size(layout.config().parallel));
    const double all = seconds_of_all_ranks(layout.config(), flight);
    ASSERT_GT(step.seconds, 0);
    ASSERT_NEAR(step.seconds, all, 1e-9 * all);
  }
}

TEST_F(StepTimeTest, ASlowerLinkIsNeverFaster) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    const RandomLayout layout(seed, 16);
    const Preflight flight = preflight(layout.config(), 0);
    double before = 0;
    for (const double link : {1e12, 1e10, 1e9, 1e8, 1e7}) {
      Rates rates = kRates;
      rates.link = link;
      const StepTime step = time_step(
          layout.config(), flight,
          [&](const Trace& trace, const TraceOp& op) { return seconds_of(rates, trace, op); });
      EXPECT_GE(step.seconds, before * (1 - 1e-12)) << "seed " << seed << ": " << layout.text();
      before = step.seconds;
    }
  }
}

// A rank's time is compute, exposed communication, or waiting for peers.
TEST_F(StepTimeTest, TheTimeOfARankAddsUp) {
  for (uint64_t seed = 200; seed < 220; ++seed) {
    const RandomLayout layout(seed, 16);
    const StepTime step = time_step(layout.config(), preflight(layout.config(), 0), at_rates);
    for (const TimedRank& rank : step.ranks) {
      double free = 0;
      for (size_t i = 0; i < rank.first; ++i)
        if (rank.trace.trace.ops[i].lane == Trace::kCompute) free = rank.times[i].end;
      const TimeUse& use = rank.use;
      EXPECT_NEAR(use.compute + use.exposed + use.waiting, use.end - free, 1e-9 * use.end);
      EXPECT_GE(use.exposed, 0);
      EXPECT_GE(use.waiting, -1e-12);
    }
  }
}

// On the CPU the rank itself copies what is offloaded, so its step is longer by all copies.
TEST_F(StepTimeTest, OffloadOnTheCpuCostsItsCopies) {
  for (const char* schedule : {"", "parallel.pp=2"}) {
    const Settings common = kGrouped + Settings{"batch.micro=1", "batch.accumulation=4"} +
                            (*schedule == 0 ? Settings{} : Settings{schedule});
    const auto timed = [&](const char* offload) {
      const Config config = config_of(common + Settings{concat("memory.offload=", offload)});
      return time_step(config, preflight(config, 0), at_rates);
    };
    const StepTime plain = timed("none"), offloaded = timed("activations");
    for (size_t r = 0; r < plain.ranks.size(); ++r) {
      const TimedRank& rank = offloaded.ranks[r];
      double copies = 0;
      for (size_t i = rank.first; i < rank.last; ++i) {
        const std::string_view name = rank.trace.trace.ops[i].name;
        if (name == "store" || name == "fetch") copies += rank.trace.seconds[i];
      }
      EXPECT_GT(copies, 0);
      EXPECT_NEAR(rank.use.compute, plain.ranks[r].use.compute + copies, 1e-9);
    }
    EXPECT_GT(offloaded.seconds, plain.seconds);
  }
}

// Steps too long to trace are extrapolated; here from traces of at most half of the bytes.
TEST_F(StepTimeTest, ALongStepIsExtrapolatedFromShorterOnes) {
  int extrapolated = 0;
  for (uint64_t seed = 320; seed < 360; ++seed) {
    const RandomLayout layout(seed, 8);
    SCOPED_TRACE(concat("seed ", seed, ": ", layout.text()));
    Config config = layout.config();
    config.batch.accumulation = 24 * std::max(2, config.parallel.pp) + config.batch.accumulation;
    config.batch.global =
        config.batch.micro * config.batch.accumulation * data_ranks(config.parallel);
    Preflight flight;
    try {
      flight = preflight(config, 0);
    } catch (const Error& error) {  // not every number of micro-batches fits every schedule
      ASSERT_EQ(error.fault(), Fault::Config) << error.what();
      continue;
    }
    const StepTime whole = time_step(config, flight, at_rates);
    int64_t bytes = 0;
    for (const TimedRank& rank : whole.ranks)
      bytes += static_cast<int64_t>(rank.trace.trace.ops.size() * sizeof(TraceOp));
    const StepTime step = time_step(config, flight, at_rates, {}, bytes);
    if (!step.extrapolated_from.empty()) ++extrapolated;
    EXPECT_NEAR(step.seconds, whole.seconds, 1e-3 * whole.seconds);
    for (size_t i = 0; i < step.ranks.size(); ++i) {
      const double expected = whole.ranks[i].use.compute;
      EXPECT_NEAR(step.ranks[i].use.compute, expected, 1e-3 * whole.seconds);
    }
  }
  EXPECT_GT(extrapolated, 20);
}

// The schedule simulator, given the number of operations per stage and micro-batch, is the oracle
// for traces in which each operation takes one second and messages take none.
TEST_F(StepTimeTest, PipelinesTakeAsLongAsTheirSchedules) {
  const auto one_second = [](const Trace& trace, const TraceOp& op) {
    return trace.lane_of(op).kind == TraceLane::Kind::Compute && op.scope.layer >= 0 ? 1.0 : 0.0;
  };
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "interleaved", "zb-v"})
    for (const int ranks : {2, 3, 4}) {
      const Config config = config_of(
          kGrouped + Settings{concat("parallel.pp=", ranks), concat("model.layers=", 4 * ranks),
                              concat("parallel.schedule=", schedule), "batch.micro=1",
                              "model.tied=false", concat("batch.accumulation=", 2 * ranks)});
      const Preflight flight = preflight(config, 0);
      const Schedule& plan = flight.pipeline.schedule;
      const StepTime step = time_step(config, flight, one_second);
      std::vector<StageCost> costs(static_cast<size_t>(plan.stages), StageCost{0, 0, 0});
      for (const TimedRank& rank : step.ranks)
        for (size_t i = rank.first; i < rank.last; ++i) {
          const TraceOp& op = rank.trace.trace.ops[i];
          if (op.scope.micro != 0 || rank.trace.seconds[i] == 0) continue;
          const auto& stages = flight.pipeline.stages;
          const auto stage = std::ranges::find_if(stages, [&](const Range& share) {
            return share.begin <= op.scope.layer && op.scope.layer < share.end;
          });
          StageCost& cost = costs[static_cast<size_t>(stage - stages.begin())];
          const std::string_view pass = op.scope.pass;
          (pass == "forward"           ? cost.forward_time
           : pass == "backward weight" ? cost.weight_grad_time
                                       : cost.input_grad_time) += 1;
        }
      const double expected = measure(simulate(plan, {.stages = costs})).makespan;
      EXPECT_DOUBLE_EQ(step.seconds, expected) << schedule << " " << ranks;
    }
}

}  // namespace
}  // namespace sextant
