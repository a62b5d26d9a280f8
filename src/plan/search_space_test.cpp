#include "plan/search_space.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "config/load.h"
#include "config/model_presets.h"
#include "support/counts.h"

namespace sextant {
namespace {

PlanRequest asking(const char* model, const char* cluster, int64_t batch, int64_t seq,
                   const char* fixed = "") {
  DiskStorage storage;
  const Cluster machines = parse_cluster(storage, cluster);
  PlanRequest request;
  request.preset = model;
  request.shape = shape_of(*model_preset(model), seq);
  request.hardware = machines.hardware;
  request.gpus = machines.gpus;
  request.batch = batch;
  request.practice.each_micro = true;
  request.plans = 5;
  request.fixed = parse_fixed(fixed);
  return request;
}

double seconds_of_best(const PlanRequest& request) {
  const PlanResult result = search_plans(request, Constants{});
  return result.plans.empty() ? INFINITY : result.plans[0].time.total();
}

TEST(SearchSpace, SearchingEverythingIsNeverWorseThanSearchingAPart) {
  std::vector<PlanRequest> requests = {asking("llama-8b", "16xA100", 64, 8192),
                                       asking("mixtral-8x7b", "32xH100", 64, 4096)};
  if (is_long_run()) {
    requests.push_back(asking("llama-70b", "64xH100", 512, 8192));
    requests.push_back(asking("qwen3-30b-a3b", "16xpcie-ethernet", 64, 4096));
    requests.push_back(asking("llama-405b", "1024xH100", 512, 8192));
  }
  std::vector<std::string> parts = {
      "cp_kind=ring", "cp_kind=ulysses", "cp_kind=allgather", "ep=1",   "etp=1",
      "offload=none", "recompute=none",  "recompute=full",    "zero=1", "micro=1",
      "pp=1"};
  for (const char* schedule : kSchedules) parts.push_back(std::string("schedule=") + schedule);
  for (const PlanRequest& request : requests) {
    const double all = seconds_of_best(request);
    EXPECT_TRUE(std::isfinite(all)) << request.preset;
    for (const std::string& part : parts) {
      PlanRequest narrow = request;
      narrow.fixed = parse_fixed(part);
      EXPECT_LE(all, seconds_of_best(narrow) * (1 + 1e-9)) << request.preset << " " << part;
    }
  }
}

// So few micro-batches that pipelines are hardly filled. Simulated schedules may differ from the
// closed forms that chose them by a little.
TEST(SearchSpace, SmallBatchesLoseNothingToAPart) {
  std::vector<PlanRequest> requests = {asking("qwen3-32b", "64xB200", 32, 1024),
                                       asking("llama2-13b", "128xH100", 64, 1024),
                                       asking("smollm2-1.7b", "128xgb200", 32, 4096)};
  if (is_long_run()) {
    requests.push_back(asking("qwen3-32b", "512xB200", 256, 1024));
    requests.push_back(asking("qwen3-30b-a3b", "256xH100", 512, 512));
  }
  std::vector<std::string> parts = {"micro=1", "micro=2", "pp=1", "pp=2"};
  for (const char* schedule : kSchedules) parts.push_back(std::string("schedule=") + schedule);
  for (const PlanRequest& request : requests) {
    const double all = seconds_of_best(request);
    EXPECT_TRUE(std::isfinite(all)) << request.preset;
    for (const std::string& part : parts) {
      PlanRequest narrow = request;
      narrow.fixed = parse_fixed(part);
      EXPECT_LE(all, seconds_of_best(narrow) * 1.01) << request.preset << " " << part;
    }
  }
}

TEST(SearchSpace, ModelsWithExpertsGetExpertParallel) {
  struct Asked {
    const char *model, *cluster, *fixed;
  };
  for (const Asked& asked :
       {Asked{"mixtral-8x7b", "32xH100", ""}, Asked{"qwen3-235b-a22b", "64xH100", "cp=1"},
        Asked{"deepseek-v3", "512xH800", "cp=1,pp=16,micro=1"},
        Asked{"kimi-k2", "512xH800", "cp=1,pp=16,micro=1"}}) {
    const PlanRequest request = asking(asked.model, asked.cluster, 512, 4096, asked.fixed);
    const PlanResult result = search_plans(request, Constants{});
    ASSERT_FALSE(result.plans.empty()) << asked.model;
    for (const Plan& plan : result.plans) {
      EXPECT_GT(plan.layout.ep, 1) << to_text(plan.layout);
      const Config config = parse_config(to_run_file(request, plan.layout), "plan", {}).config;
      EXPECT_EQ(config.parallel.ep, plan.layout.ep);
      EXPECT_EQ(config.memory.recompute, plan.layout.recompute);
    }
    PlanRequest whole = request;
    whole.fixed.ep = 1;
    for (const Plan& plan : search_plans(whole, Constants{}).plans) EXPECT_EQ(plan.layout.ep, 1);
  }
}

TEST(SearchSpace, EveryScheduleAndKindOfContextParallelCanBeFixed) {
  std::vector<std::string> fixes = {"cp=2,cp_kind=ring", "cp=2,cp_kind=ulysses",
                                    "cp=4,cp_kind=allgather", "tp=4,sequence=false"};
  for (const char* schedule : kSchedules) fixes.push_back(std::string("pp=4,schedule=") + schedule);
  for (const std::string& fixed : fixes) {
    const PlanRequest request = asking("llama-8b", "32xH100", 256, 8192, fixed.c_str());
    const PlanResult result = search_plans(request, Constants{});
    ASSERT_FALSE(result.plans.empty()) << fixed;
    for (const Plan& plan : result.plans) {
      const Layout& l = plan.layout;
      EXPECT_EQ(refusal_of(request, l), "") << to_text(l);
      EXPECT_TRUE(!request.fixed.schedule || l.schedule == *request.fixed.schedule) << fixed;
      EXPECT_TRUE(!request.fixed.cp_kind || l.cp_kind == *request.fixed.cp_kind) << fixed;
      EXPECT_TRUE(!request.fixed.sequence || !l.sequence) << fixed;
      EXPECT_LE(l.stages(), request.shape.layers);
    }
  }
}

// Neither does CUDA have experts over several ranks each.
TEST(SearchSpace, ExpertsAreDividedWhereTheDeviceRunsIt) {
  PlanRequest request = asking("mixtral-8x7b", "8xH100", 64, 4096, "tp=2,etp=2");
  EXPECT_TRUE(search_plans(request, Constants{}).plans.empty());
  request.hardware.generation = GpuGeneration::Cpu;
  request.hardware.memory *= 8;
  const PlanResult divided = search_plans(request, Constants{});
  ASSERT_FALSE(divided.plans.empty());
  for (const Plan& plan : divided.plans) {
    EXPECT_EQ(plan.layout.etp, 2);
    const Config config = parse_config(to_run_file(request, plan.layout), "plan", {}).config;
    EXPECT_EQ(config.parallel.etp, 2);
  }
}

// On GPUs it is searched where it is asked for.
TEST(SearchSpace, OffloadIsProposedWhereItsCostIsKnown) {
  for (const Plan& plan : search_plans(asking("llama-8b", "8xH100", 64, 4096), Constants{}).plans)
    EXPECT_EQ(plan.layout.offload, Offload::None);
  const PlanResult asked =
      search_plans(asking("llama-8b", "8xH100", 64, 4096, "offload=both"), Constants{});
  EXPECT_FALSE(asked.plans.empty());
  for (const Plan& plan : asked.plans) EXPECT_EQ(plan.layout.offload, Offload::Both);

  // A machine of CPUs whose memory the optimizer's state alone would fill.
  PlanRequest tight = asking("llama-1b", "4xH100", 8, 2048, "dp=4,recompute=full");
  tight.hardware.generation = GpuGeneration::Cpu;
  const double least = INFINITY;
  tight.hardware.memory = 14.0 * 1024 * 1024 * 1024;
  EXPECT_LT(seconds_of_best(tight), least);
  for (const Plan& plan : search_plans(tight, Constants{}).plans)
    EXPECT_NE(plan.layout.offload, Offload::None) << to_text(plan.layout);
  tight.fixed.offload = Offload::None;
  EXPECT_EQ(seconds_of_best(tight), INFINITY);
  // With room for everything, copies to the host only cost time.
  tight.fixed.offload.reset();
  tight.hardware.memory *= 20;
  EXPECT_EQ(search_plans(tight, Constants{}).plans[0].layout.offload, Offload::None);
}

TEST(SearchSpace, ASlowerHostLinkMakesOffloadDearer) {
  PlanRequest request = asking("llama-1b", "4xH100", 8, 2048, "dp=4");
  Layout layout;
  layout.dp = 4;
  layout.offload = Offload::Both;
  const auto offload = [&](double rate) {
    request.hardware.host = rate;
    return step_time(case_of(request, layout), Constants{}).offload;
  };
  EXPECT_GT(offload(5e9), offload(50e9));
  layout.offload = Offload::None;
  EXPECT_EQ(offload(5e9), 0);
}

// The check takes at most 4,096 ranks on one axis; a layout may have more on several.
TEST(SearchSpace, LargeClustersKeepEveryWayToDivideAStage) {
  const PlanRequest request = asking("llama-8b", "65536xH100", 65536, 8192, "cp=1");
  std::vector<int> tensor;
  const SearchSpace space(request);
  for (const Layout& layout : space.stage_layouts()) tensor.push_back(layout.tp);
  EXPECT_EQ(tensor, (std::vector<int>{1, 2, 4, 8}));
  const PlanRequest experts = asking("deepseek-v3", "65536xH100", 65536, 4096, "cp=1,tp=1");
  EXPECT_EQ(SearchSpace(experts).stage_layouts().size(), 9u);  // ep 1 to 256
}

// What is listed was simulated: closed forms of pipelines are too fast by up to a tenth.
TEST(SearchSpace, TheListAndTheFrontHoldSimulatedTimes) {
  const PlanRequest request = asking("llama-70b", "128xH100", 256, 8192, "cp=1");
  const PlanResult result = search_plans(request, Constants{});
  ASSERT_FALSE(result.plans.empty());
  for (const std::vector<Plan>* plans : {&result.plans, &result.front})
    for (const Plan& plan : *plans)
      EXPECT_DOUBLE_EQ(
          plan.time.total(),
          simulated_step_time(case_of(request, plan.layout), Constants{}, 60'000).total())
          << to_text(plan.layout);
}

TEST(SearchSpace, SchedulesExistForTheirNumbers) {
  const PlanRequest request = asking("llama-8b", "32xH100", 256, 8192);
  const SearchSpace space(request);
  const auto has = [&](ScheduleKind kind, int64_t pp, int64_t micros) {
    const std::vector<ScheduleChoice> all = space.schedules(pp, micros);
    return std::ranges::any_of(all, [&](const ScheduleChoice& one) { return one.kind == kind; });
  };
  EXPECT_TRUE(has(ScheduleKind::DualPipe, 4, 8));
  EXPECT_FALSE(has(ScheduleKind::DualPipe, 4, 9));
  EXPECT_FALSE(has(ScheduleKind::DualPipe, 4, 6));
  EXPECT_TRUE(has(ScheduleKind::DualPipeV, 4, 9));
  EXPECT_FALSE(has(ScheduleKind::Interleaved, 4, 3));
  EXPECT_TRUE(has(ScheduleKind::LoopedBfs, 4, 3));
  EXPECT_TRUE(has(ScheduleKind::ZbV, 16, 8));
  EXPECT_FALSE(has(ScheduleKind::ZbV, 32, 64));  // 64 stages of 32 layers
  EXPECT_TRUE(has(ScheduleKind::OneFOneB, 32, 64));
}

}  // namespace
}  // namespace sextant
