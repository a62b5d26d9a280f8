#include "bench/gpu_facts.h"

#include <gtest/gtest.h>

#include "tensor/gpu.h"

namespace sextant {
namespace {

TEST(GpuFacts, KnowTheDataSheetsByName) {
  EXPECT_DOUBLE_EQ(data_sheet_peak("NVIDIA H200", DType::BF16), 989.4e12);
  EXPECT_DOUBLE_EQ(data_sheet_peak("NVIDIA H200", DType::F32), 66.9e12);
  EXPECT_DOUBLE_EQ(data_sheet_peak("NVIDIA H100 80GB HBM3", DType::F16), 989.4e12);
  EXPECT_DOUBLE_EQ(data_sheet_peak("NVIDIA H100 PCIe", DType::BF16), 756e12);
  EXPECT_DOUBLE_EQ(data_sheet_peak("NVIDIA A100-SXM4-80GB", DType::BF16), 312e12);
  EXPECT_DOUBLE_EQ(data_sheet_peak("Some Other GPU", DType::BF16), 0);
}

TEST(GpuFacts, OfAMachineWithoutAGpuAreNone) {
  if (!gpu::why_unusable(0).empty()) {
    EXPECT_EQ(gpu_peak(DType::F32), 0);
  }
}

}  // namespace
}  // namespace sextant
