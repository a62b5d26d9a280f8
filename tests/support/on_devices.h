#pragma once
#include <gtest/gtest.h>

#include "support/needs_gpu.h"
#include "tensor/device.h"

namespace sextant {

// Tests that run on the CPU and, where there is one, on a GPU: TEST_P with GetParam() as the
// device.
//   class Later : public OnDevices {};
//   SXT_ON_CPU_AND_GPU(Later);
class OnDevices : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (GetParam() == DeviceKind::Cuda) SXT_NEEDS_GPU();
  }
};

}  // namespace sextant

#define SXT_ON_CPU_AND_GPU(Suite)                                                       \
  INSTANTIATE_TEST_SUITE_P(Cpu, Suite, ::testing::Values(::sextant::DeviceKind::Cpu),   \
                           [](const auto&) { return std::string("Cpu"); });             \
  INSTANTIATE_TEST_SUITE_P(Cuda, Suite, ::testing::Values(::sextant::DeviceKind::Cuda), \
                           [](const auto&) { return std::string("Cuda"); })
