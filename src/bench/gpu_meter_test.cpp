#include "bench/gpu_meter.h"

#include <gtest/gtest.h>

#include "bench/gpu_ceilings.h"
#include "support/needs_gpu.h"

namespace sextant {
namespace {

TEST(GpuMeter, NamesAGpuAsItsDriverDoes) {
  std::string bytes;
  for (int i = 0; i < 16; ++i) bytes += static_cast<char>(i == 15 ? 0xfe : 16 * i + 1);
  EXPECT_EQ(nvml_name(bytes), "GPU-01112131-4151-6171-8191-a1b1c1d1e1fe");
}

TEST(GpuMeter, KnowsNothingOfAGpuThatIsNotThere) {
  const SystemClock clock;
  GpuMeter meter(1000, clock);
  meter.start();
  const GpuUse use = meter.stop();
  EXPECT_EQ(use.watts, 0);
  EXPECT_EQ(use.megahertz, 0);
}

TEST(GpuCeilings, OnCudaAreMeasured) {
  SXT_NEEDS_GPU();
  const SystemClock clock;
  const GpuCeilings ceilings = measure_gpu_ceilings(DType::BF16, clock);
  EXPECT_GT(ceilings.product.per_s, 0);
  EXPECT_GT(ceilings.copy.per_s, 0);
}

}  // namespace
}  // namespace sextant
