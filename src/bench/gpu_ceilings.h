#pragma once
#include "base/clock.h"
#include "base/dtype.h"
#include "bench/gpu_meter.h"

namespace sextant {

// A rate that a GPU keeps up for more than half a second, at the clock that its power limit leaves.
struct SustainedRate {
  double per_s = 0;
  GpuUse use = {};
};

struct GpuCeilings {
  SustainedRate product;  // FLOP/s of a product of matrices of 8192 x 8192
  SustainedRate copy;     // bytes read and written per second by copies of 1 GiB
};

// Of the first GPU, which must be free, with 3 GiB of memory. `type`: of the operands of products;
// their values are random, as zeros take less power and run faster.
GpuCeilings measure_gpu_ceilings(DType type, const Clock& clock);

}  // namespace sextant
