// The planner's closed form of our own memory, and whole lists of plans, against the dry run.
#include "train/plan_dry_run.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "config/load.h"
#include "config/model_presets.h"
#include "plan/own_memory.h"
#include "train/preflight.h"

namespace sextant {
namespace {

PlanRequest request_of(const char* model, const char* cluster, int64_t batch, int64_t seq) {
  DiskStorage storage;
  const Cluster machines = parse_cluster(storage, cluster);
  PlanRequest request;
  request.preset = model;
  request.shape = shape_of(*model_preset(model), seq);
  request.hardware = machines.hardware;
  request.gpus = machines.gpus;
  request.batch = batch;
  request.practice.own = request.practice.each_micro = true;
  if (request.hardware.generation >= GpuGeneration::Hopper)
    request.practice.attention = AttentionKernel::Library;
  return request;
}

Config written(const PlanRequest& request, const Layout& layout) {
  const std::vector<std::string> none;
  return parse_config(to_run_file(request, layout), "plan", none).config;
}

struct Listed {
  const char *model, *cluster;
  int64_t batch, seq;
};

class PlanDryRun : public testing::TestWithParam<Listed> {};

// Every listed layout passes the configuration check and the dry run within the memory of the
// cluster, and the list has the bytes that the dry run counts.
TEST_P(PlanDryRun, EveryListedLayoutRuns) {
  PlanRequest request =
      request_of(GetParam().model, GetParam().cluster, GetParam().batch, GetParam().seq);
  request.dry_run = dry_runner();
  const PlanResult result = search_plans(request, Constants{});
  ASSERT_FALSE(result.plans.empty());
  for (const Plan& plan : result.plans) {
    const Preflight flight = preflight(written(request, plan.layout), 0);  // throws if refused
    int64_t most = 0;
    for (const MemoryEstimate& memory : flight.memory) most = std::max(most, memory.reserved);
    EXPECT_NEAR(static_cast<double>(plan.reserved.value_or(0)), static_cast<double>(most), 1 << 20)
        << to_text(plan.layout);
    EXPECT_LE(most, memory_limit_of(request.hardware));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PlanDryRun,
                         testing::Values(Listed{"llama-70b", "64xH100", 1024, 8192},
                                         Listed{"llama-8b", "8xH100", 128, 8192},
                                         Listed{"gpt3-175b", "1024xA100", 1536, 2048},
                                         Listed{"qwen3-32b", "32xH200", 256, 4096},
                                         Listed{"mixtral-8x7b", "64xH100", 512, 4096},
                                         Listed{"qwen3-30b-a3b", "32xH100", 256, 4096}),
                         [](const auto& info) {
                           std::string name = info.param.model;
                           std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
                           return name;
                         });

TEST(PlanDryRun, RefusesWhatTakesTooLongAndLayoutsLikeItAtOnce) {
  const PlanRequest request = request_of("llama-405b", "1024xH100", 512, 8192);
  Layout layout;
  layout.pp = 32;
  layout.tp = 4;
  layout.sequence = true;
  layout.cp = 2;
  layout.shard = 4;
  layout.zero = 1;
  layout.schedule = ScheduleKind::ZbV;  // searched for uneven stages: no steady state
  layout.recompute = Recompute::Cheap;
  const DryRunner run = dry_runner();
  const DryRun first = run(request, layout), again = run(request, layout);
  EXPECT_NE(first.refused.find("operations"), std::string::npos) << first.refused;
  EXPECT_GT(first.operations, 0);
  EXPECT_EQ(again.refused, first.refused);
  EXPECT_EQ(again.operations, 0);
}

// Layouts at random, each of which divides; the closed form is within 5 % or 0.5 GiB of the exact
// bytes, in the mean within 2 %, so it decides what a search takes for too large.
TEST(PlanDryRun, SlowClosedFormIsNearTheExactBytes) {
  std::mt19937 random(17);
  const auto any = [&](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % sizeof...(values)];
  };
  int compared = 0;
  double sum = 0;
  for (int trial = 0; trial < 160; ++trial) {
    const char* model = any("llama-8b", "gpt3-6.7b", "qwen3-8b", "mixtral-8x7b", "qwen3-30b-a3b");
    PlanRequest request = request_of(model, "64xH100", 64, 4096);
    request.hardware.memory = 4e12;
    Layout l;
    l.tp = any(1, 2, 4);
    l.sequence = l.tp > 1;
    l.cp = any(1, 1, 2);
    l.cp_kind = any(ContextKind::Ring, ContextKind::Ulysses, ContextKind::AllGather);
    l.pp = any(1, 2, 4);
    l.shard = any(1, 2, 4);
    l.zero = l.shard > 1 ? any(1, 2, 3) : 0;
    l.dp = any(1, 2);
    l.micro = any(1, 2);
    l.recompute = any(Recompute::None, Recompute::Cheap, Recompute::Selective, Recompute::Full);
    if (l.pp > 1) {
      l.schedule = any(ScheduleKind::Gpipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
                       ScheduleKind::ZbH1, ScheduleKind::ZbH2, ScheduleKind::ZbV,
                       ScheduleKind::VHalf, ScheduleKind::VMin, ScheduleKind::DualPipeV);
      if (takes_chunks(l.schedule)) l.chunks = 2;
    }
    if (request.shape.experts > 0 && l.data_ranks() * l.cp * l.tp % 4 == 0) l.ep = any(1, 4);
    request.gpus = l.world();
    if (!refusal_of(request, l).empty()) continue;
    DryRun exact = dry_runner()(request, l);
    if (!exact.refused.empty()) continue;
    // Memory is reserved for the worst routing where it is there; the closed form counts twice the
    // balanced one.
    if (l.ep > 1) {
      Config config = written(request, l);
      config.memory.experts = 2;
      const Preflight flight = forecast(config, 0);
      exact.reserved = 0;
      for (const MemoryEstimate& memory : flight.memory)
        exact.reserved = std::max(exact.reserved, memory.reserved);
    }
    const MemoryUse use = memory_use(case_of(request, l), Constants{});
    const double counted = use.total() - use.outside;
    const double bytes = static_cast<double>(exact.reserved), error = counted / bytes - 1;
    sum += std::abs(error);
    EXPECT_LT(std::abs(error) * bytes, std::max(0.05 * bytes, kGiB / 2))
        << model << " " << to_text(l) << ": " << counted / kGiB << " for "
        << static_cast<double>(exact.reserved) / kGiB << " GiB; states "
        << (use.weights + use.gradients + use.optimizer) / kGiB << ", buckets "
        << use.gathered / kGiB << ", activations " << use.activations / kGiB << ", logits "
        << use.logits / kGiB;
    ++compared;
  }
  EXPECT_GT(compared, 100);
  EXPECT_LT(sum / compared, 0.02);
}

}  // namespace
}  // namespace sextant
