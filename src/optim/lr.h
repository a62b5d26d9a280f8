#pragma once
#include <cstdint>

#include "config/config.h"

namespace sextant {

// Learning rate of step 0 ... steps - 1: a linear warm-up to optim.lr over optim.warmup steps, then
// the schedule down to optim.min_lr.
//   constant  no decay
//   linear    linear decay that reaches min_lr at the last step
//   cosine    half a cosine that reaches min_lr at the last step
//   wsd       constant, then linear decay over the last optim.wsd_decay of the steps
double learning_rate(const OptimConfig& optim, int64_t step, int64_t steps);

}  // namespace sextant
