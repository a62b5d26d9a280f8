#include "train/outside_memory.h"

#include <gtest/gtest.h>

#include "comm/nccl_world.h"
#include "config/load.h"
#include "train/preflight.h"

namespace sextant {
namespace {

constexpr OutsideTable kTable = {.context = 1000 << 20,
                                 .cublas = 200 << 20,
                                 .cudnn = 30 << 20,
                                 .nccl = 4 << 20,
                                 .kernels = 500 << 10};

constexpr const char* kTinyText = R"(
[model]
preset = "tiny"
[batch]
global = 8
micro = 1
[data]
kind = "synthetic"
)";

Config config_of(const std::string& compute, int64_t window = 0) {
  Config config;
  config.model.seq = 256;
  config.model.heads = config.model.kv_heads = 4;
  config.model.head_dim = 64;
  config.model.sliding_window = window;
  config.precision.compute = compute == "fp32" ? ComputeType::Fp32 : ComputeType::Bf16;
  config.run.device = RunDevice::Cuda;
  return config;
}

// In builds without cuDNN its part is in no run.
int64_t cudnn_part(const Config& config) {
  for (const OutsidePart& part : outside_parts(kTable, config))
    if (std::string(part.name) == "cuDNN") return part.bytes;
  return 0;
}

TEST(OutsideMemory, HasTheLibrariesThatTheRunUses) {
  const int64_t least = kTable.context + kTable.kernels + kTable.cublas;
  EXPECT_EQ(predicted_outside(kTable, config_of("fp32")), least);
  EXPECT_EQ(predicted_outside(kTable, config_of("bf16", 100)), least) << "a window is not cuDNN's";
  const Config narrow = config_of("bf16");
  EXPECT_EQ(predicted_outside(kTable, narrow), least + cudnn_part(narrow));
  Config several = config_of("fp32");
  several.run.transport = Transport::Nccl;
  EXPECT_EQ(predicted_outside(kTable, several), least + kTable.nccl);
}

TEST(OutsideMemory, CountsTheGroupsOfEachRankOverNccl) {
  Config config = config_of("fp32");
  config.run.transport = Transport::Nccl;
  config.parallel.dp = 4;
  OutsideTable table = kTable;
  table.nccl_group = 1000;
  table.nccl_peer = 100;
  table.nccl_channel = 10;
  const int64_t least = kTable.context + kTable.kernels + kTable.cublas;
  const OnGpu on_gpu{{.groups = 2, .peers = 4, .channels = 3}, 1};
  const int64_t rank = kTable.nccl + 3 * kNcclStaging + 2 * 1000 + (3 + 4) * 100 + 3 * 10;
  EXPECT_EQ(predicted_outside(table, config, on_gpu), least + rank);
  EXPECT_EQ(predicted_outside(table, config, {on_gpu.groups, 4}), least + 4 * rank);
}

TEST(OutsideMemory, GroupsAndMessagesOfARankAreCounted) {
  const Config alone = parse_config(kTinyText, "test", {}).config;
  EXPECT_EQ(forecast(alone, 0).groups.groups, 0);
  const auto counts = [](const std::vector<std::string>& settings) {
    return forecast(parse_config(kTinyText, "test", settings).config, 0).groups;
  };
  // dp, data, replicas and stage: the same four ranks in each.
  const GroupCounts data = counts({"parallel.dp=4"});
  EXPECT_GT(data.groups, 0);
  EXPECT_EQ(data.peers, 3 * data.groups);
  EXPECT_EQ(data.channels, 0);
  // The first stage sends activations and receives their gradients.
  EXPECT_EQ(counts({"parallel.pp=2"}).channels, 2);
}

TEST(OutsideMemory, SaysWhatItIsMadeOfAndWhetherItWasMeasured) {
  EXPECT_EQ(outside_text(kTable, config_of("fp32"), int64_t{1} << 30),
            "outside    1.17 GiB beside the arenas (context 1000.0 MiB, kernels 500.0 KiB, cuBLAS "
            "200.0 MiB; assumed: sextant doctor measures it on a GPU), 2.17 GiB of the GPU in "
            "all\n");
  OutsideTable measured = kTable;
  measured.is_measured = true;
  EXPECT_NE(outside_text(measured, config_of("fp32"), 0).find("measured by sextant doctor"),
            std::string::npos);
  EXPECT_FALSE(assumed_outside().is_measured);
}

}  // namespace
}  // namespace sextant
