#include "plan/flow_step.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/model_presets.h"
#include "plan/flow_topology.h"
#include "plan/search.h"

namespace sextant {
namespace {

Case a_case(const char* model, const char* cluster, int64_t batch, const Layout& layout) {
  DiskStorage storage;
  const Cluster machines = parse_cluster(storage, cluster);
  PlanRequest request;
  request.shape = shape_of(*model_preset(model), 4096);
  request.hardware = machines.hardware;
  request.gpus = machines.gpus;
  request.batch = batch;
  request.practice.each_micro = true;
  EXPECT_EQ(layout.world(), machines.gpus);
  return case_of(request, layout);
}

double seconds_of(const FlowStepRequest& request) {
  return flow_step_time(request, Constants{}).flow.seconds;
}

double closed_seconds(const Case& asked) {
  return simulated_step_time(asked, Constants{}, 1 << 22).total();
}

TEST(FlowStep, ClassesTakeAsLongAsEveryRankOfRealLayouts) {
  Layout dense{.dp = 2, .shard = 4, .zero = 2, .tp = 2, .sequence = true, .pp = 4};
  Layout folded = dense;
  folded.schedule = ScheduleKind::DualPipeV;
  Layout both = dense;
  both.schedule = ScheduleKind::DualPipe;
  Layout looped = dense;
  looped.schedule = ScheduleKind::Interleaved;
  looped.chunks = 2;
  looped.zero = 3;
  Layout sparse{.dp = 2, .shard = 8, .zero = 1, .cp = 2, .pp = 2, .ep = 16};
  struct Asked {
    const char* model;
    Layout layout;
  };
  for (const Asked& asked :
       {Asked{"llama-8b", dense}, Asked{"llama-8b", folded}, Asked{"llama-8b", both},
        Asked{"llama-8b", looped}, Asked{"qwen3-30b-a3b", sparse}})
    for (const double oversubscribed : {1.0, 4.0})
      for (const bool disturbed : {false, true}) {
        FlowStepRequest request{a_case(asked.model, "64xA100", 128, asked.layout)};
        request.asked.hardware.domain = request.asked.hardware.node_gpus = 4;
        request.asked.hardware.oversubscribed = oversubscribed;
        if (disturbed) {
          request.slow_rank = {5, 1.3};
          request.slow_link = {22, 4};
        }
        const FlowCluster cluster = flow_cluster(request, Constants{});
        const FlowResult all = simulate_flows(cluster, FlowDetail::Exactly);
        const FlowResult classes = simulate_flows(cluster, FlowDetail::ByClass);
        for (size_t i = 0; i < cluster.ranks.size(); ++i)
          ASSERT_NEAR(all.finished[i], classes.finished[i], 1e-9 * all.seconds)
              << to_text(asked.layout) << " rank " << i;
        EXPECT_LE(classes.rank_classes, all.rank_classes);
      }
}

// Alone, every transfer takes its closed form, so a step without contention takes about as long as
// the planner says.
TEST(FlowStep, WithoutContentionAStepTakesWhatThePlannerSays) {
  for (const Layout& layout :
       {Layout{.dp = 16}, Layout{.shard = 16, .zero = 1}, Layout{.shard = 16, .zero = 3},
        Layout{.dp = 2, .tp = 8, .sequence = true}, Layout{.dp = 4, .pp = 4},
        Layout{.dp = 2,
        .tp = 2,
        .sequence = true,
        .pp = 4,
        .schedule = ScheduleKind::Interleaved,
        .chunks = 2},
        Layout{.dp = 4, .pp = 4, .schedule = ScheduleKind::ZbH1}}) {
    const Case asked = a_case("llama-8b", "16xH100", 64, layout);
    EXPECT_NEAR(seconds_of({asked}) / closed_seconds(asked), 1, 0.08) << to_text(layout);
  }
}

// Some groups of 3 or 5 ranks lie in two domains, and everyone waits for them.
TEST(FlowStep, GroupsAcrossDomainsTakeWhatThePlannerSays) {
  struct Asked {
    const char* model;
    const char* cluster;
    int64_t batch;
    Layout layout;
  };
  for (const Asked& asked :
       {Asked{"gpt2-124m", "24xH100", 16, {.shard = 8, .zero = 2, .tp = 3, .sequence = true}},
        Asked{"gpt2-124m", "24xH100", 24, {.shard = 24, .zero = 2}},
        Asked{"smollm2-360m", "100xV100", 64, {.dp = 4, .tp = 5, .sequence = true, .pp = 5}},
        Asked{"llama-8b", "24xH100", 24, {.dp = 4, .tp = 2, .sequence = true, .pp = 3}},
        Asked{"llama-8b", "48xH100", 32, {.shard = 4, .zero = 1, .tp = 4, .cp = 3}}}) {
    const Case one = a_case(asked.model, asked.cluster, asked.batch, asked.layout);
    EXPECT_NEAR(closed_seconds(one) / seconds_of({one}), 1, 0.25) << to_text(asked.layout);
  }
}

TEST(FlowStep, SlowPartsDelayEveryoneWhoWaitsForThem) {
  const Case asked = a_case("llama-8b", "64xH100", 128,
                            {.dp = 2, .shard = 4, .zero = 1, .tp = 4, .sequence = true, .pp = 2});
  const double plain = seconds_of({asked});
  const double slow = seconds_of({asked, SlowPart{17, 1.5}});
  // Compute is most of the step; its stage, its replica and all that sum with it wait.
  EXPECT_GT(slow, 1.2 * plain);
  EXPECT_LT(slow, 1.5 * plain);
  double before = plain;
  for (const double factor : {2.0, 8.0, 64.0}) {
    const double now = seconds_of({asked, {}, SlowPart{17, factor}});
    EXPECT_GE(now, before * (1 - 1e-12)) << factor;
    before = now;
  }
  EXPECT_GT(before, 1.5 * plain);
  EXPECT_THROW(seconds_of({asked, SlowPart{64, 2}}), Error);
  EXPECT_THROW(seconds_of({asked, SlowPart{-1, 2}}), Error);
  EXPECT_THROW(seconds_of({asked, {}, SlowPart{3, 0.5}}), Error);
}

// Four ranks of two domains: rank 0 sends a message to rank 2 while the pair {0, 2} is in a ring.
TEST(FlowStep, MessagesAndRingsShareANetworkLink) {
  DiskStorage storage;
  Hardware hardware = find_hardware(storage, "A100");
  hardware.domain = hardware.node_gpus = 2;
  Constants constants;
  constants.nic = 1;
  const FlowTopology topology(hardware, constants, 4);
  FlowCluster cluster;
  cluster.links = topology.links();
  const std::vector<int> pair = {0, 2};
  cluster.channels = {{0, pair, topology.ring(pair)}, {1, {0}, topology.message(0, 2)}};
  const double bytes = hardware.nic;  // a second alone
  cluster.programs = {{{.step = FlowStep::Post, .slot = 0, .amount = bytes},
                       {.step = FlowStep::Post, .slot = 1, .amount = bytes}},
                      {{.step = FlowStep::Post, .slot = 0, .amount = bytes},
                       {.step = FlowStep::Wait, .slot = 0, .count = 1},
                       {.step = FlowStep::Wait, .slot = 1, .count = 1}},
                      {}};
  cluster.ranks = {{0, 1, {0, 1}}, {2}, {1, 1, {0, 1}}, {2}};
  EXPECT_NEAR(simulate_flows(cluster, FlowDetail::Exactly).seconds, 2, 1e-9);
  cluster.channels[1].uses = topology.message(0, 1);  // over NVLink instead
  EXPECT_NEAR(simulate_flows(cluster, FlowDetail::Exactly).seconds, 1, 1e-9);
}

TEST(FlowStep, ARingEntersAndLeavesOverTheLinksOfAllItsMembers) {
  DiskStorage storage;
  const Hardware hardware = find_hardware(storage, "H100");
  Constants constants;
  const FlowTopology topology(hardware, constants, 64);
  const std::vector<int> thin = {0, 8, 16, 24}, wide = {0, 1, 2, 3, 8, 9, 10, 11};
  EXPECT_DOUBLE_EQ(topology.rate_alone(topology.ring(thin)), hardware.nic * constants.nic);
  EXPECT_DOUBLE_EQ(topology.rate_alone(topology.ring(wide)), 4 * hardware.nic * constants.nic);
}

TEST(FlowStep, OversubscribedLeavesSlowDownWhatCrossesThem) {
  // 128 domains of 8: messages of the pipeline cross, and so does an all-to-all of 256 ranks.
  Case asked = a_case("qwen3-30b-a3b", "1024xH100", 1024,
                      {.dp = 1, .shard = 512, .zero = 1, .pp = 2, .ep = 128});
  const double full = seconds_of({asked});
  asked.hardware.oversubscribed = 8;
  const FlowStepTime got = flow_step_time({asked}, Constants{});
  EXPECT_GT(got.flow.seconds, 1.1 * full);
  ASSERT_EQ(got.levels.size(), 3u);
  EXPECT_EQ(got.levels[2].level, "leaf switches");
  EXPECT_EQ(got.levels[2].links, 2 * 16);
  EXPECT_LE(got.levels[2].most, 1 + 1e-9);
}

TEST(FlowStep, AHundredThousandRanksAreFewClasses) {
  const Case asked = a_case("llama-405b", "100000xH100", 5000,
                            {.shard = 625, .zero = 1, .tp = 8, .sequence = true, .pp = 20});
  const FlowStepTime got = flow_step_time({asked}, Constants{});
  EXPECT_LT(got.flow.rank_classes, 1000);
  EXPECT_GT(got.channels, 100'000);
  // Reductions slow down the last backward of every stage, and these add up along the pipeline;
  // the planner has them once. Without that the two agree.
  EXPECT_GT(got.flow.seconds, closed_seconds(asked));
  Constants free;
  free.overlap = 0;
  EXPECT_NEAR(flow_step_time({asked}, free).flow.seconds /
                  simulated_step_time(asked, free, 1 << 22).total(),
              1, 0.05);
}

TEST(FlowStep, ATorusIsRefused) {
  const Case asked = a_case("llama-8b", "64xtpu-v5p", 64, {.dp = 64});
  EXPECT_THROW(seconds_of({asked}), Error);
}

}  // namespace
}  // namespace sextant
