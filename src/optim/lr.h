#pragma once
#include <cstdint>

#include "config/config.h"

namespace sextant {

// Learning rate of step 0 ... steps - 1: a linear warm-up to optim.lr over optim.warmup steps, then
// the schedule down to optim.min_lr.
//   constant  stays
//   linear    a straight line that reaches min_lr at the last step
//   cosine    half a cosine that does
//   wsd       stays, then a straight line over the last optim.wsd_decay of the steps
double learning_rate(const OptimConfig& optim, int64_t step, int64_t steps);

}  // namespace sextant
